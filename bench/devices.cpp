// tandem_bench_devices [--first SPEC] [--second SPEC] [--bytes N] [--file-bytes N] [--folder PATH] [--rounds N] [--json FILE]
//
// Two CUDA devices at once: copies from one to the other beside the driver's own, one mapped file read in place by both beside
// one alone, a file loaded half to each beside one link, and memory of another process on the other device: this program once
// more, which is killed in the end. Every figure is a ratio within this run.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>

#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "program.hpp"
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

// Whether everything that was looked at was right; else the program fails.
bool all_right = true;

const char* right_or_wrong(bool is_right, const char* right) {
    all_right = all_right && is_right;
    return is_right ? right : "WRONG";
}

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
    fmt::print("what arrived is {}\n", right_or_wrong(is_right, "right, each element"));
}

// Runs one function for each device at the same time.
void at_once(const std::vector<std::function<void()>>& functions) {
    std::vector<std::thread> threads;
    for (const auto& function : functions)
        threads.emplace_back(function);
    for (std::thread& thread : threads)
        thread.join();
}

// Pinned memory to both devices, over and over, until it goes out of scope.
class BusyLinks {
public:
    BusyLinks(const std::vector<Device>& devices, std::size_t bytes) {
        for (const Device& device : devices) {
            threads_.emplace_back([this, device, bytes] {
                const Array pinned = empty(device, uint8, {static_cast<std::int64_t>(bytes)}, MemoryKind::pinned);
                const Array there = empty(device, uint8, {static_cast<std::int64_t>(bytes)});
                Queue queue(device);
                while (!is_over_) {
                    copy(queue, pinned, there);
                    queue.synchronize();
                    copied_bytes_ += bytes;
                }
            });
        }
        while (copied_bytes_ < 4 * bytes)
            std::this_thread::yield();
    }
    ~BusyLinks() {
        is_over_ = true;
        for (std::thread& thread : threads_)
            thread.join();
    }
    BusyLinks(const BusyLinks&) = delete;
    BusyLinks& operator=(const BusyLinks&) = delete;

    [[nodiscard]] double copied_bytes() const { return static_cast<double>(copied_bytes_); }

private:
    std::vector<std::thread> threads_;
    std::atomic<bool> is_over_{false};
    std::atomic<std::size_t> copied_bytes_{0};
};

// What the processors can bring of the page cache, with the links idle and with both busy: where the two together are less than
// the links, a load through slots, which needs both at once, can't fill them.
void page_cache(const std::vector<Device>& devices, const std::string& path, const Plan& plan) {
    for (const int threads : {16, 24, 32}) {
        const auto read = [&] {
            std::vector<Candidate> reading{parallel_read(path, threads, std::size_t{1} << 20U, false)};
            measure(reading, plan.rounds);
            return static_cast<double>(plan.file_bytes) / reading[0].median() / 1e9;
        };
        const double alone = read();
        const BusyLinks links(devices, std::size_t{256} << 20U);
        const double before = links.copied_bytes();
        const auto start = std::chrono::steady_clock::now();
        const double beside = read();
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        fmt::print("{:48}{} threads: {:.1f} GB/s; while both links are busy {:.1f} GB/s, and the links {:.1f} GB/s\n",
                   "the page cache alone", threads, alone, beside, (links.copied_bytes() - before) / seconds / 1e9);
    }
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
            fmt::print("{}: the sum is {} of {} elements that are 1: {}\n", devices[i].spec(), totals[i], rows * 1024,
                       right_or_wrong(totals[i] == static_cast<double>(rows * 1024), "right"));
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
    // Whether it is the slots, which leave the caches, or the number of readers, or whether the file's own pages would do better.
    for (const TransferLimits& limits :
         {TransferLimits{16, 0, std::size_t{256} << 10U}, TransferLimits{16, 0, std::size_t{1} << 20U},
          TransferLimits{16, 0, std::size_t{2} << 20U}, TransferLimits{20, 0, std::size_t{2} << 20U}, TransferLimits{2, 0, 0}}) {
        for (const Device& device : devices)
            set_transfer_limits(device, limits);
        std::vector<Candidate> tried{loading[0]};
        tried[0].seconds.clear(), tried[0].cpu_seconds.clear();
        measure(tried, plan.rounds);
        const TransferLimits now = transfer_limits(devices[0]);
        fmt::print("{:48}{:2} readers each, slots of {} KiB: {:.1f} GB/s\n", "half to each, at once", now.readers,
                   now.slot_bytes >> 10U, bytes / tried[0].median() / 1e9);
    }
    for (const Device& device : devices)
        set_transfer_limits(device, {});
    page_cache(devices, path.string(), plan);
    std::filesystem::remove(path);
}

constexpr const char* published_name = "devices";

