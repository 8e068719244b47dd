// tandem_bench_launch [--device SPEC] [--rounds N] [--json FILE]
//
// Callers' own kernels: the cost of a launch against the driver's own, a recorded sequence of small launches against the
// driver's graph, and how long a process takes to have its first kernel ready, with and without what an earlier one has kept.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "program.hpp"
#include "tandem/tandem.hpp"

namespace tandem::bench {
namespace {

const KernelSource small{
    .cuda = R"(extern "C" __global__ void small(float* out, const float* a, const float* b, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = a[i] + b[i];
})",
    .opencl = R"(__kernel void small(__global float* out, __global const float* a, __global const float* b,
                    int count) {
    int i = get_global_id(0);
    if (i < count) out[i] = a[i] + b[i];
})",
    .host = host_kernel([](std::size_t i, float* out, const float* a, const float* b, int /*count*/) { out[i] = a[i] + b[i]; })};

struct Small {
    explicit Small(const Device& device) : queue(device), kernel(device.compile(small, "small")) {
        for (Array* array : {&a, &b, &out})
            *array = empty(device, float32, {1024});
    }
    void launch() { queue.launch(kernel, 1024, {write(out), read(a), read(b), value(1024)}, {.group = 256}); }

    Queue queue;
    Kernel kernel;
    Array a, b, out;
};

void issue_cost(const Device& device, int rounds) {
    Small work(device);
    std::vector<Candidate> candidates{issued("tandem", work.queue, unwaited_launches, [&] { work.launch(); })};
    append(candidates, raw_launch_peers(device.info(), unwaited_launches));
    measure(candidates, rounds * 5);
    report("launch of 1024 items, 4 arguments", device.spec(), candidates, {0, unwaited_launches}, "+0.5 us");
}

void replay(const Device& device, int rounds) {
    constexpr int launches = 100, repeats = 20;
    Small work(device);
    const Graph graph = work.queue.record_graph([&] {
        for (int i = 0; i < launches; ++i)
            work.launch();
    });
    std::vector<Candidate> candidates{
        done("tandem", work.queue, repeats, [&] { work.queue.replay(graph); }),
        own(done("the same launches, not recorded", work.queue, repeats * launches, [&] { work.launch(); }))};
#if TANDEM_BENCH_CUDA
    if (device.info().backend == "cuda") candidates.push_back(cuda_raw_graph(launches, repeats));
#endif
    measure(candidates, rounds);
    report(fmt::format("replay of 100 launches ({})", graph.method()), device.spec(), candidates, {0, repeats}, "1.1 x raw");
}

// What a child does: one kernel from nothing, and the times on its standard output.
int first_kernel(const std::string& spec) {
    const auto start = std::chrono::steady_clock::now();
    const auto milliseconds = [&] {
        return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    };
    const Device device = open_device(spec);
    const double opened = milliseconds();
    Small work(device);
    const double ready = milliseconds();
    work.launch();
    work.queue.synchronize();
    fmt::print("device open after {:.1f} ms, kernel ready {:.1f} ms later ({}), first launch done {:.1f} ms later\n", opened,
               ready - opened, work.kernel.info().is_from_cache ? "from the cache" : "compiled", milliseconds() - ready);
    return 0;
}

void first_kernels(const Device& device) {
    const std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("tandem-bench-{}", getpid());
    std::filesystem::create_directory(folder);
    for (int round = 0; round < 3; ++round) {
        std::fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            // Nothing of earlier runs, the drivers' own caches included.
            for (const char* name : {"XDG_CACHE_HOME", "POCL_CACHE_DIR", "CUDA_CACHE_PATH"})
                setenv(name, folder.c_str(), 1);
            execl("/proc/self/exe", "first kernel", "--first", device.spec().c_str(), nullptr);
            _exit(127);
        }
        fmt::print("{:<36} {:<9} ", fmt::format("first kernel, process {}", round + 1), device.spec());
        std::fflush(stdout);
        int status = 0;
        waitpid(child, &status, 0);
        if (status != 0) fmt::print("failed: {}\n", status);
    }
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
    using namespace tandem::bench;
    CLI::App app{"launch cost, replay of graphs, and the time to the first kernel"};
    CommonOptions options;
    std::string first;
    add_common_options(app, options);
    app.add_option("--first", first, "only make one kernel on this device");
    return run_program(app, argc, argv, options.json, [&] {
        if (!first.empty()) return first_kernel(first);
        const tandem::Device device = open_and_tell(options.device);
        first_kernels(device);
        issue_cost(device, options.rounds);
        replay(device, options.rounds);
        return 0;
    });
}
