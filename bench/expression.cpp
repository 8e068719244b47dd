// tandem_bench_expression [--device SPEC] [--bytes N] [--rounds N] [--json FILE]
//
// Expressions, fused to one kernel each, against code written by hand for the one case; the same in single operations; the cost
// of issuing a small one against the driver's own launch; and how long the first use takes. Every figure is a ratio or a
// difference within this run.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "program.hpp"
#include "tandem/tandem.hpp"

namespace tandem::bench {
namespace {

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
        std::vector<Candidate> candidates{
            done("tandem, out = a * x + y", queue, repeats,
                 [&] {
                     elementwise(queue, "out = a * x + y", {{"out", out}, {"a", 2.0}, {"x", x}, {"y", y}});
                 }),
            own(done("tandem, y = a * x + y", queue, repeats, [&] { axpy(queue, 2.0, x, y); })),
            own(done("tandem, an element off", queue, repeats,
                     [&] {
                         elementwise(queue, "out = a * x + y",
                                     {{"out", out.slice(0, 0, count - 1)},
                                      {"a", 2.0},
                                      {"x", x.slice(0, 1, count)},
                                      {"y", y.slice(0, 0, count - 1)}});
                     })),
            own(done("tandem, in two operations", queue, repeats,
                     [&] {
                         scale(queue, 2.0, x, out);
                         add(queue, out, y, out);
                     })),
        };
        append(candidates, elementwise_peers(device.info(), Job::axpy, dtype == float64, count, repeats));
        measure(candidates, rounds);
        report(fmt::format("a * x + y {} {} MiB", to_string(dtype), bytes >> 20U), device.spec(), candidates,
               {static_cast<double>(bytes) * 3 * repeats, 1}, on_gpu ? "0.99" : "0.95");
    }
}

void issue_cost(const Device& device, int rounds) {
    const Array x = empty(device, float32, {1024}), y = empty(device, float32, {1024}), out = empty(device, float32, {1024});
    Queue queue(device);
    std::vector<Candidate> candidates{
        issued("tandem, a * x + y", queue, unwaited_launches,
               [&] {
                   elementwise(queue, "out = a * x + y", {{"out", out}, {"a", 2.0}, {"x", x}, {"y", y}});
               }),
        own(issued("tandem, add", queue, unwaited_launches, [&] { add(queue, x, y, out); }))};
    append(candidates, raw_launch_peers(device.info(), unwaited_launches));
    measure(candidates, rounds * 5);
    report("issue a * x + y of 1024 float32", device.spec(), candidates, {0, unwaited_launches}, "");
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
    using namespace tandem::bench;
    CLI::App app{"expressions against hand-written code, issue cost, first use"};
    CommonOptions options;
    std::size_t bytes = 0;
    add_common_options(app, options);
    add_bytes_option(app, bytes);
    return run_program(app, argc, argv, options.json, [&] {
        const tandem::Device device = open_and_tell(options.device);
        first_use(device);
        fused(device, array_bytes(device, bytes), options.rounds);
        issue_cost(device, options.rounds);
        return 0;
    });
}
