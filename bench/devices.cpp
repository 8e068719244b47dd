// tandem_bench_devices [--first SPEC] [--second SPEC] [--bytes N] [--file-bytes N] [--folder PATH] [--rounds N] [--json FILE]
//
// Two CUDA devices at once: copies from one to the other beside the driver's own, one mapped file read in place by both beside
// one alone, and a file loaded half to each beside one link. Every figure is a ratio within this run.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "harness.hpp"
#include "peers.hpp"
#include "tandem/tandem.hpp"

namespace tandem::bench {
namespace {

struct Plan {
    std::string first = "cuda:0";
    std::string second = "cuda:1";
    std::size_t bytes = std::size_t{1} << 30U;
    std::size_t file_bytes = std::size_t{4} << 30U;
    std::filesystem::path folder = std::filesystem::temp_directory_path();
    int rounds = 5;
};

int number_of(const Device& device) {
    return device.info().index;
}

// From `from` to `to`; what arrives is checked once.
void copies(const Device& from, const Device& to, const Plan& plan) {
    const auto count = static_cast<std::int64_t>(plan.bytes / 4);
    Queue queue(from);
    std::vector<std::int32_t> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), 7);
    const Array source = empty(from, int32, {count}), destination = empty(to, int32, {count});
    copy(queue, values, source);
    queue.synchronize();
    const std::string job = fmt::format("copy {} MiB to {}", plan.bytes >> 20U, to.spec());

    // The links are cut first: the library makes them with its first copy, and they stay.
    std::vector<Candidate> unlinked{cuda_peer_copy(number_of(from), number_of(to), plan.bytes, false)};
    measure(unlinked, plan.rounds);
    fmt::print("{:37}{:10} {}: {:.1f} GB/s\n", job, from.spec(), unlinked[0].name,
               static_cast<double>(plan.bytes) / unlinked[0].median() / 1e9);

    std::vector<Candidate> linked{{"tandem",
                                   [&] {
                                       copy(queue, source, destination);
                                       queue.synchronize();
                                   }},
                                  cuda_peer_copy(number_of(from), number_of(to), plan.bytes, true)};
    measure(linked, plan.rounds);
    report(job, from.spec(), linked, {static_cast<double>(plan.bytes), 1}, "0.95");
    Queue there(to);
    const bool is_right = to_vector<std::int32_t>(there, destination) == values;
    fmt::print("what arrived is {}\n", is_right ? "right, each element" : "WRONG");
}

// Runs one function for each device at the same time.
void at_once(const std::vector<std::function<void()>>& functions) {
    std::vector<std::thread> threads;
    for (const auto& function : functions)
        threads.emplace_back(function);
    for (std::thread& thread : threads)
        thread.join();
}

void one_file(const std::vector<Device>& devices, const Plan& plan) {
    const std::filesystem::path path = plan.folder / fmt::format("tandem-bench-{}-devices.npy", ::getpid());
    const auto rows = static_cast<std::int64_t>(plan.file_bytes / 4 / 1024);
    {
        std::ofstream file(path, std::ios::binary);
        file << npy::format_header(float32, {rows, 1024}, false);
        const std::vector<float> piece(std::size_t{1} << 22U, 1.0F);
        for (std::size_t done = 0; done < plan.file_bytes; done += piece.size() * 4)
            file.write(reinterpret_cast<const char*>(piece.data()),
                       static_cast<std::streamsize>(std::min(piece.size() * 4, plan.file_bytes - done)));
    }
    const double bytes = static_cast<double>(plan.file_bytes);
    {
        // One mapping, registered once.
        const npy::File file = npy::File::open(path);
        std::vector<Array> mapped;
        std::vector<Queue> queues;
        std::vector<double> totals(devices.size());
        for (const Device& device : devices) {
            mapped.push_back(npy::map(device, file));
            queues.emplace_back(device);
            fmt::print("{}: {}\n", device.spec(), mapped.back().residency());
        }
        std::vector<std::function<void()>> reads;
        for (std::size_t i = 0; i < devices.size(); ++i)
            reads.emplace_back([&, i] { totals[i] = item<float>(queues[i], sum(queues[i], mapped[i])); });
        std::vector<Candidate> together{{"both at once, bytes of both", [&] { at_once(reads); }}};
        for (std::size_t i = 0; i < devices.size(); ++i)
            together.push_back({devices[i].spec() + " alone, twice", [&, i] {
                                    reads[i]();
                                    reads[i]();
                                }});
        measure(together, plan.rounds);
        report("read one mapped file in place", "both", together, {2 * bytes, 1}, "1.8");
        for (std::size_t i = 0; i < devices.size(); ++i)
            fmt::print("{}: the sum is {} of {} elements that are 1\n", devices[i].spec(), totals[i], rows * 1024);
    }
    std::vector<Array> halves(devices.size());
    std::vector<std::function<void()>> loads;
    for (std::size_t i = 0; i < devices.size(); ++i) {
        const auto part = static_cast<std::int64_t>(i), parts = static_cast<std::int64_t>(devices.size());
        loads.emplace_back([&, i, part, parts] {
            halves[i] = npy::load(devices[i], path, {.ranges = {{rows * part / parts, rows * (part + 1) / parts}}});
        });
    }
    Array whole;
    const auto let_go = [&] {
        whole = Array();
        std::fill(halves.begin(), halves.end(), Array());
    };
    std::vector<Candidate> loading{{"half to each, at once", [&] { at_once(loads); }, let_go}};
    for (const Device& device : devices)
        loading.push_back({"all of it to " + device.spec(), [&] { whole = npy::load(device, path); }, let_go});
    measure(loading, plan.rounds);
    report("load one file, half to each", "both", loading, {bytes, 1}, "1.8");
    std::filesystem::remove(path);
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
    CLI::App app{"two CUDA devices at once"};
    tandem::bench::Plan plan;
    std::string json;
    app.add_option("--first", plan.first, "device");
    app.add_option("--second", plan.second, "device");
    app.add_option("--bytes", plan.bytes, "bytes of what is copied from one to the other");
    app.add_option("--file-bytes", plan.file_bytes, "bytes of the file");
    app.add_option("--folder", plan.folder, "where the file goes");
    app.add_option("--rounds", plan.rounds, "rounds that count");
    app.add_option("--json", json, "file for the results");
    CLI11_PARSE(app, argc, argv);
    try {
        const std::vector<tandem::Device> devices{tandem::open_device(plan.first), tandem::open_device(plan.second)};
        for (const tandem::Device& device : devices)
            fmt::print("{}: {}, {}\n", device.spec(), device.info().name, device.info().driver);
        tandem::bench::copies(devices[0], devices[1], plan);
        tandem::bench::copies(devices[1], devices[0], plan);
        tandem::bench::one_file(devices, plan);
        if (!json.empty()) tandem::bench::write_json(json);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 1;
    }
    return 0;
}