// The other process: an array on one device, for everyone, until it is killed.
int serve(const std::string& spec, const std::filesystem::path& folder, std::size_t bytes) {
    const Device device = open_device(spec);
    Queue queue(device);
    std::vector<std::int32_t> values(bytes / 4);
    std::iota(values.begin(), values.end(), 11);
    const Array array = empty_shareable(device, int32, {static_cast<std::int64_t>(values.size())});
    copy(queue, values, array);
    queue.synchronize();
    Publisher publisher(published_name, {.folder = folder});
    publisher.add(array);
    for (;;)
        ::pause();
}

// Begun before this process uses a device.
class OtherProcess {
public:
    explicit OtherProcess(const Plan& plan) : folder_(plan.folder / fmt::format("tandem-bench-{}-names", ::getpid())) {
        std::filesystem::create_directory(folder_);
        std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
        process_ = ::fork();
        if (process_ != 0) return;
        const std::string self = std::filesystem::read_symlink("/proc/self/exe");
        ::execl(self.c_str(), self.c_str(), "--serve", folder_.c_str(), "--first", plan.first.c_str(), "--bytes",
                std::to_string(plan.bytes).c_str(), nullptr);
        ::_exit(127);
    }
    ~OtherProcess() {
        kill();
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }
    OtherProcess(const OtherProcess&) = delete;
    OtherProcess& operator=(const OtherProcess&) = delete;

    [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
    void kill() {
        if (process_ <= 0) return;
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
        process_ = 0;
    }

private:
    std::filesystem::path folder_;
    pid_t process_ = 0;
};

// `device` works on an array that another process has on another device.
void other_process(OtherProcess& other, const Device& device, const Plan& plan) {
    Array there;
    for (int tries = 0; there.count() == 0; ++tries) {
        try {
            there = attach(device, published_name, {.folder = other.folder()});
        } catch (const Error& error) {
            if (error.code() != ErrorCode::unavailable || tries == 300) throw;
            ::usleep(100'000);
        }
    }
    fmt::print("attached: {}\n", there.residency());
    Queue queue(device);
    const Array here = empty_like(there, MemoryKind::device), own = empty_like(here);
    std::vector<std::int32_t> values(plan.bytes / 4);
    std::iota(values.begin(), values.end(), 11);
    const auto check = [&](const char* when) {
        copy(queue, there, here);
        fmt::print("{} the copy is {}", when, right_or_wrong(to_vector<std::int32_t>(queue, here) == values, "right"));
        for (std::int32_t& value : values)
            value *= 2;
        twice(queue, there, here);
        fmt::print(", what a kernel makes of it in place {}\n",
                   right_or_wrong(to_vector<std::int32_t>(queue, here) == values, "right"));
        for (std::int32_t& value : values)
            value /= 2;
    };
    check("while the other process lives,");
    const auto bytes = static_cast<double>(plan.bytes);
    const auto run = [&](auto work) {
        return [&queue, work] {
            work();
            queue.synchronize();
        };
    };
    std::vector<Candidate> copies{{"tandem, the other process's", run([&] { copy(queue, there, here); })},
                                  cuda_peer_copy(number_of(open_device(plan.first)), number_of(device), plan.bytes, true)};
    measure(copies, plan.rounds);
    report("copy another process's array", device.spec(), copies, {bytes, 1}, "0.95");
    std::vector<Candidate> kernels{{"tandem, the other process's", run([&] { twice(queue, there, here); })},
                                   {"on its own memory", run([&] { twice(queue, own, here); })}};
    measure(kernels, plan.rounds);
    report("double another process's array", device.spec(), kernels, {bytes, 1}, "-");
    other.kill();
    check("after the other process was killed,");
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
    using namespace tandem::bench;
    CLI::App app{"two CUDA devices at once"};
    Plan plan;
    std::string json;
    std::string served;
    app.add_option("--serve", served, "be the other process, and publish in this folder");
    app.add_option("--first", plan.first, "device");
    app.add_option("--second", plan.second, "device");
    app.add_option("--bytes", plan.bytes, "bytes of what is copied from one to the other");
    app.add_option("--file-bytes", plan.file_bytes, "bytes of the file");
    app.add_option("--folder", plan.folder, "where the file goes");
    app.add_option("--rounds", plan.rounds, "rounds that count");
    app.add_option("--json", json, "file for the results");
    return run_program(app, argc, argv, json, [&] {
        if (!served.empty()) return serve(plan.first, served, plan.bytes);
        OtherProcess other(plan);
        const std::vector<tandem::Device> devices{open_and_tell(plan.first), open_and_tell(plan.second)};
        other_process(other, devices[1], plan);
        copies(devices[0], devices[1], plan);
        copies(devices[1], devices[0], plan);
        one_file(devices, plan);
        return all_right ? 0 : 1;
    });
}
