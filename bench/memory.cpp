// tandem_bench_memory [--device SPEC] [--bytes N] [--file-bytes N] [--folder PATH] [--rounds N] [--json FILE]
//
// Each kind of memory as a kernel reads and writes it, against the driver's own copy between pinned memory and the device;
// getting pinned memory; files used in place, from opening them to the first result, and what memory that takes. Every figure is
// a ratio or a difference within this run.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

#include "program.hpp"
#include "tandem/tandem.hpp"

namespace tandem::bench {
namespace {

struct Plan {
    std::size_t bytes = std::size_t{1} << 30U;
    std::size_t file_bytes = std::size_t{4} << 30U;
    std::filesystem::path folder = std::filesystem::temp_directory_path();
    CommonOptions common{.rounds = 5};
};

bool is_gpu(const Device& device) {
    return device.info().type == DeviceType::gpu;
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
    const std::vector<Candidate> copies = link_peers(device.info(), plan.bytes);
    std::vector<float> mine(plan.bytes / 4, 1.0F);
    for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pinned, MemoryKind::shared, MemoryKind::adopted}) {
        const auto report_both = [&](const Array& array, const char* how, const char* target_read, const char* target_write) {
            for (const bool reads : {true, false}) {
                std::vector<Candidate> candidates{
                    done("tandem", queue, 1, [&] { reads ? twice(queue, array, near_out) : twice(queue, near_in, array); })};
                if (!copies.empty()) candidates.push_back(copies[reads ? 0 : 1]);
                measure(candidates, plan.common.rounds);
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
                measure(candidates, plan.common.rounds);
                report(fmt::format("prefetch shared {} MiB", plan.bytes >> 20U), device.spec(), candidates,
                       {static_cast<double>(plan.bytes), 1}, "0.9");
                (void)prefetch(queue, array, Location::device);
                queue.synchronize();
                std::vector<Candidate> resident{
                    done("tandem", queue, 1, [&] { twice(queue, array, near_out); }),
                    done("the same on device memory", queue, 1, [&] { twice(queue, near_in, near_out); })};
                measure(resident, plan.common.rounds);
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
    measure(allocation, plan.common.rounds);
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
    measure(first, plan.common.rounds);
    report(fmt::format("from opening a {} MiB file to 2 x it", plan.file_bytes >> 20U), device.spec(), first, {0, 1}, "0.25 s");
    {
        const Array array = npy::map(device, a_path);
        fmt::print("zero copy: {}; {}\n", to_string(array.zero_copy()), array.residency());
        std::vector<Candidate> candidates{done("tandem", queue, 1, [&] { twice(queue, array, out); })};
        for (Candidate& copy : link_peers(device.info(), std::min(plan.bytes, plan.file_bytes))) {
            if (candidates.size() > 1) break;
            // As often as makes the same bytes.
            const std::size_t times = plan.file_bytes / std::min(plan.bytes, plan.file_bytes);
            candidates.push_back({copy.name, [run = copy.run, times] {
                                      for (std::size_t i = 0; i < times; ++i)
                                          run();
                                  }});
        }
        if (is_gpu(device)) {
            measure(candidates, plan.common.rounds);
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
            std::vector<Candidate> adds{done("tandem", queue, 1, [&] { add(queue, left, right, out); })};
            const auto floats = [](const npy::File& file) { return reinterpret_cast<const float*>(file.bytes().data()); };
            std::vector<float> other(static_cast<std::size_t>(count));
            adds.push_back(openmp_add(floats(a), floats(b), other.data(), count));
            measure(adds, plan.common.rounds);
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
    using namespace tandem::bench;
    CLI::App app{"kinds of memory and mapped files against the link"};
    Plan plan;
    add_common_options(app, plan.common);
    app.add_option("--bytes", plan.bytes, "bytes of one array");
    app.add_option("--file-bytes", plan.file_bytes, "bytes of the file");
    app.add_option("--folder", plan.folder, "where the file goes");
    return run_program(app, argc, argv, plan.common.json, [&] {
        const tandem::Device device = open_and_tell(plan.common.device);
        kinds(device, plan);
        files(device, plan);
        return 0;
    });
}
