// Files to devices and back: parts of files, limits on what that takes, progress and cancellation.
#include <atomic>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "../unit/scratch_folder.hpp"
#include "fixture.hpp"

namespace tandem::test {
namespace {

// Element i of a file is i.
std::filesystem::path counting_file(const ScratchFolder& folder, const Shape& shape, bool fortran) {
    const std::int64_t count = element_count(shape, 4);
    std::vector<std::int32_t> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), 0);
    const std::filesystem::path path = folder / "counting.npy";
    std::ofstream file(path, std::ios::binary);
    file << npy::format_header(int32, shape, fortran);
    file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * 4));
    return path;
}

// What an element of the part has to be: where in the file it lies.
std::int32_t position(const Shape& shape, bool fortran, const std::vector<std::int64_t>& index) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        const std::size_t axis = fortran ? shape.size() - 1 - i : i;
        at = at * shape[axis] + index[axis];
    }
    return static_cast<std::int32_t>(at);
}

// Sets limits for a scope.
class Limits {
public:
    explicit Limits(const TransferLimits& limits) { set_transfer_limits(device(), limits); }
    ~Limits() { set_transfer_limits(device(), {}); }
    Limits(const Limits&) = delete;
    Limits& operator=(const Limits&) = delete;
};

}  // namespace

TEST_CASE("a part of a file is loaded by its ranges") {
    const ScratchFolder folder;
    Queue queue(device());
    const Shape shape{37, 11, 29};
    const std::vector<std::vector<Range>> parts{{},
                                                {{3, 20}},
                                                {{36}},
                                                {{0, 37}, {2, 5}},
                                                {{0, 37}, {0, 11}, {7, 8}},
                                                {{-5}, {1, -1}, {-29, 14}},
                                                {{5, 6}, {4, 5}, {3, 4}},
                                                {{10, 5}},
                                                {{0, 1'000'000}, {3, 4}, {0, 2}}};
    for (const bool fortran : {false, true}) {
        const std::filesystem::path path = counting_file(folder, shape, fortran);
        for (const std::vector<Range>& ranges : parts) {
            const Array part = npy::load(
                device(), path,
                {.kind = options().kind == MemoryKind::adopted ? MemoryKind::device : options().kind, .ranges = ranges});
            std::array<std::int64_t, 3> begin{}, end{};
            for (std::size_t axis = 0; axis < 3; ++axis) {
                const Range range = axis < ranges.size() ? ranges[axis] : Range{};
                const auto at = [&](std::int64_t value) {
                    return std::clamp<std::int64_t>(value < 0 ? value + shape[axis] : value, 0, shape[axis]);
                };
                begin[axis] = at(range.begin);
                end[axis] = std::max(begin[axis], at(range.end));
                REQUIRE(part.shape()[axis] == end[axis] - begin[axis]);
            }
            const std::vector<std::int32_t> found = to_vector<std::int32_t>(queue, part);
            std::size_t n = 0;
            bool is_right = true;
            for (std::int64_t i = begin[0]; i < end[0]; ++i)
                for (std::int64_t j = begin[1]; j < end[1]; ++j)
                    for (std::int64_t k = begin[2]; k < end[2]; ++k)
                        is_right &= found[n++] == position(shape, fortran, {i, j, k});
            CHECK(is_right);
            CHECK(n == found.size());
        }
        CHECK_ERROR(ErrorCode::out_of_range, ".npy: 4 ranges",
                    (void)npy::load(device(), path, {.ranges = std::vector<Range>(4)}));
    }
}

TEST_CASE("a raw file's part is loaded by its ranges") {
    const ScratchFolder folder;
    Queue queue(device());
    std::string bytes = "odd";
    for (int i = 0; i < 1000; ++i)
        bytes += static_cast<char>(i % 251);
    const std::filesystem::path path = folder.write("a.raw", bytes);
    const Array part = raw::load(device(), path, uint8, Shape{100, 10}, 3, {.ranges = {{10, 90}, {2, 4}}});
    const std::vector<std::uint8_t> found = to_vector<std::uint8_t>(queue, part);
    REQUIRE(found.size() == 160);
    for (int i = 0; i < 160; ++i)
        CHECK(int{found[static_cast<std::size_t>(i)]} == ((10 + i / 2) * 10 + 2 + i % 2) % 251);
    CHECK_ERROR(ErrorCode::invalid_argument, "can't be taken as",
                (void)raw::load(device(), path, uint8, Shape{3}, 0, {.as = int8}));
}

