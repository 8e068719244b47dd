// tandem_bench_expression [--device SPEC] [--bytes N] [--rounds N] [--json FILE]
//
// Expressions, fused to one kernel each, against code written by hand for the one case; the same in single operations; the cost
// of issuing a small one against the driver's own launch; and how long the first use takes. Every figure is a ratio or a
// difference within this run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "harness.hpp"
#include "peers.hpp"
#include "tandem/tandem.hpp"

namespace tandem::bench {
namespace {

std::vector<Candidate> peers_for(const DeviceInfo& info, bool float64_elements, std::int64_t count, int repeats) {
#if TANDEM_BENCH_CUDA
    if (info.backend == "cuda") return cuda_peers(Job::axpy, float64_elements, count, repeats);
#endif
#if TANDEM_BENCH_OPENCL
    if (info.backend == "opencl" && info.type == DeviceType::gpu)
        return opencl_peers(info.platform, info.name, Job::axpy, float64_elements, count, repeats);
#endif
    return openmp_peers(Job::axpy, float64_elements, count, repeats);
}

void fused(const Device& device, std::size_t bytes, int rounds) {
    const bool on_gpu = device.info().type == DeviceType::gpu;
    const int repeats = on_gpu ? 20 : 2;
    for (const DType dtype : {float32, float64}) {
        if (dtype == float64 && !device.info().has_float64) continue;
        const auto count = static_cast<std::int64_t>(bytes / size_bytes(dtype));
        const Array x = empty(device, dtype, {count}), y = empty(device, dtype, {count}), out = empty(device, dtype, {count});
        Queue queue(device);
        for (const Array& array : {x, y, out})
            fill(queue, array, 1);  // touches every page
        queue.synchronize();
        const auto candidate = [&](std::string name, auto&& run) {
            return Candidate{std::move(name), [&queue, repeats, run] {
                                 for (int i = 0; i < repeats; ++i)
                                     run();
                                 queue.synchronize();
                             }};
        };
        std::vector<Candidate> candidates{
            candidate("tandem, out = a * x + y",
                      [&] {
                          elementwise(queue, "out = a * x + y", {{"out", out}, {"a", 2.0}, {"x", x}, {"y", y}});
                      }),
            candidate("tandem, y = a * x + y", [&] { axpy(queue, 2.0, x, y); }),
            candidate("tandem, an element off",
                      [&] {
                          elementwise(queue, "out = a * x + y",
                                      {{"out", out.slice(0, 0, count - 1)},
                                       {"a", 2.0},
                                       {"x", x.slice(0, 1, count)},
                                       {"y", y.slice(0, 0, count - 1)}});
                      }),
            candidate("tandem, in two operations",
                      [&] {
                          scale(queue, 2.0, x, out);
                          add(queue, out, y, out);
                      }),
        };
        for (Candidate& peer : peers_for(device.info(), dtype == float64, count, repeats))
            candidates.push_back(std::move(peer));
        measure(candidates, rounds);
        report(fmt::format("a * x + y {} {} MiB", to_string(dtype), bytes >> 20U), device.spec(), candidates,
               {static_cast<double>(bytes) * 3 * repeats, 1}, on_gpu ? "0.99" : "0.95");
    }
}

void issue_cost(const Device& device, int rounds) {
    constexpr int repeats = 400;  // fewer than a driver queues before it makes the caller wait
    const Array x = empty(device, float32, {1024}), y = empty(device, float32, {1024}), out = empty(device, float32, {1024});
    Queue queue(device);
    const auto synchronize = [&] { queue.synchronize(); };
    std::vector<Candidate> candidates{
        {"tandem, a * x + y",
         [&] {
             for (int i = 0; i < repeats; ++i)
                 elementwise(queue, "out = a * x + y", {{"out", out}, {"a", 2.0}, {"x", x}, {"y", y}});
         },
         synchronize},
        {"tandem, add",
         [&] {
             for (int i = 0; i < repeats; ++i)
                 add(queue, x, y, out);
         },
         synchronize}};
#if TANDEM_BENCH_CUDA
    if (device.info().backend == "cuda") candidates.push_back(cuda_raw_launch(repeats));
#endif
#if TANDEM_BENCH_OPENCL
    if (device.info().backend == "opencl")
        candidates.push_back(opencl_raw_launch(device.info().platform, device.info().name, repeats));
#endif
    measure(candidates, rounds * 5);
    report("issue a * x + y of 1024 float32", device.spec(), candidates, {0, repeats}, "");
}

void first_use(const Device& device) {
    Queue queue(device);
    const Array x = empty(device, float32, {1024});
    fill(queue, x, 1);
    queue.synchronize();
    for (const char* text : {"x = x * 3 - sqrt(x) / 7", "x = x * 3 - sqrt(x) / 8"}) {
        const auto start = std::chrono::steady_clock::now();
        elementwise(queue, text, {{"x", x}});
        queue.synchronize();
        const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
        fmt::print("first use of \"{}\": {:.2f} ms (compiled, or from the cache on disk)\n", text, taken.count());
    }
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
    CLI::App app{"expressions against hand-written code, issue cost, first use"};
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
        tandem::bench::first_use(device);
        tandem::bench::fused(device, bytes, rounds);
        tandem::bench::issue_cost(device, rounds);
        if (!json.empty()) tandem::bench::write_json(json);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 1;
    }
    return 0;
}
