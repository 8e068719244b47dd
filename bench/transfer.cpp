// tandem_bench_transfer [--device SPEC] [--file-bytes N] [--folder PATH] [--rounds N] [--json FILE] [--readers N] [--writers N]
// [--slot-bytes N]
//
// Files to the device and back against the link and the storage, warm and cold; byte order; streams in bounded memory; small
// files; parts of files. Every figure is a ratio within this run, and the page cache is put into its state, and looked at, before
// each.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/device_state.hpp"
#include "core/output_file.hpp"
#include "core/posix_file.hpp"
#include "core/transport/file_transfer.hpp"
#include "core/transport/window_loader.hpp"
#include "program.hpp"
#include "tandem/tandem.hpp"

namespace tandem::bench {
namespace {

struct Plan {
    std::size_t file_bytes = std::size_t{4} << 30U;
    std::size_t cold_bytes = std::size_t{2} << 30U;
    std::filesystem::path folder = std::filesystem::temp_directory_path();
    CommonOptions common{.rounds = 5};
    TransferLimits limits;
};

// The link's copy as often as makes `bytes`.
std::vector<Candidate> link_copies(const DeviceInfo& info, std::size_t bytes, std::size_t direction) {
    const std::size_t once = std::min(bytes, std::size_t{1} << 30U);
    std::vector<Candidate> copies = link_peers(info, once);
    if (copies.empty()) return {};
    return {{copies[direction].name, [run = copies[direction].run, times = bytes / once] {
                 for (std::size_t i = 0; i < times; ++i)
                     run();
             }}};
}

// A file that goes with its end. Written in few long calls, as np.save does: the page cache then has it in large pieces, which
// the process maps, and a driver registers, in a third of the time that single pages take.
class BenchFile {
public:
    BenchFile(const Plan& plan, const char* name, std::size_t bytes, bool big_endian)
        : path_(plan.folder / fmt::format("tandem-bench-{}-{}.npy", ::getpid(), name)) {
        const auto count = static_cast<std::int64_t>(bytes / 8);
        std::string header = npy::format_header(float64, {count / 512, 512}, false);
        if (big_endian) header.replace(header.find("<f8"), 3, ">f8");
        std::vector<double> piece(std::size_t{1} << 25U);
        for (std::size_t i = 0; i < piece.size(); ++i)
            piece[i] = static_cast<double>(i);
        const FileDescriptor file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
        const auto write = [&](const void* data, std::size_t size) {
            if (::write(file.number(), data, size) != static_cast<ssize_t>(size))
                throw Error(ErrorCode::io, fmt::format("{}: {} bytes can't be written", path_.native(), size));
        };
        write(header.data(), header.size());
        for (std::size_t done = 0; done < bytes; done += piece.size() * 8)
            write(piece.data(), std::min(piece.size() * 8, bytes - done));
    }
    ~BenchFile() {
        std::error_code ignored;
        std::filesystem::remove(path_, ignored);
    }
    BenchFile(const BenchFile&) = delete;
    BenchFile& operator=(const BenchFile&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

    [[nodiscard]] std::uint64_t cached_bytes() const {
        const MappedFile file = MappedFile::open(path_);
        return file.cached_bytes(0, file.size_bytes());
    }
    void make_cold() const {
        const int descriptor = ::open(path_.c_str(), O_RDONLY);
        ::fsync(descriptor);
        ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
        ::close(descriptor);
        if (const std::uint64_t left = cached_bytes(); left > (std::uint64_t{1} << 20U))
            fmt::print("not cold: {} bytes are still in the page cache\n", left);
    }
    void make_warm() const {
        parallel_read(path_.string(), 4, std::size_t{4} << 20U, false).run();
        const auto size = std::filesystem::file_size(path_);
        if (const std::uint64_t cached = cached_bytes(); cached < size)
            fmt::print("not warm: {} of {} bytes are in the page cache\n", cached, size);
    }

private:
    std::filesystem::path path_;
};

double peak_mib() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
    }
    return 0;
}

// What a load by windows can't be faster than where registering them is what takes the time.
Candidate registration(const Device& device, const std::filesystem::path& path) {
    const auto windows = std::make_shared<std::vector<std::shared_ptr<driver::Memory>>>();
    const auto run = [&device, path, windows] {
        const auto file = std::make_shared<const MappedFile>(MappedFile::open(path));
        const std::size_t window = WindowLoad().window_bytes;
        for (std::size_t at = 0; at < file->size_bytes(); at += window) {
            windows->push_back(device.state()->native->adopt({const_cast<std::byte*>(file->bytes().data()) + at,
                                                              std::min(window, file->size_bytes() - at), false, true, false}));
            windows->back()->owner = file;
        }
    };
    Candidate candidate{"registering its pages alone", run, [windows] { windows->clear(); }};
    candidate.is_own = true;  // nothing is on the device then
    return candidate;
}

void loads(const Device& device, const Plan& plan) {
    const BenchFile native(plan, "native", plan.file_bytes, false), swapped(plan, "swapped", plan.file_bytes, true);
    native.make_warm();
    swapped.make_warm();
    const double bytes = static_cast<double>(plan.file_bytes);
    Array held;
    const auto loading = [&](const BenchFile& file) { return [&] { held = npy::load(device, file.path()); }; };
    // Also of what is let go of behind the caller's back, which would slow down whoever comes next.
    const auto letting_go = [&] {
        held = Array();
        device.state()->transport.finish();
    };
    std::vector<Candidate> warm{{"tandem", loading(native), letting_go}};
    for (Candidate& copy : link_copies(device.info(), plan.file_bytes, 0))
        warm.push_back(std::move(copy));
    if (warm.size() == 1) warm.push_back(parallel_read(native.path().string(), 2, std::size_t{4} << 20U, false));
    if (device.state()->transport.limits().readers < device.state()->native->readers_worth_adopting())
        warm.push_back(registration(device, native.path()));
    measure(warm, plan.common.rounds);
    report(fmt::format("load a warm file of {} MiB", plan.file_bytes >> 20U), device.spec(), warm, {bytes, 1}, "0.90");
    std::vector<Candidate> lasting{{"tandem", [&] {
                                        loading(native)();
                                        letting_go();
                                    }}};
    lasting.insert(lasting.end(), warm.begin() + 1, warm.end());
    for (Candidate& candidate : lasting)
        candidate.seconds.clear(), candidate.cpu_seconds.clear();
    measure(lasting, std::min(plan.common.rounds, 3));
    report("load it and let go of all that took", device.spec(), lasting, {bytes, 1}, "-");
    std::vector<Candidate> orders{{"tandem", loading(swapped), letting_go}, {"native byte order", loading(native), letting_go}};
    measure(orders, plan.common.rounds);
    report("load a warm big-endian file", device.spec(), orders, {bytes, 1}, "0.95");

    const std::int64_t rows = static_cast<std::int64_t>(plan.file_bytes / 8 / 512);
    std::vector<Candidate> columns{{"tandem",
                                    [&] {
                                        held = npy::load(device, native.path(), {.ranges = {{0, rows}, {64, 72}}});
                                    },
                                    letting_go},
                                   {"the whole file", loading(native), letting_go}};
    measure(columns, std::min(plan.common.rounds, 3));
    report("load a 64th of its columns, by call", device.spec(), columns, {0, 1}, "-");
}

void cold_loads(const Device& device, const Plan& plan) {
    const BenchFile file(plan, "cold", plan.cold_bytes, false);
    const auto cooling = [&] { file.make_cold(); };
    cooling();
    Array held;
    std::vector<Candidate> cold{{"tandem", [&] { held = npy::load(device, file.path()); },
                                 [&] {
                                     held = Array();
                                     cooling();
                                 }}};
    for (const int threads : {4, 12}) {
        cold.push_back(parallel_read(file.path().string(), threads, std::size_t{4} << 20U, true));
        cold.back().name += fmt::format(" by {}", threads);
        cold.back().settle = cooling;
    }
    measure(cold, std::min(plan.common.rounds, 3));
    report(fmt::format("load a cold file of {} MiB", plan.cold_bytes >> 20U), device.spec(), cold,
           {static_cast<double>(plan.cold_bytes), 1}, "0.95");
}

void saves(const Device& device, const Plan& plan) {
    const std::size_t bytes = plan.cold_bytes;
    const Array array = empty(device, uint8, {static_cast<std::int64_t>(bytes)});
    // Without the flush and the renaming, which are the storage's.
    std::vector<Candidate> saving{{"tandem", [&] {
                                       OutputFile file(plan.folder / fmt::format("tandem-bench-{}-out.bin", ::getpid()));
                                       save_bytes(array, file);
                                   }}};
    for (const int threads : {1, 2, 4}) {
        saving.push_back(parallel_write(plan.folder, bytes, threads, std::size_t{4} << 20U, false));
        saving.back().name += fmt::format(" by {}", threads);
    }
    measure(saving, std::min(plan.common.rounds, 3));
    report(fmt::format("device to page cache {} MiB", bytes >> 20U), device.spec(), saving, {static_cast<double>(bytes), 1},
           "0.9");
}

void streams(const Device& device, const Plan& plan) {
    const BenchFile file(plan, "stream", plan.file_bytes, false);
    file.make_warm();
    Queue queue(device);
    const StreamInput input(file.path());
    const std::filesystem::path out = plan.folder / fmt::format("tandem-bench-{}-out.npy", ::getpid());
    const double before = peak_mib();
    std::vector<Candidate> streaming{
        {"tandem",
         [&] {
             stream(queue, {&input, 1}, {out, float64},
                    [](Queue& on, std::span<const Array> in, const Array& result) { twice(on, in[0], result); });
         },
         [&] { std::filesystem::remove(out); }},
        parallel_write(plan.folder, plan.file_bytes, 2, std::size_t{4} << 20U, true)};
    measure(streaming, std::min(plan.common.rounds, 2));
    report(fmt::format("stream a {} MiB file through 1 GiB", plan.file_bytes >> 20U), device.spec(), streaming,
           {static_cast<double>(plan.file_bytes), 1}, "0.85");
    fmt::print("peak of resident memory while streaming: {:+.0f} MiB\n", peak_mib() - before);
    Array total;
    std::vector<Candidate> reading{
        {"tandem", [&] {
             stream(queue, {&input, 1}, {}, [&](Queue& on, std::span<const Array> in, const Array&) { twice(on, in[0]); });
         }}};
    for (Candidate& copy : link_copies(device.info(), plan.file_bytes, 0))
        reading.push_back(std::move(copy));
    if (reading.size() == 1) reading.push_back(parallel_read(file.path().string(), 2, std::size_t{4} << 20U, false));
    measure(reading, plan.common.rounds);
    report("stream it into nothing", device.spec(), reading, {static_cast<double>(plan.file_bytes), 1}, "0.85");
}

void small_files(const Device& device, const Plan& plan) {
    const std::filesystem::path folder = plan.folder / fmt::format("tandem-bench-{}-small", ::getpid());
    std::filesystem::create_directory(folder);
    std::vector<std::filesystem::path> paths;
    const std::vector<float> values(25'000, 1.0F);
    for (int i = 0; i < 1000; ++i) {
        paths.push_back(folder / fmt::format("{}.npy", i));
        std::ofstream file(paths.back(), std::ios::binary);
        file << npy::format_header(float32, {25'000}, false);
        file.write(reinterpret_cast<const char*>(values.data()), 100'000);
    }
    std::vector<Candidate> loading{{"tandem",
                                    [&] {
                                        for (const auto& path : paths)
                                            (void)npy::load(device, path);
                                    }},
                                   {"tandem, load_all", [&] { (void)npy::load_all(device, paths); }},
                                   {"open, fstat, pread, close", [&] {
                                        std::vector<char> bytes(100'128);
                                        for (const auto& path : paths) {
                                            const int descriptor = ::open(path.c_str(), O_RDONLY);
                                            if (::pread(descriptor, bytes.data(), bytes.size(), 0) < 0) return;
                                            ::close(descriptor);
                                        }
                                    }}};
    measure(loading, plan.common.rounds);
    report("load a file of 100 kB, of 1000", device.spec(), loading, {0, 1000}, "a fifth of cupy.load");
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
    using namespace tandem::bench;
    CLI::App app{"files to devices and back against the link and the storage"};
    std::string only;
    Plan plan;
    add_common_options(app, plan.common);
    app.add_option("--file-bytes", plan.file_bytes, "bytes of the warm files");
    app.add_option("--cold-bytes", plan.cold_bytes, "bytes of the cold file, and of what is saved");
    app.add_option("--folder", plan.folder, "where the files go");
    app.add_option("--readers", plan.limits.readers, "threads that read; 0: as the library chooses");
    app.add_option("--writers", plan.limits.writers, "threads that write; 0: as the library chooses");
    app.add_option("--slot-bytes", plan.limits.slot_bytes, "bytes of a slot of the ring; 0: as the library chooses");
    app.add_option("--only", only, "loads, cold, saves, streams or small");
    return run_program(app, argc, argv, plan.common.json, [&] {
        const tandem::Device device = open_and_tell(plan.common.device);
        tandem::set_transfer_limits(device, plan.limits);
        fmt::print("{} readers\n", tandem::transfer_limits(device).readers);
        const auto is_wanted = [&](const char* part) { return only.empty() || only == part; };
        if (is_wanted("loads")) loads(device, plan);
        if (is_wanted("saves")) saves(device, plan);
        if (is_wanted("streams")) streams(device, plan);
        if (is_wanted("small")) small_files(device, plan);
        if (is_wanted("cold")) cold_loads(device, plan);
        return 0;
    });
}
