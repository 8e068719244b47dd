// tandem_bench_elementwise [--device SPEC] [--bytes N] [--rounds N] [--json FILE]
//
// add and double on device memory against code written by hand for the one case, the cost of issuing a small operation against
// the driver's own launch, and the cost of opening a .npy file. Every figure is a ratio or a difference within this run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "harness.hpp"
#include "peers.hpp"
#include "tandem/tandem.hpp"

namespace tandem::bench {
namespace {

std::vector<Candidate> peers_for(const DeviceInfo& info, Job job, bool float64_elements, std::int64_t count, int repeats) {
#if TANDEM_BENCH_CUDA
    if (info.backend == "cuda") return cuda_peers(job, float64_elements, count, repeats);
#endif
#if TANDEM_BENCH_OPENCL
    if (info.backend == "opencl") {
        std::vector<Candidate> peers = opencl_peers(info.platform, info.name, job, float64_elements, count, repeats);
        // A processor's rival is what its owner would write for it.
        if (info.type == DeviceType::cpu) peers = openmp_peers(job, float64_elements, count, repeats);
        return peers;
    }
#endif
    return openmp_peers(job, float64_elements, count, repeats);
}

void elementwise(const Device& device, std::size_t bytes, int rounds) {
    const bool on_gpu = device.info().type == DeviceType::gpu;
    const int repeats = on_gpu ? 20 : 2;
    for (const DType dtype : {float32, float64}) {
        if (dtype == float64 && !device.info().has_float64) continue;
        const auto count = static_cast<std::int64_t>(bytes / size_bytes(dtype));
        const Array a = empty(device, dtype, {count}), b = empty(device, dtype, {count}), out = empty(device, dtype, {count});
        Queue queue(device);
        byteswap(queue, out, a);  // touches every page
        byteswap(queue, out, b);
        queue.synchronize();
        for (const Job job : {Job::add, Job::twice}) {
            std::vector<Candidate> candidates{{"tandem", [&] {
                                                   for (int i = 0; i < repeats; ++i)
                                                       job == Job::add ? add(queue, a, b, out) : twice(queue, a, out);
                                                   queue.synchronize();
                                               }}};
            for (Candidate& peer : peers_for(device.info(), job, dtype == float64, count, repeats))
                candidates.push_back(std::move(peer));
            measure(candidates, rounds);
            const double moved = static_cast<double>(bytes) * (job == Job::add ? 3 : 2) * repeats;
            report(fmt::format("{} {} {} MiB", job == Job::add ? "add" : "double", to_string(dtype), bytes >> 20U), device.spec(),
                   candidates, {moved, 1}, on_gpu ? "0.99" : "0.95");
        }
    }
}

void issue_cost(const Device& device, int rounds) {
    constexpr int repeats = 400;  // fewer than a driver queues before it makes the caller wait
    const Array a = empty(device, float32, {1024}), b = empty(device, float32, {1024}), out = empty(device, float32, {1024});
    Queue queue(device);
    std::vector<Candidate> candidates{{"tandem",
                                       [&] {
                                           for (int i = 0; i < repeats; ++i)
                                               add(queue, a, b, out);
                                       },
                                       [&] { queue.synchronize(); }}};
#if TANDEM_BENCH_CUDA
    if (device.info().backend == "cuda") candidates.push_back(cuda_raw_launch(repeats));
#endif
#if TANDEM_BENCH_OPENCL
    if (device.info().backend == "opencl")
        candidates.push_back(opencl_raw_launch(device.info().platform, device.info().name, repeats));
#endif
    measure(candidates, rounds * 5);
    report("issue add of 1024 float32", device.spec(), candidates, {0, repeats}, "+0.3 us");
}

void opening(int rounds) {
    const std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("tandem-bench-{}", getpid());
    std::filesystem::create_directory(folder);
    constexpr int repeats = 200;
    for (const std::uint64_t count : {std::uint64_t{224}, std::uint64_t{25'000'000'000}}) {
        const std::filesystem::path path = folder / "sparse.npy";
        const std::string header = npy::format_header(float32, {static_cast<std::int64_t>(count)}, false);
        std::ofstream(path, std::ios::binary) << header;
        std::filesystem::resize_file(path, header.size() + count * 4);
        std::vector<Candidate> candidates{{"npy::File::open", [&] {
                                               for (int i = 0; i < repeats; ++i)
                                                   (void)npy::File::open(path);
                                           }}};
        measure(candidates, rounds * 5);
        report(fmt::format("open a .npy of {} bytes", header.size() + count * 4), "-", candidates, {0, repeats}, "under 30 us");
    }
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
    CLI::App app{"add and double against hand-written code, issue cost, opening cost"};
    std::string device_spec;
    std::string json;
    std::size_t bytes = 0;
    int rounds = 9;
    app.add_option("--device", device_spec, "device, as open_device takes it");
    app.add_option("--bytes", bytes, "bytes of one array; 0: 1 GiB on a GPU, 256 MiB else");
    app.add_option("--rounds", rounds, "rounds that count");
    app.add_option("--json", json, "file for the results");
    CLI11_PARSE(app, argc, argv);
    try {
        const tandem::Device device = tandem::open_device(device_spec);
        fmt::print("{}: {}, {}\n", device.spec(), device.info().name, device.info().driver);
        if (bytes == 0) bytes = device.info().type == tandem::DeviceType::gpu ? std::size_t{1} << 30U : std::size_t{256} << 20U;
        tandem::bench::elementwise(device, bytes, rounds);
        tandem::bench::issue_cost(device, rounds);
        tandem::bench::opening(rounds);
        if (!json.empty()) tandem::bench::write_json(json);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 1;
    }
    return 0;
}
