// tandem_bench_memory [--device SPEC] [--bytes N] [--file-bytes N] [--folder PATH] [--rounds N] [--json FILE]
//
// Each kind of memory as a kernel reads and writes it, against the driver's own copy between pinned memory and the device;
// getting pinned memory; files used in place, from opening them to the first result, and what memory that takes. Every figure is
// a ratio or a difference within this run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

#include "harness.hpp"
#include "peers.hpp"
#include "tandem/tandem.hpp"

namespace tandem::bench {
namespace {

struct Plan {
    std::size_t bytes = std::size_t{1} << 30U;
    std::size_t file_bytes = std::size_t{4} << 30U;
    std::filesystem::path folder = std::filesystem::temp_directory_path();
    int rounds = 5;
};

bool is_gpu(const Device& device) {
    return device.info().type == DeviceType::gpu;
}

// To the device, and from it; nothing where host and device are one.
std::vector<Candidate> link(const DeviceInfo& info, std::size_t bytes) {
#if TANDEM_BENCH_CUDA
    if (info.backend == "cuda") return cuda_link(bytes);
#endif
#if TANDEM_BENCH_OPENCL
    if (info.backend == "opencl" && !info.shares_host_memory) return opencl_link(info.platform, info.name, bytes);
#endif
    return {};
}

// VmRSS's parts, in MiB: "RssAnon" or "RssFile".
double resident_mib(const std::string& part) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with(part + ":")) return std::stod(line.substr(part.size() + 1)) / 1024;
    }
    return 0;
}

void write_file(const std::filesystem::path& path, std::int64_t count) {
    std::ofstream file(path, std::ios::binary);
    file << npy::format_header(float32, {count}, false);
    std::vector<float> piece(std::size_t{1} << 20U);
    for (std::int64_t done = 0; done < count; done += static_cast<std::int64_t>(piece.size())) {
        for (std::size_t i = 0; i < piece.size(); ++i)
            piece[i] = static_cast<float>((done + static_cast<std::int64_t>(i)) % 1000);
        const auto n = std::min<std::int64_t>(count - done, static_cast<std::int64_t>(piece.size()));
        file.write(reinterpret_cast<const char*>(piece.data()), static_cast<std::streamsize>(n) * 4);
    }
}

void kinds(const Device& device, const Plan& plan) {
    const auto count = static_cast<std::int64_t>(plan.bytes / 4);
    Queue queue(device);
    const Array near_in = empty(device, float32, {count}), near_out = empty(device, float32, {count});
    byteswap(queue, near_out, near_in);  // writes every page: what never was is one page of zeros on a CPU
    const std::vector<Candidate> copies = link(device.info(), plan.bytes);
    std::vector<float> mine(plan.bytes / 4, 1.0F);
    for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pinned, MemoryKind::shared, MemoryKind::adopted}) {
        const auto report_both = [&](const Array& array, const char* how, const char* target_read, const char* target_write) {
            for (const bool reads : {true, false}) {
                std::vector<Candidate> candidates{{"tandem", [&] {
                                                       reads ? twice(queue, array, near_out) : twice(queue, near_in, array);
                                                       queue.synchronize();
                                                   }}};
                if (!copies.empty()) candidates.push_back(copies[reads ? 0 : 1]);
                measure(candidates, plan.rounds);
                report(fmt::format("kernel {} {}{} {} MiB", reads ? "reads" : "writes", to_string(kind), how, plan.bytes >> 20U),
                       device.spec(), candidates, {static_cast<double>(plan.bytes), 1}, reads ? target_read : target_write);
            }
        };
        try {
            const Array array = kind == MemoryKind::adopted ? adopt(device, mine) : empty(device, float32, {count}, kind);
            if (kind != MemoryKind::adopted) copy(queue, near_in, array);
            queue.synchronize();
            fmt::print("{}: zero copy: {}; {}\n", to_string(kind), to_string(array.zero_copy()), array.residency());
            if (kind == MemoryKind::shared) {
                std::vector<Candidate> candidates{{"tandem",
                                                   [&] {
                                                       (void)prefetch(queue, array, Location::device);
                                                       queue.synchronize();
                                                   },
                                                   [&] {
                                                       (void)prefetch(queue, array, Location::host);
                                                       queue.synchronize();
                                                   }}};
                if (!copies.empty()) candidates.push_back(copies[0]);
                measure(candidates, plan.rounds);
                report(fmt::format("prefetch shared {} MiB", plan.bytes >> 20U), device.spec(), candidates,
                       {static_cast<double>(plan.bytes), 1}, "0.9");
                (void)prefetch(queue, array, Location::device);
                queue.synchronize();
                std::vector<Candidate> resident{{"tandem",
                                                 [&] {
                                                     twice(queue, array, near_out);
                                                     queue.synchronize();
                                                 }},
                                                {"the same on device memory", [&] {
                                                     twice(queue, near_in, near_out);
                                                     queue.synchronize();
                                                 }}};
                measure(resident, plan.rounds);
                report(fmt::format("kernel reads shared, resident, {} MiB", plan.bytes >> 20U), device.spec(), resident,
                       {static_cast<double>(plan.bytes), 1}, "0.95");
            }
            const bool is_far = kind == MemoryKind::pinned || kind == MemoryKind::adopted;
            report_both(array, kind == MemoryKind::shared ? ", resident," : "", is_far ? "0.92" : "-", "-");
        } catch (const Error& error) {
            fmt::print("{}: {}\n", to_string(kind), error.what());
        }
    }
    std::optional<Buffer> held;
    std::vector<Candidate> allocation{
        {"tandem", [&] { held.emplace(device, plan.bytes, MemoryKind::pinned); }, [&] { held.reset(); }}};
