// Memory and files that exist, on the device under test. Has no kind to vary, so it runs once: with the kind `adopted`.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "fixture.hpp"

namespace tandem::test {
namespace {

// A file in memory (tmpfs, which every kernel has for it) or on disk; removed with its object.
class TemporaryFile {
public:
    TemporaryFile(const Bytes& content, const std::filesystem::path& folder)
        : path_(folder / ("tandem-" + std::to_string(::getpid()) + "-" + std::to_string(next_++))) {
        std::ofstream(path_, std::ios::binary)
            .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
    }
    ~TemporaryFile() { std::filesystem::remove(path_); }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    [[nodiscard]] Bytes content() const {
        std::ifstream file(path_, std::ios::binary);
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        const auto* first = reinterpret_cast<const std::byte*>(text.data());
        return {first, first + text.size()};
    }

private:
    static inline int next_ = 0;
    std::filesystem::path path_;
};

const std::filesystem::path disk = std::filesystem::temp_directory_path();
const std::filesystem::path memory = "/dev/shm";

Bytes npy_file(DType dtype, const Shape& shape, const Bytes& elements, std::size_t header_bytes = 128, const char* order = "<") {
    std::string header = npy::format_header(dtype, shape, false);
    if (order[0] == '>') header.replace(header.find('<'), 1, ">");
    // A header of any length is legal; the data starts where it ends.
    header.resize(10);
    std::string text = npy::format_header(dtype, shape, false).substr(10);
    if (order[0] == '>') text.replace(text.find('<'), 1, ">");
    text.resize(text.find('}') + 1);
    text.resize(header_bytes - 11, ' ');
    text += '\n';
    header[8] = static_cast<char>(text.size() & 0xff);
    header[9] = static_cast<char>(text.size() >> 8U);
    header += text;
    const auto* first = reinterpret_cast<const std::byte*>(header.data());
    Bytes file(first, first + header.size());
    file.insert(file.end(), elements.begin(), elements.end());
    return file;
}

std::size_t entries_of(const char* folder) {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

std::size_t mappings() {
    std::ifstream maps("/proc/self/maps");
    return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(maps), {}, '\n'));
}

template <class Vector>
concept CanAdopt = requires(Vector vector) {
    adopt(device(), std::move(vector));
};

// Pages that a driver has pinned, in KiB.
std::size_t pinned_kib() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("VmPin:")) return std::stoul(line.substr(6));
    }
    return 0;
}

}  // namespace

TEST_SUITE_BEGIN("adoption");

TEST_CASE("a vector is doubled where it is") {
    for (const std::int64_t size : sizes) {
        std::vector<float> mine(static_cast<std::size_t>(size), 1.5F);
        const Array array = adopt(device(), mine);
        CHECK(array.kind() == MemoryKind::adopted);
        CHECK(array.shape() == Shape{size});
        Queue queue(device());
        twice(queue, array);
        const auto view = array.map<float>(Access::read);
        if (size != 0) CHECK(view.data() == mine.data());
        CHECK(std::all_of(mine.begin(), mine.end(), [](float value) { return value == 3.0F; }));
    }
}

TEST_CASE("read-only memory is read and never written") {
    const std::vector<std::int32_t> mine(1000, 21);
    const Array array = adopt(device(), mine);
    Queue queue(device());
    const Array out = empty(device(), int32, {1000});
    twice(queue, array, out);
    CHECK(to_vector<std::int32_t>(queue, out)[999] == 42);
    CHECK_ERROR(ErrorCode::invalid_argument, "read-only", twice(queue, array));
    CHECK_ERROR(ErrorCode::invalid_argument, "read-only", copy(queue, out, array));
    CHECK_ERROR(ErrorCode::invalid_argument, "read-only", (void)array.map<std::int32_t>(Access::read_write));
    CHECK(array.map<std::int32_t>(Access::read).data() == mine.data());
    CHECK(mine[0] == 21);
}

