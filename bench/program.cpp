#include "bench/program.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <iterator>

namespace tandem::bench {

void add_common_options(CLI::App& app, CommonOptions& options) {
    app.add_option("--device", options.device, "device, as open_device takes it");
    app.add_option("--rounds", options.rounds, "rounds that count");
    app.add_option("--json", options.json, "file for the results");
}

void add_bytes_option(CLI::App& app, std::size_t& bytes) {
    app.add_option("--bytes", bytes, "bytes of one array; 0: 1 GiB on a GPU, 256 MiB else");
}

std::size_t array_bytes(const Device& device, std::size_t bytes) {
    if (bytes != 0) return bytes;
    return device.info().type == DeviceType::gpu ? std::size_t{1} << 30U : std::size_t{256} << 20U;
}

int run_program(CLI::App& app, int argc, char** argv, const std::string& json, const std::function<int()>& work) {
    CLI11_PARSE(app, argc, argv);
    try {
        const int status = work();
        if (!json.empty()) write_json(json);
        return status;
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 1;
    }
}

Device open_and_tell(const std::string& spec) {
    Device device = open_device(spec);
    fmt::print("{}: {}, {}\n", device.spec(), device.info().name, device.info().driver);
    return device;
}

std::vector<Candidate> elementwise_peers(const DeviceInfo& info, Job job, bool float64, std::int64_t count, int repeats) {
#if TANDEM_BENCH_CUDA
    if (info.backend == "cuda") return cuda_peers(job, float64, count, repeats);
#endif
#if TANDEM_BENCH_OPENCL
    if (info.backend == "opencl" && info.type == DeviceType::gpu)
        return opencl_peers(info.platform, info.name, job, float64, count, repeats);
#endif
    // A processor's rival is what its owner would write for it.
    return openmp_peers(job, float64, count, repeats);
}

std::vector<Candidate> raw_launch_peers(const DeviceInfo& info, int repeats) {
    std::vector<Candidate> peers;
#if TANDEM_BENCH_CUDA
    if (info.backend == "cuda") peers.push_back(cuda_raw_launch(repeats));
#endif
#if TANDEM_BENCH_OPENCL
    if (info.backend == "opencl") peers.push_back(opencl_raw_launch(info.platform, info.name, repeats));
#endif
    return peers;
}

std::vector<Candidate> link_peers(const DeviceInfo& info, std::size_t bytes) {
#if TANDEM_BENCH_CUDA
    if (info.backend == "cuda") return cuda_link(bytes);
#endif
#if TANDEM_BENCH_OPENCL
    if (info.backend == "opencl" && !info.shares_host_memory) return opencl_link(info.platform, info.name, bytes);
#endif
    return {};
}

void append(std::vector<Candidate>& candidates, std::vector<Candidate> more) {
    candidates.insert(candidates.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace tandem::bench