#if TANDEM_BENCH_CUDA
    if (device.info().backend == "cuda") allocation.push_back(cuda_pinned_allocation(plan.bytes));
#endif
    measure(allocation, plan.rounds);
    report(fmt::format("get {} MiB of pinned memory", plan.bytes >> 20U), device.spec(), allocation,
           {static_cast<double>(plan.bytes), 1}, "4");
}

void files(const Device& device, const Plan& plan) {
    const auto count = static_cast<std::int64_t>(plan.file_bytes / 4);
    const std::filesystem::path a_path = plan.folder / fmt::format("tandem-bench-{}-a.npy", getpid());
    const std::filesystem::path b_path = plan.folder / fmt::format("tandem-bench-{}-b.npy", getpid());
    write_file(a_path, count);
    Queue queue(device);
    const Array out = empty(device, float32, {count});
    twice(queue, out);  // its pages are there, and the kernel is loaded
    queue.synchronize();
    const auto cached = [&](const std::filesystem::path& path) {
        const npy::File file = npy::File::open(path);
        return static_cast<double>(file.mapping().cached_bytes(0, file.mapping().size_bytes())) /
               static_cast<double>(file.mapping().size_bytes());
    };
    fmt::print("{:.0f} % of the file is in the page cache\n", 100 * cached(a_path));
    const double anonymous = resident_mib("RssAnon"), mapped = resident_mib("RssFile");
    Array held;  // letting go of the file comes after the result
    std::vector<Candidate> first{{"tandem",
                                  [&] {
                                      held = npy::map(device, a_path);
                                      twice(queue, held, out);
                                      queue.synchronize();
                                  },
                                  [&] { held = Array(); }}};
    measure(first, plan.rounds);
    report(fmt::format("from opening a {} MiB file to 2 x it", plan.file_bytes >> 20U), device.spec(), first, {0, 1}, "0.25 s");
    {
        const Array array = npy::map(device, a_path);
        fmt::print("zero copy: {}; {}\n", to_string(array.zero_copy()), array.residency());
        std::vector<Candidate> candidates{{"tandem", [&] {
                                               twice(queue, array, out);
                                               queue.synchronize();
                                           }}};
        for (Candidate& copy : link(device.info(), std::min(plan.bytes, plan.file_bytes))) {
            if (candidates.size() > 1) break;
            // As often as makes the same bytes.
            const std::size_t times = plan.file_bytes / std::min(plan.bytes, plan.file_bytes);
            candidates.push_back({copy.name, [run = copy.run, times] {
                                      for (std::size_t i = 0; i < times; ++i)
                                          run();
                                  }});
        }
        if (is_gpu(device)) {
            measure(candidates, plan.rounds);
            report(fmt::format("kernel reads a mapped file {} MiB", plan.file_bytes >> 20U), device.spec(), candidates,
                   {static_cast<double>(plan.file_bytes), 1}, "0.92");
            fmt::print("while it is mapped: RssAnon {:+.0f} MiB, RssFile {:+.0f} MiB\n", resident_mib("RssAnon") - anonymous,
                       resident_mib("RssFile") - mapped);
        } else {
            write_file(b_path, count);
            const npy::File a = npy::File::open(a_path), b = npy::File::open(b_path);
            const Array left = npy::map(device, a), right = npy::map(device, b);
            add(queue, left, right, out);
            queue.synchronize();
            fmt::print("after add of two mapped files: RssAnon {:+.0f} MiB, RssFile {:+.0f} MiB\n",
                       resident_mib("RssAnon") - anonymous, resident_mib("RssFile") - mapped);
            std::vector<Candidate> adds{{"tandem", [&] {
                                             add(queue, left, right, out);
                                             queue.synchronize();
                                         }}};
            const auto floats = [](const npy::File& file) { return reinterpret_cast<const float*>(file.bytes().data()); };
            std::vector<float> other(static_cast<std::size_t>(count));
            adds.push_back(openmp_add(floats(a), floats(b), other.data(), count));
            measure(adds, plan.rounds);
            report(fmt::format("add of two mapped files {} MiB", plan.file_bytes >> 20U), device.spec(), adds,
                   {3 * static_cast<double>(plan.file_bytes), 1}, "0.9");
            std::filesystem::remove(b_path);
        }
    }
    fmt::print("afterwards: RssAnon {:+.0f} MiB, RssFile {:+.0f} MiB\n", resident_mib("RssAnon") - anonymous,
               resident_mib("RssFile") - mapped);
    std::filesystem::remove(a_path);
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
    CLI::App app{"kinds of memory and mapped files against the link"};
    std::string device_spec;
    std::string json;
    tandem::bench::Plan plan;
    app.add_option("--device", device_spec, "device, as open_device takes it");
    app.add_option("--bytes", plan.bytes, "bytes of one array");
    app.add_option("--file-bytes", plan.file_bytes, "bytes of the file");
    app.add_option("--folder", plan.folder, "where the file goes");
    app.add_option("--rounds", plan.rounds, "rounds that count");
    app.add_option("--json", json, "file for the results");
    CLI11_PARSE(app, argc, argv);
    try {
        const tandem::Device device = tandem::open_device(device_spec);
        fmt::print("{}: {}, {}\n", device.spec(), device.info().name, device.info().driver);
        tandem::bench::kinds(device, plan);
        tandem::bench::files(device, plan);
        if (!json.empty()) tandem::bench::write_json(json);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 1;
    }
    return 0;
}
