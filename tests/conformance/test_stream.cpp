// Files worked on chunk by chunk: new files, arrays, nothing, and the file itself.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "../unit/scratch_folder.hpp"
#include "fixture.hpp"

namespace tandem::test {
namespace {

constexpr std::int64_t count = 50'021;  // a prime

class SmallRing {
public:
    SmallRing() { set_transfer_limits(device(), {2, 2, 65536}); }
    ~SmallRing() { set_transfer_limits(device(), {}); }
    SmallRing(const SmallRing&) = delete;
    SmallRing& operator=(const SmallRing&) = delete;
};

// Enough for the ring and for chunks of about a thousand 12-byte items.
StreamOptions in_small_chunks() {
    StreamOptions options;
    options.memory_bytes = std::size_t{4} * (65536 + 8192) + 36'000;
    return options;
}

// float64 elements i + start, in the byte order asked for.
std::filesystem::path file_of(const ScratchFolder& folder, const char* name, double start, bool swapped = false,
                              const Shape& shape = {count}) {
    const std::filesystem::path path = folder / name;
    std::ofstream file(path, std::ios::binary);
    std::string header = npy::format_header(float64, shape, false);
    if (swapped) header.replace(header.find("<f8"), 3, ">f8");
    file << header;
    for (std::int64_t i = 0; i < element_count(shape, 8); ++i) {
        const double value = start + static_cast<double>(i);
        std::array<char, 8> bytes{};
        std::memcpy(bytes.data(), &value, 8);
        if (swapped) std::reverse(bytes.begin(), bytes.end());
        file.write(bytes.data(), 8);
    }
    return path;
}

// Whether element i of the file's payload is `expected(i)`.
bool holds(const std::filesystem::path& path, std::size_t start, const std::function<double(std::int64_t)>& expected,
           bool swapped = false, std::int64_t elements = count) {
    std::ifstream file(path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(start));
    for (std::int64_t i = 0; i < elements; ++i) {
        std::array<char, 8> bytes{};
        if (!file.read(bytes.data(), 8)) return false;
        if (swapped) std::reverse(bytes.begin(), bytes.end());
        double value = 0;
        std::memcpy(&value, bytes.data(), 8);
        if (value != expected(i)) return false;
    }
    return file.peek() == std::ifstream::traits_type::eof();
}

void double_chunk(Queue& queue, std::span<const Array> inputs, const Array& output) {
    twice(queue, inputs[0], output);
}

void add_chunk(Queue& queue, std::span<const Array> inputs, const Array& output) {
    add(queue, inputs[0], inputs[1], output);
}

}  // namespace

TEST_CASE("files are streamed into a new file and mixed byte orders come out native") {
    const ScratchFolder folder;
    const SmallRing ring;
    Queue queue(device());
    const StreamInput inputs[] = {file_of(folder, "a.npy", 1), file_of(folder, "b.npy", 0.5, true)};
    int chunks = 0;
    stream(
        queue, inputs, {folder / "sum.npy", float64},
        [&](Queue& on, std::span<const Array> in, const Array& out) {
            ++chunks;
            CHECK(in.size() == 2);
            CHECK(in[0].count() == out.count());
            CHECK(in[0].count() <= 36'000 / 36);
            add_chunk(on, in, out);
        },
        in_small_chunks());
    CHECK(chunks > 20);
    CHECK(holds(folder / "sum.npy", 128, [](std::int64_t i) { return 1.5 + 2 * static_cast<double>(i); }));
    CHECK(npy::read_header(folder / "sum.npy").shape == Shape{count});
    stream(queue, std::span(inputs, 1), StreamOutput::raw(folder / "twice.raw", float64), double_chunk, in_small_chunks());
    CHECK(holds(folder / "twice.raw", 0, [](std::int64_t i) { return 2 + 2 * static_cast<double>(i); }));
    CHECK(folder.names() == std::set<std::string>{"a.npy", "b.npy", "sum.npy", "twice.raw"});
}

TEST_CASE("files are streamed into an array and into nothing") {
    const ScratchFolder folder;
    const SmallRing ring;
    Queue queue(device());
    const StreamInput input = StreamInput::raw(MappedFile::open(file_of(folder, "a.npy", 3)), float64, {}, 128);
    const Array out = empty(device(), float64, {count});
    stream(queue, {&input, 1}, out, double_chunk, in_small_chunks());
    const std::vector<double> found = to_vector<double>(queue, out);
    bool is_right = true;
    for (std::size_t i = 0; i < found.size(); ++i)
        is_right &= found[i] == 2 * (3 + static_cast<double>(i));
    CHECK(is_right);
    std::int64_t seen = 0;
    std::vector<Progress> told;
    StreamOptions options = in_small_chunks();
    options.transfer.progress = [&](const Progress& progress) { told.push_back(progress); };
    stream(
        queue, {&input, 1}, {},
        [&](Queue&, std::span<const Array> in, const Array& nothing) {
            CHECK(nothing.count() == 0);
            seen += in[0].count();
        },
        options);
    CHECK(seen == count);
    REQUIRE_FALSE(told.empty());
    CHECK(told.back().done_bytes == count * 8);
    CHECK(told.back().total_bytes == count * 8);
}

TEST_CASE("chunks by rows are whole rows and multiples of what was asked for") {
    const ScratchFolder folder;
    const SmallRing ring;
    Queue queue(device());
    const StreamInput input(file_of(folder, "a.npy", 0, false, {101, 5, 7}));
    StreamOptions options = in_small_chunks();
    options.by_rows = true;
    options.chunk_length = 4;
    std::int64_t rows = 0;
    stream(
        queue, {&input, 1}, {folder / "out.npy", float64},
        [&](Queue& on, std::span<const Array> in, const Array& out) {
            REQUIRE(in[0].shape().size() == 3);
            CHECK(in[0].shape()[1] == 5);
            CHECK(in[0].shape()[2] == 7);
            CHECK((in[0].shape()[0] % 4 == 0 || rows + in[0].shape()[0] == 101));
            rows += in[0].shape()[0];
            double_chunk(on, in, out);
        },
        options);
    CHECK(rows == 101);
    CHECK(holds(
        folder / "out.npy", 128, [](std::int64_t i) { return 2 * static_cast<double>(i); }, false, 101 * 35));
    CHECK(npy::read_header(folder / "out.npy").shape == Shape{101, 5, 7});
    options.chunk_length = 90;  // 3 x 2 x 90 x 280 bytes
    CHECK_ERROR(ErrorCode::invalid_argument, "needed for three chunks of 90 rows",
                stream(queue, {&input, 1}, {folder / "out.npy", float64}, double_chunk, options));
}

TEST_CASE("nothing and a single element are streamed as well") {
    const ScratchFolder folder;
    Queue queue(device());
    const StreamInput none(file_of(folder, "none.npy", 0, false, {0, 3})), one(file_of(folder, "one.npy", 4, false, {}));
    stream(queue, {&none, 1}, {folder / "none-out.npy", float64}, double_chunk);
    CHECK(npy::read_header(folder / "none-out.npy").shape == Shape{0, 3});
    stream(queue, {&one, 1}, {folder / "one-out.npy", float64}, double_chunk);
    CHECK(holds(
        folder / "one-out.npy", 128, [](std::int64_t) { return 8.0; }, false, 1));
    for (const bool by_rows : {false, true}) {
        const Array out = empty(device(), float64, {});
        stream(queue, {&one, 1}, out, double_chunk, {.by_rows = by_rows});
        CHECK(to_vector<double>(queue, out) == std::vector<double>{8.0});
    }
}

TEST_CASE("streams that can't be are refused and failures leave nothing") {
    const ScratchFolder folder;
    const SmallRing ring;
    Queue queue(device());
    folder.write("old.npy", "old");
    const StreamInput a(file_of(folder, "a.npy", 0)), other(file_of(folder, "other.npy", 0, false, {7}));
    const StreamInput both[] = {a, other};
    const StreamOutput output(folder / "old.npy", float64);
    CHECK_ERROR(ErrorCode::invalid_argument, "no input", stream(queue, {}, output, double_chunk));
    CHECK_ERROR(ErrorCode::invalid_argument, "must be equal", stream(queue, both, output, add_chunk));
    CHECK_ERROR(ErrorCode::invalid_argument, "needed for three chunks",
                stream(queue, {&a, 1}, output, double_chunk, {.memory_bytes = 1000}));
    CHECK_ERROR(ErrorCode::invalid_argument, "has to be an array of shape",
                stream(queue, {&a, 1}, empty(device(), float64, {7}), double_chunk));
    int calls = 0;
    const auto failing = [&](Queue& on, std::span<const Array> in, const Array& out) {
        double_chunk(on, in, out);
        if (++calls == 5) throw std::runtime_error("the caller's own");
    };
    CHECK_THROWS_WITH_AS(stream(queue, {&a, 1}, output, failing, in_small_chunks()), "the caller's own", std::runtime_error);
    StreamOptions stopping = in_small_chunks();
    std::stop_source stop;
    stopping.transfer.stop = stop.get_token();
    const auto stops = [&](Queue& on, std::span<const Array> in, const Array& out) {
        double_chunk(on, in, out);
        stop.request_stop();
    };
    CHECK_ERROR(ErrorCode::cancelled, ": cancelled after", stream(queue, {&a, 1}, output, stops, stopping));
    const npy::File file = npy::File::open(folder / "a.npy");
    std::filesystem::resize_file(folder / "a.npy", 100'000);
    CHECK_ERROR(ErrorCode::bad_file, "a.npy: offset ", {
        const StreamInput shorter(file);
        stream(queue, {&shorter, 1}, output, double_chunk, in_small_chunks());
    });
    CHECK(read_text(folder / "old.npy") == "old");
    CHECK(folder.names() == std::set<std::string>{"a.npy", "old.npy", "other.npy"});
}

TEST_CASE("what a caller throws at the end comes before the point of no return") {
    const ScratchFolder folder;
    const SmallRing ring;
    Queue queue(device());
    StreamOptions options = in_small_chunks();
    options.transfer.progress = [](const Progress& progress) {
        if (progress.done_bytes == progress.total_bytes) throw std::runtime_error("at the end");
    };
    const std::filesystem::path path = file_of(folder, "a.npy", 1);
    const StreamInput input(path);
    folder.write("old.npy", "old");
    CHECK_THROWS_WITH_AS(stream(queue, {&input, 1}, {folder / "old.npy", float64}, double_chunk, options), "at the end",
                         std::runtime_error);
    CHECK(read_text(folder / "old.npy") == "old");
    options.memory_bytes += std::size_t{1} << 20U;
    const npy::File file = npy::File::open(path, false, {.access = FileAccess::read_write});
    CHECK_THROWS_WITH_AS(stream_in_place(queue, file, "double", double_chunk, options), "at the end", std::runtime_error);
    // No element twice.
    options.transfer = {};
    stream_in_place(queue, file, "double", double_chunk, options);
    CHECK(holds(path, 128, [](std::int64_t i) { return 2 * (1 + static_cast<double>(i)); }));
    CHECK(folder.names() == std::set<std::string>{"a.npy", "old.npy"});
}

TEST_CASE("a file is changed in place and an interrupted run is finished") {
    const ScratchFolder folder;
    const SmallRing ring;
    Queue queue(device());
    StreamOptions options = in_small_chunks();
    // Records of an eighth of that, and chunks of some 300 kB.
    options.memory_bytes += std::size_t{1} << 20U;
    constexpr std::int64_t many = 700'001;
    for (const bool swapped : {false, true}) {
        const std::filesystem::path path = file_of(folder, "a.npy", 1, swapped, {many});
        const npy::File file = npy::File::open(path, false, {.access = FileAccess::read_write});
        int calls = 0;
        const auto failing = [&](Queue& on, std::span<const Array> in, const Array& out) {
            double_chunk(on, in, out);
            if (++calls == 10) throw std::runtime_error("interrupted");
        };
        CHECK_THROWS_WITH_AS(stream_in_place(queue, file, "double", failing, options), "interrupted", std::runtime_error);
        CHECK(std::filesystem::exists(journal_of(path)));
        CHECK_FALSE(holds(
            path, 128, [](std::int64_t i) { return 1 + static_cast<double>(i); }, swapped, many));
        CHECK_ERROR(ErrorCode::bad_file, "\"double float64\"", stream_in_place(queue, file, "triple", double_chunk, options));
        std::int64_t seen = 0;
        stream_in_place(
            queue, file, "double",
            [&](Queue& on, std::span<const Array> in, const Array& out) {
                seen += in[0].count();
                double_chunk(on, in, out);
            },
            options);
        CHECK(seen < many);
        CHECK(holds(
            path, 128, [](std::int64_t i) { return 2 * (1 + static_cast<double>(i)); }, swapped, many));
        CHECK(folder.names() == std::set<std::string>{"a.npy"});
    }
    CHECK_ERROR(ErrorCode::invalid_argument, "not open to be written to",
                stream_in_place(queue, StreamInput(folder / "a.npy"), "double", double_chunk, options));
}

}  // namespace tandem::test