TEST_CASE("few readers load swapped elements at an odd offset whole") {
    // With few readers a device that can copies from the file's own pages, in windows of 64 MiB whose bounds fall into elements.
    const ScratchFolder folder;
    Queue queue(device());
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    constexpr std::size_t usual = 20'011;  // of host memory alone, where there are no such windows
#else
    constexpr std::size_t usual = 17'000'003;
#endif
    const std::size_t count = options().window_bytes != 0 ? 20'011 : usual;
    std::string header(83, ' ');
    const std::string dictionary = "{'descr': '>f8', 'fortran_order': False, 'shape': (" + std::to_string(count) + ",)}";
    header.replace(0, 10, std::string("\x93NUMPY\x01\x00\x49\x00", 10));
    header.replace(10, dictionary.size(), dictionary);
    header.back() = '\n';
    std::vector<std::uint64_t> swapped(count);
    for (std::size_t i = 0; i < count; ++i)
        swapped[i] = __builtin_bswap64(std::bit_cast<std::uint64_t>(static_cast<double>(i)));
    const std::filesystem::path path = folder / "swapped.npy";
    {
        std::ofstream file(path, std::ios::binary);
        file << header;
        file.write(reinterpret_cast<const char*>(swapped.data()), static_cast<std::streamsize>(count * 8));
    }
    const Limits few({.readers = 2});
    const MemoryKind kind = options().kind == MemoryKind::adopted ? MemoryKind::device : options().kind;
    const std::vector<double> found = to_vector<double>(queue, npy::load(device(), path, {.kind = kind}));
    REQUIRE(found.size() == count);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i)
        wrong += static_cast<std::size_t>(found[i] != static_cast<double>(i));
    CHECK(wrong == 0);
}

TEST_CASE("bytes arrive whole whatever the limits are") {
    const ScratchFolder folder;
    Queue queue(device());
    // Several slots and a rest.
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{300'007}}) {
        const std::filesystem::path path = counting_file(folder, {count}, false);
        for (const TransferLimits& limits : {TransferLimits{1, 1, 65536}, TransferLimits{5, 3, 65536}, TransferLimits{}}) {
            const Limits set(limits);
            const Array array = npy::load(device(), path);
            const std::vector<std::int32_t> found = to_vector<std::int32_t>(queue, array);
            bool is_right = true;
            for (std::size_t i = 0; i < found.size(); ++i)
                is_right &= found[i] == static_cast<std::int32_t>(i);
            CHECK(is_right);
            npy::save(folder / "out.npy", array);
            CHECK(read_text(folder / "out.npy") == read_text(folder / "counting.npy"));
        }
    }
    CHECK_ERROR(ErrorCode::invalid_argument, "257 readers", set_transfer_limits(device(), {257, 0, 0}));
    CHECK_ERROR(ErrorCode::invalid_argument, "257 writers", set_transfer_limits(device(), {0, 257, 0}));
    for (const std::size_t bytes : {std::size_t{4096}, std::size_t{65537}, std::size_t{2} << 30U})
        CHECK_ERROR(ErrorCode::invalid_argument, "multiple of 4096", set_transfer_limits(device(), {0, 0, bytes}));
    const TransferLimits usual = transfer_limits(device());
    CHECK(usual.readers >= 2);
    CHECK(usual.writers == 1);
    CHECK(usual.slot_bytes == std::size_t{4} << 20U);
}