TEST_CASE("memory that is not the process's is refused") {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* pages = ::mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(pages != MAP_FAILED);
    auto* first = static_cast<std::byte*>(pages);
    ::munmap(first + page, page);
    CHECK_ERROR(ErrorCode::invalid_argument, "read", adopt_bytes(device(), std::span(first, 2 * page)));
    CHECK_ERROR(ErrorCode::invalid_argument, "read", adopt_bytes(device(), std::span(first, 3 * page)));
    ::mprotect(first, page, PROT_READ);
    CHECK_ERROR(ErrorCode::invalid_argument, "write to", adopt_bytes(device(), std::span(first, 100)));
    CHECK(adopt_bytes(device(), std::span<const std::byte>(first, 100)).size_bytes() == 100);
    CHECK_ERROR(ErrorCode::invalid_argument, "", adopt_bytes(device(), std::span(static_cast<std::byte*>(nullptr), 8)));
    ::munmap(first, page);
    ::munmap(first + 2 * page, page);
}

TEST_CASE("an owner is kept until the last work on the memory is done") {
    Queue queue(device());
    std::weak_ptr<std::vector<std::int64_t>> watched;
    const Array out = empty(device(), int64, {100'003});
    {
        const auto owned = std::make_shared<std::vector<std::int64_t>>(100'003, 4);
        watched = owned;
        const Array array = adopt(device(), std::span(*owned), {.owner = owned});
        twice(queue, array, out);
    }
    queue.synchronize();
    CHECK(to_vector<std::int64_t>(queue, out)[100'002] == 8);
    CHECK(watched.expired());
    const Array taken = adopt(device(), std::vector<std::int16_t>{1, 2, 3});
    twice(queue, taken);
    CHECK(to_vector<std::int16_t>(queue, taken) == std::vector<std::int16_t>{2, 4, 6});
}

TEST_CASE("arrays as NumPy describes them, backwards and with gaps") {
    std::vector<std::int32_t> mine(40);
    std::iota(mine.begin(), mine.end(), 0);
    Queue queue(device());
    const Array backwards = adopt(device(), static_cast<void*>(&mine[39]), int32, {40}, Strides{-4});
    CHECK(to_vector<std::int32_t>(queue, backwards)[1] == 38);
    const Array grid = adopt(device(), static_cast<const void*>(mine.data()), int32, {4, 5}, Strides{40, 8});
    CHECK(to_vector<std::int32_t>(queue, grid)[6] == 12);
    twice(queue, adopt(device(), static_cast<void*>(&mine[1]), int32, {20}, Strides{8}));
    const HostView seen = adopt_bytes(device(), std::as_bytes(std::span(mine))).map(Access::read);
    CHECK_ERROR(ErrorCode::invalid_argument, "strides",
                adopt(device(), static_cast<void*>(mine.data()), int32, {4}, Strides{4, 4}));
    CHECK_ERROR(ErrorCode::out_of_range, "strides",
                adopt(device(), static_cast<void*>(mine.data()), int32, {3}, Strides{INT64_MAX}));
}

TEST_CASE("overlapping adoptions, by several threads, come and go") {
    std::vector<std::uint32_t> mine(300'000, 1);
    std::vector<std::thread> threads;
    std::vector<int> wrong(4, 0);
    for (std::size_t t = 0; t < wrong.size(); ++t) {
        threads.emplace_back([&, t] {
            Queue queue(device());
            const Array out = empty(device(), uint32, {1});
            for (std::size_t round = 0; round < 50; ++round) {
                const std::size_t begin = (t * 7919 + round * 4099) % 200'000;
                const Array part = adopt(device(), std::span<const std::uint32_t>(mine).subspan(begin, 1 + round * 1999));
                twice(queue, part.slice(0, -1, INT64_MAX), out);
                wrong[t] += to_vector<std::uint32_t>(queue, out)[0] != 2;
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("ten thousand adoptions leave nothing behind") {
    std::vector<float> mine(10'000, 1.0F);
    const TemporaryFile file(npy_file(float32, {100}, make_elements(float32, 100, 1)), disk);
    const auto round = [&](std::size_t i) {
        const Array array = adopt(device(), std::span(mine).subspan(i % 5000, 1 + i % 4000));
        if (i % 10 == 0) (void)npy::map(device(), file.path());
    };
    for (std::size_t i = 0; i < 500; ++i)
        round(i);
    const std::size_t files = entries_of("/proc/self/fd"), maps = mappings(), pinned = pinned_kib();
    for (std::size_t i = 0; i < 10'000; ++i)
        round(i);
    CHECK(entries_of("/proc/self/fd") == files);
    CHECK(pinned_kib() == pinned);
    CHECK(mappings() <= maps + 8);  // the allocator's own come and go
    const Array all = adopt(device(), mine);
    CHECK(all.count() == 10'000);
}

TEST_CASE("a .npy file is used in place, wherever its data starts") {
    for (const std::size_t header_bytes : {std::size_t{80}, std::size_t{81}, std::size_t{128}, std::size_t{4096}}) {
        for (const DType dtype : {uint8, float16, float32, complex128}) {
            CAPTURE(header_bytes);
            const Bytes elements = make_elements(dtype, 5000, 11);
            const TemporaryFile file(npy_file(dtype, {50, 100}, elements, header_bytes), disk);
            const Array array = npy::map(device(), file.path());
            INFO(array.residency());
            CHECK(array.residency().find(file.path().string()) != std::string::npos);
            CHECK(array.shape() == Shape{50, 100});
            CHECK(array.zero_copy() ==
                  (is_host_memory_native() || device().info().backend == "cuda" ? ZeroCopy::yes : ZeroCopy::no));
            Queue queue(device());
            const Array out = empty(device(), dtype, {50, 100});
            copy(queue, array, out);
            const auto view = Buffer(device(), out.memory(), elements.size(), MemoryKind::device).map(Access::read);
            CHECK(std::memcmp(view.data(), elements.data(), elements.size()) == 0);
            CHECK_ERROR(ErrorCode::invalid_argument, "read-only", twice(queue, array));
        }
    }
}

TEST_CASE("what can't be used as it is in the file is copied, or refused with the reason") {
    const Bytes elements = make_elements(float32, 100, 3);
    const TemporaryFile swapped(npy_file(float32, {100}, elements, 128, ">"), disk);
    const Array array = npy::map(device(), swapped.path());
    CHECK(array.zero_copy() == ZeroCopy::no);
    CHECK(array.residency().find("big-endian") != std::string::npos);
    Queue queue(device());
    const std::vector<float> values = to_vector<float>(queue, array);
    for (std::size_t i = 0; i < values.size(); ++i) {
        std::array<std::byte, 4> bytes;
        std::memcpy(bytes.data(), elements.data() + 4 * i, 4);
        std::reverse(bytes.begin(), bytes.end());
        CHECK(std::memcmp(&values[i], bytes.data(), 4) == 0);
    }
    CHECK_ERROR(ErrorCode::unsupported, "big-endian",
                npy::map(device(), swapped.path(), FileAccess::read, {.require_zero_copy = true}));
    CHECK_ERROR(ErrorCode::unsupported, "big-endian", npy::map(device(), swapped.path(), FileAccess::read_write));

    const TemporaryFile bools(npy_file(boolean, {4}, {std::byte{0}, std::byte{1}, std::byte{2}, std::byte{255}}), disk);
    const Array truths = npy::map(device(), bools.path());
    CHECK(truths.zero_copy() == ZeroCopy::no);
    const HostView view = Buffer(device(), truths.memory(), 4, MemoryKind::device).map(Access::read);
    CHECK(std::all_of(view.data() + 1, view.data() + 4, [](std::byte value) { return value == std::byte{1}; }));

    const TemporaryFile empty_file(npy_file(float64, {0, 7}, {}), disk);
    CHECK(npy::map(device(), empty_file.path()).shape() == Shape{0, 7});
}

TEST_CASE("a file opened for writing changes with the array, or when it is looked at") {
    for (const auto& folder : {memory, disk}) {
        CAPTURE(folder);
        const Bytes elements = make_elements(uint16, 10'000, 5);
        const TemporaryFile file(npy_file(uint16, {10'000}, elements), folder);
        const Array array = npy::map(device(), file.path(), FileAccess::read_write);
        INFO(array.residency());
        if (is_host_memory_native() || (folder == memory && device().info().backend == "cuda"))
            CHECK(array.zero_copy() == ZeroCopy::yes);
        Queue queue(device());
        twice(queue, array);
        { const auto view = array.map<std::uint16_t>(Access::read); }
        const Bytes content = file.content();
        std::int64_t wrong = 0;
        for (std::size_t i = 0; i < 10'000; ++i) {
            std::uint16_t before = 0, after = 0;
            std::memcpy(&before, elements.data() + 2 * i, 2);
            std::memcpy(&after, content.data() + 128 + 2 * i, 2);
            wrong += after != static_cast<std::uint16_t>(2 * before);
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("a copy-on-write file stays as it is") {
    const Bytes elements = make_elements(uint16, 10'000, 6);
    const Bytes content = npy_file(uint16, {10'000}, elements);
    const TemporaryFile file(content, disk);
    const Array array = npy::map(device(), file.path(), FileAccess::copy_on_write);
    if (device().info().backend == "cuda") {
        CHECK(array.zero_copy() == ZeroCopy::no);
        CHECK(array.residency().find("private") != std::string::npos);
    }
    Queue queue(device());
    twice(queue, array);
    std::uint16_t before = 0;
    std::memcpy(&before, elements.data() + 2 * 9999, 2);
    CHECK(array.map<std::uint16_t>(Access::read)[9999] == static_cast<std::uint16_t>(2 * before));
    CHECK(file.content() == content);
}

TEST_CASE("what the caller wrote to a copy-on-write file is what the device sees, copied or not") {
    for (const char* order : {"<", ">"}) {
        const TemporaryFile file(npy_file(uint16, {100}, Bytes(200), 128, order), disk);
        const npy::File opened = npy::File::open(file.path(), false, {.access = FileAccess::copy_on_write});
        opened.mapping().writable_bytes()[128] = std::byte{1};
        opened.mapping().writable_bytes()[129] = std::byte{1};  // the same number in either order
        Queue queue(device());
        CHECK(to_vector<std::uint16_t>(queue, npy::map(device(), opened))[0] == 257);
        CHECK(to_vector<std::uint16_t>(queue, npy::load(device(), opened))[0] == 257);
    }
}

TEST_CASE("a file opened for reading is not written to, nor is a copy of it") {
    for (const char* order : {"<", ">"}) {
        const TemporaryFile file(npy_file(float32, {100}, make_elements(float32, 100, 2), 128, order), disk);
        Queue queue(device());
        CHECK_ERROR(ErrorCode::invalid_argument, "read-only", twice(queue, npy::map(device(), file.path())));
    }
}

TEST_CASE("a file's array keeps the owner that it was given too") {
    const TemporaryFile file(npy_file(float32, {100}, make_elements(float32, 100, 2)), disk);
    auto owner = std::make_shared<int>(1);
    const std::weak_ptr<int> watched = owner;
    {
        const Array array = npy::map(device(), file.path(), FileAccess::read_write, {.owner = std::move(owner)});
        CHECK_FALSE(watched.expired());
    }
    CHECK(watched.expired());
}

TEST_CASE("ranges that no memory has are refused") {
    std::vector<float> mine(100);
    auto* bytes = reinterpret_cast<std::byte*>(mine.data());
    CHECK_ERROR(ErrorCode::invalid_argument, "read", adopt_bytes(device(), std::span(bytes, SIZE_MAX - 100)));
    CHECK_ERROR(ErrorCode::out_of_range, "strides",
                adopt(device(), static_cast<void*>(bytes), float32, {2, 2}, Strides{INT64_MIN, 0}));
    CHECK_ERROR(ErrorCode::invalid_argument, "fallback", adopt(device(), mine, {.fallback = MemoryKind::adopted}));
    static_assert(CanAdopt<std::vector<float>> && !CanAdopt<const std::vector<float>>);
}

TEST_CASE("a copy between devices sees that both adopted the same memory") {
    std::vector<std::int32_t> mine(100'000, 1);
    const Array here = adopt(device(), std::span(mine).first(90'000));
    for (const BackendInfo& backend : list_backends()) {
        for (const DeviceInfo& info : backend.devices) {
            if (info.spec == device().spec()) continue;
            const Array there = adopt(open_device(info.spec), std::span(mine).last(90'000));
            if (here.zero_copy() != ZeroCopy::yes || there.zero_copy() != ZeroCopy::yes) continue;  // they are copies
            Queue queue(device());
            CHECK_ERROR(ErrorCode::invalid_argument, "overlap", copy(queue, here, there));
        }
    }
}

TEST_CASE("zero copy is had or refused, never assumed") {
    std::vector<double> mine(1000, 1.0);
    const auto strict = [&] { return adopt(device(), mine, {.require_zero_copy = true}); };
    if (is_host_memory_native() || device().info().backend == "cuda") {
        CHECK(strict().zero_copy() == ZeroCopy::yes);
    } else {
        CHECK_ERROR(ErrorCode::unsupported, "without a copy", strict());
        CHECK(adopt(device(), mine).zero_copy() == ZeroCopy::no);
    }
}

TEST_CASE("a file that has become shorter is an error where the library reads it") {
    const TemporaryFile file(npy_file(float32, {100'000}, make_elements(float32, 100'000, 8), 128, ">"), disk);
    const npy::File opened = npy::File::open(file.path());
    std::filesystem::resize_file(file.path(), 200'000);
    CHECK_ERROR(ErrorCode::bad_file, "found", npy::map(device(), opened));
    CHECK_ERROR(ErrorCode::bad_file, "found", npy::load(device(), opened));
}

TEST_CASE("one file, and one memfd, used by every device there is at once") {
    const Bytes elements = make_elements(int32, 50'000, 9);
    const TemporaryFile file(npy_file(int32, {50'000}, elements), disk);
    const npy::File opened = npy::File::open(file.path());
    const int number = ::memfd_create("tandem-test", MFD_CLOEXEC);
    REQUIRE(number >= 0);
    REQUIRE(::ftruncate(number, 400'000) == 0);
    void* pages = ::mmap(nullptr, 400'000, PROT_READ | PROT_WRITE, MAP_SHARED, number, 0);
    REQUIRE(pages != MAP_FAILED);
    const std::span<std::int64_t> numbers(static_cast<std::int64_t*>(pages), 50'000);
    std::fill(numbers.begin(), numbers.end(), 1);
    std::int64_t expected = 1;
    {
        std::vector<Array> mapped, written;
        for (const BackendInfo& backend : list_backends()) {
            for (const DeviceInfo& info : backend.devices) {
                const Device there = open_device(info.spec);
                mapped.push_back(npy::map(there, opened));
                written.push_back(adopt(there, numbers));
            }
        }
        for (std::size_t i = 0; i < mapped.size(); ++i) {
            const Device there = mapped[i].device();
            CAPTURE(there.spec());
            Queue queue(there);
            const std::vector<std::int32_t> seen = to_vector<std::int32_t>(queue, mapped[i]);
            CHECK(std::memcmp(seen.data(), elements.data(), elements.size()) == 0);
            if (written[i].zero_copy() != ZeroCopy::yes) continue;  // a copy does not follow the others
            twice(queue, written[i]);
            const auto view = written[i].map<std::int64_t>(Access::read);
            expected *= 2;
            CHECK(std::all_of(view.begin(), view.end(), [&](std::int64_t value) { return value == expected; }));
        }
    }
    CHECK(expected > 1);
    ::munmap(pages, 400'000);
    ::close(number);
}

TEST_SUITE_END();

}  // namespace tandem::test
