// tandem_bench_elementwise [--device SPEC] [--bytes N] [--rounds N] [--json FILE]
//
// add and double on device memory against code written by hand for the one case, the cost of issuing a small operation against
// the driver's own launch, and the cost of opening a .npy file. Every figure is a ratio or a difference within this run.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "program.hpp"
#include "tandem/tandem.hpp"

namespace tandem::bench {
namespace {

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
            std::vector<Candidate> candidates{
                done("tandem", queue, repeats, [&] { job == Job::add ? add(queue, a, b, out) : twice(queue, a, out); })};
            append(candidates, elementwise_peers(device.info(), job, dtype == float64, count, repeats));
            measure(candidates, rounds);
            const double moved = static_cast<double>(bytes) * (job == Job::add ? 3 : 2) * repeats;
            report(fmt::format("{} {} {} MiB", job == Job::add ? "add" : "double", to_string(dtype), bytes >> 20U), device.spec(),
                   candidates, {moved, 1}, on_gpu ? "0.99" : "0.95");
        }
    }
}

void issue_cost(const Device& device, int rounds) {
    const Array a = empty(device, float32, {1024}), b = empty(device, float32, {1024}), out = empty(device, float32, {1024});
    Queue queue(device);
    std::vector<Candidate> candidates{issued("tandem", queue, unwaited_launches, [&] { add(queue, a, b, out); })};
    append(candidates, raw_launch_peers(device.info(), unwaited_launches));
    measure(candidates, rounds * 5);
    report("issue add of 1024 float32", device.spec(), candidates, {0, unwaited_launches}, "+0.3 us");
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
    using namespace tandem::bench;
    CLI::App app{"add and double against hand-written code, issue cost, opening cost"};
    CommonOptions options;
    std::size_t bytes = 0;
    add_common_options(app, options);
    add_bytes_option(app, bytes);
    return run_program(app, argc, argv, options.json, [&] {
        const tandem::Device device = open_and_tell(options.device);
        tandem::bench::elementwise(device, array_bytes(device, bytes), options.rounds);
        issue_cost(device, options.rounds);
        opening(options.rounds);
        return 0;
    });
}