TEST_CASE("progress is told on the calling thread and ends at the total") {
    const ScratchFolder folder;
    const Limits set({3, 2, 65536});
    const std::filesystem::path path = counting_file(folder, {100'003}, false);
    std::vector<Progress> told;
    const auto caller = std::this_thread::get_id();
    bool is_on_caller = true;
    TransferOptions transfer;
    transfer.progress = [&](const Progress& progress) {
        told.push_back(progress);
        is_on_caller &= std::this_thread::get_id() == caller;
    };
    const auto check = [&] {
        REQUIRE_FALSE(told.empty());
        for (std::size_t i = 1; i < told.size(); ++i)
            CHECK(told[i].done_bytes >= told[i - 1].done_bytes);
        CHECK(told.back().done_bytes == 400'012);
        CHECK(told.back().total_bytes == 400'012);
        CHECK(is_on_caller);
        told.clear();
    };
    const Array array = npy::load(device(), path, {.transfer = transfer});
    check();
    npy::save(folder / "out.npy", array, 64, transfer);
    check();
}

TEST_CASE("many files at once") {
    const ScratchFolder folder;
    const Limits set({3, 2, 65536});
    std::vector<std::filesystem::path> paths;
    std::uint64_t total = 0;
    for (const std::int64_t count : {0, 1, 7, 255, 257, 100'003, 16'000, 16'384, 5, 70'000}) {
        const std::filesystem::path counting = counting_file(folder, {count}, count % 2 == 1);
        paths.push_back(folder / (std::to_string(count) + ".npy"));
        std::filesystem::rename(counting, paths.back());
        total += std::filesystem::file_size(paths.back());
    }
    std::vector<Progress> told;
    LoadOptions options;
    options.transfer.progress = [&](const Progress& progress) { told.push_back(progress); };
    const std::vector<Array> arrays = npy::load_all(device(), paths, options);
    REQUIRE(arrays.size() == paths.size());
    Queue queue(device());
    for (std::size_t i = 0; i < paths.size(); ++i) {
        const std::vector<std::int32_t> found = to_vector<std::int32_t>(queue, arrays[i]);
        CHECK(std::to_string(found.size()) + ".npy" == paths[i].filename());
        bool is_right = true;
        for (std::size_t k = 0; k < found.size(); ++k)
            is_right &= found[k] == static_cast<std::int32_t>(k);
        CHECK(is_right);
    }
    REQUIRE_FALSE(told.empty());
    CHECK(told.back().done_bytes == total);
    CHECK(told.back().total_bytes == total);
    CHECK(npy::load_all(device(), {}).empty());
    // One that stays does not need the others, nor their files.
    for (const std::filesystem::path& path : paths)
        std::filesystem::remove(path);
    const Array kept = npy::load_all(device(), std::vector{counting_file(folder, {3, 5}, true), folder / "counting.npy"})[1];
    CHECK(kept.shape() == Shape{3, 5});
    CHECK(kept.is_dense(Order::fortran));
    CHECK(to_vector<std::int32_t>(queue, kept) == std::vector{0, 3, 6, 9, 12, 1, 4, 7, 10, 13, 2, 5, 8, 11, 14});

    // What has to be made proper, and parts, by themselves.
    std::string header = npy::format_header(float64, {40}, false);
    header.replace(header.find('<'), 1, ">");
    std::string bytes(40 * 8, '\0');
    for (std::size_t i = 0; i < 40; ++i)
        bytes[i * 8] = '\x40';  // 2.0
    folder.write("swapped.npy", header + bytes);
    folder.write("bools.npy", npy::format_header(boolean, {5}, false) + std::string("\0\1\2\0\xff", 5));
    const std::vector<Array> mixed = npy::load_all(
        device(), std::vector{folder / "bools.npy", folder / "counting.npy", folder / "swapped.npy", folder / "bools.npy"});
    CHECK(to_vector<std::uint8_t>(queue, mixed[0].view_as(uint8)) == std::vector<std::uint8_t>{0, 1, 1, 0, 1});
    CHECK(mixed[1].count() == 15);
    CHECK(to_vector<double>(queue, mixed[2]) == std::vector<double>(40, 2.0));
    CHECK(to_vector<std::uint8_t>(queue, mixed[3].view_as(uint8)) == std::vector<std::uint8_t>{0, 1, 1, 0, 1});
    const std::vector<Array> parts =
        npy::load_all(device(), std::vector{folder / "counting.npy", folder / "counting.npy"}, {.ranges = {{1, 2}}});
    CHECK(parts[1].shape() == Shape{1, 5});
    CHECK(to_vector<std::int32_t>(queue, parts[1]) == std::vector{1, 4, 7, 10, 13});

    folder.write("broken.npy", "no array");
    for (std::filesystem::path& path : paths)
        path = folder / "counting.npy";
    std::vector<std::filesystem::path> with_broken = paths;
    with_broken.insert(with_broken.begin() + 4, folder / "broken.npy");
    CHECK_ERROR(ErrorCode::bad_file, "broken.npy", (void)npy::load_all(device(), with_broken));
    with_broken[4] = folder / "missing.npy";
    CHECK_ERROR(ErrorCode::io, "missing.npy", (void)npy::load_all(device(), with_broken));
    std::stop_source stop;
    stop.request_stop();
    CHECK_ERROR(ErrorCode::cancelled, "10 files: cancelled after",
                (void)npy::load_all(device(), paths, {.transfer = {.stop = stop.get_token()}}));
}

TEST_CASE("files that are replaced meanwhile are loaded as they were or as they are") {
    const ScratchFolder folder;
    std::vector<std::filesystem::path> paths;
    // Ones of float32, or twos of float64, under a name that was another's before.
    const auto put = [&](const std::filesystem::path& path, bool is_wide) {
        const std::filesystem::path fresh = folder / "fresh";
        std::ofstream file(fresh, std::ios::binary);
        file << npy::format_header(is_wide ? float64 : float32, {1000}, false);
        const std::vector<double> twos(1000, 2.0);
        const std::vector<float> ones(1000, 1.0F);
        if (is_wide) {
            file.write(reinterpret_cast<const char*>(twos.data()), 8000);
        } else {
            file.write(reinterpret_cast<const char*>(ones.data()), 4000);
        }
        file.close();
        std::filesystem::rename(fresh, path);
    };
    for (int i = 0; i < 60; ++i) {
        paths.push_back(folder / (std::to_string(i) + ".npy"));
        put(paths.back(), i % 2 == 0);
    }
    std::atomic<bool> is_done{false};
    std::thread writer([&] {
        for (std::size_t i = 0; !is_done; ++i)
            put(paths[i * 7 % paths.size()], i % 3 == 0);
    });
    Queue queue(device());
    std::size_t wrong = 0;
    const MemoryKind kind = options().kind == MemoryKind::adopted ? MemoryKind::device : options().kind;
    try {
        for (int round = 0; round < 10; ++round) {
            for (const Array& array : npy::load_all(device(), paths, {.kind = kind})) {
                if (array.dtype() == float64) {
                    const std::vector<double> found = to_vector<double>(queue, array);
                    wrong += static_cast<std::size_t>(found != std::vector<double>(1000, 2.0));
                } else {
                    const std::vector<float> found = to_vector<float>(queue, array);
                    wrong += static_cast<std::size_t>(found != std::vector<float>(1000, 1.0F));
                }
            }
        }
    } catch (...) {
        is_done = true;
        writer.join();
        throw;
    }
    is_done = true;
    writer.join();
    CHECK(wrong == 0);
}

TEST_CASE("a cancelled transfer leaves nothing") {
    const ScratchFolder folder;
    const Limits set({2, 2, 65536});
    const std::filesystem::path path = counting_file(folder, {100'003}, false);
    const Array array = npy::load(device(), path);
    std::stop_source stop;
    stop.request_stop();
    folder.write("old.npy", "old");
    CHECK_ERROR(ErrorCode::cancelled, "of 400012 bytes",
                (void)npy::load(device(), path, {.transfer = {.stop = stop.get_token()}}));
    CHECK_ERROR(ErrorCode::cancelled, "old.npy: cancelled after",
                npy::save(folder / "old.npy", array, 64, {.stop = stop.get_token()}));
    CHECK(read_text(folder / "old.npy") == "old");
    TransferOptions throwing;
    throwing.progress = [](const Progress&) { throw std::runtime_error("enough"); };
    CHECK_THROWS_AS((void)npy::load(device(), path, {.transfer = throwing}), std::runtime_error);
    CHECK_THROWS_AS(npy::save(folder / "old.npy", array, 64, throwing), std::runtime_error);
    CHECK(read_text(folder / "old.npy") == "old");
    CHECK(folder.names() == std::set<std::string>{"counting.npy", "old.npy"});
}

TEST_CASE("a file that has become shorter is an error with file and offset and the device goes on") {
    const ScratchFolder folder;
    const Limits set({3, 1, 65536});
    const std::filesystem::path path = counting_file(folder, {100'003}, false);
    const npy::File file = npy::File::open(path);
    std::filesystem::resize_file(path, 200'000);
    CHECK_ERROR(ErrorCode::bad_file, "counting.npy: offset ", (void)npy::load(device(), file));
    std::filesystem::resize_file(path, 400'012 + 128);
    CHECK(npy::load(device(), path).count() == 100'003);
}

}  // namespace tandem::test
