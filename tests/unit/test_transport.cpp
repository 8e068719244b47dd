// The parts that bytes pass on their way between files and devices.
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>
#include <vector>

#include "core/device_state.hpp"
#include "core/output_file.hpp"
#include "core/transport/file_transfer.hpp"
#include "core/transport/journal.hpp"
#include "core/transport/loader.hpp"
#include "core/transport/region.hpp"
#include "core/transport/saver.hpp"
#include "expect_error.hpp"
#include "scratch_folder.hpp"
#include "tandem/stream.hpp"
#include "tandem/tandem.hpp"

namespace tandem::test {
namespace {

std::string noise(std::size_t size_bytes, unsigned seed) {
    std::mt19937 random(seed);
    std::string bytes(size_bytes, '\0');
    for (char& byte : bytes)
        byte = static_cast<char>(random());
    return bytes;
}

// What the process has asked the system to read so far.
std::uint64_t bytes_read() {
    std::ifstream io("/proc/self/io");
    std::string name;
    std::uint64_t value = 0;
    io >> name >> value;
    REQUIRE(name == "rchar:");
    return value;
}

class SmallSlots {
public:
    SmallSlots(const Device& device, unsigned readers, unsigned writers) : device_(device) {
        set_transfer_limits(device, {readers, writers, 65536});
    }
    ~SmallSlots() { set_transfer_limits(device_, {}); }
    SmallSlots(const SmallSlots&) = delete;
    SmallSlots& operator=(const SmallSlots&) = delete;

private:
    const Device device_;
};

}  // namespace

TEST_CASE("a region is the bytes that slicing gives") {
    std::mt19937 random(1);
    for (int round = 0; round < 300; ++round) {
        const std::size_t dimensions = random() % 4;
        const std::size_t item_bytes = 1 + random() % 9;
        const Order order = random() % 2 == 0 ? Order::c : Order::fortran;
        Shape shape;
        std::vector<Range> ranges;
        for (std::size_t axis = 0; axis < dimensions; ++axis) {
            shape.push_back(1 + static_cast<std::int64_t>(random() % 12));
            const auto begin = static_cast<std::int64_t>(random()) % (shape[axis] + 1);
            if (random() % 3 != 0)
                ranges.resize(axis, Range{}), ranges.push_back({begin, begin + 1 + static_cast<std::int64_t>(random() % 8)});
        }
        const std::int64_t count = element_count(shape, item_bytes);
        const ScratchFolder folder;
        const std::string content = noise(13 + static_cast<std::size_t>(count) * item_bytes, static_cast<unsigned>(round));
        // Item by item, in the file's order.
        std::string expected;
        for (std::int64_t item = 0; item < count; ++item) {
            std::int64_t rest = item;
            bool is_in = true;
            for (std::size_t i = 0; i < dimensions; ++i) {
                const std::size_t axis = order == Order::c ? dimensions - 1 - i : i;
                const std::int64_t index = rest % shape[axis];
                rest /= shape[axis];
                if (axis < ranges.size()) is_in &= index >= ranges[axis].begin && index < ranges[axis].end;
            }
            if (is_in) expected += content.substr(13 + static_cast<std::size_t>(item) * item_bytes, item_bytes);
        }
        const Region region(shape, order, item_bytes, ranges);
        REQUIRE(region.size_bytes() == expected.size());
        RegionSource source(MappedFile::open(folder.write("a", content)), 13, region);
        // In pieces that end anywhere.
        std::string found(expected.size(), '?');
        for (std::size_t done = 0, part = 0; done < found.size(); done += part) {
            part = std::min<std::size_t>(found.size() - done, 1 + random() % 200);
            source.read(done, std::as_writable_bytes(std::span(found.data() + done, part)));
        }
        CHECK(found == expected);
    }
}

TEST_CASE("a column block of a 64th of a file reads an eighth of it at most") {
    const ScratchFolder folder;
    for (const std::int64_t row : {std::int64_t{64}, std::int64_t{1024}, std::int64_t{65536}}) {
        const std::int64_t rows = 8'388'608 / row;
        const std::string content = noise(8'388'608, 3);
        const std::filesystem::path path = folder.write("a.raw", content);
        const Device device = open_device("host");
        const std::int64_t width = row / 64;
        const std::uint64_t before = bytes_read();
        const Array part = raw::load(device, path, uint8, Shape{rows, row}, 0, {.ranges = {{0, rows}, {3 * width, 4 * width}}});
        CHECK(bytes_read() - before <= 8'388'608 / 8 + 4096);
        Queue queue(device);
        const auto found = to_vector<std::uint8_t>(queue, part);
        REQUIRE(found.size() == 8'388'608 / 64);
        bool is_right = true;
        for (std::size_t i = 0; i < found.size(); ++i) {
            const std::size_t at = i / static_cast<std::size_t>(width) * static_cast<std::size_t>(row) +
                                   static_cast<std::size_t>(3 * width) + i % static_cast<std::size_t>(width);
            is_right &= found[i] == static_cast<std::uint8_t>(content[at]);
        }
        CHECK(is_right);
    }
}

TEST_CASE("what is not in the page cache is read around it, from any offset") {
    const ScratchFolder folder;
    const std::string content = noise(1'000'003, 4);
    const std::filesystem::path path = folder.write("a", content);
    const MappedFile file = MappedFile::open(path);
    const int descriptor = ::open(path.c_str(), O_RDONLY);
    ::fsync(descriptor);
    std::vector<std::byte> slot_memory(300'000 + 3 * 4096);
    auto* const page = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(slot_memory.data()) + 4095) / 4096 * 4096);
    for (const std::uint64_t start : {0U, 1U, 80U, 4096U, 5000U}) {
        FileSource source(file, start);
        for (const std::uint64_t offset : {0U, 100'001U, 700'000U}) {
            ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
            const std::size_t size = std::min<std::size_t>(300'000, content.size() - start - offset);
            const auto piece = source.read_to_slot(offset, size, {page, 300'000 + 2 * 4096});
            CHECK(std::memcmp(piece.data(), content.data() + start + offset, size) == 0);
        }
    }
    ::close(descriptor);
    FileSource source(file, 3);
    std::filesystem::resize_file(path, 500'000);
    expect_error(ErrorCode::bad_file, {"a: offset 400003", "200000 bytes needed, 99997 found"}, [&] {
        return source.read_to_slot(400'000, 200'000, {page, 300'000 + 2 * 4096});
    });
}

TEST_CASE("jobs pass the ring to memory that the host does not see") {
    const Device device = open_device("host");
    const SmallSlots small(device, 3, 2);
    const std::string content = noise(1'000'003, 5);
    const Buffer buffer(device, content.size());
    CalledSource source(
        [&](std::uint64_t offset, std::span<std::byte> to) { std::memcpy(to.data(), content.data() + offset, to.size()); });
    const TransferOptions options;
    Meter meter(options, content.size());
    std::atomic<int> done{0};
    std::size_t begun = 0;
    run_loads(
        device,
        [&]() -> std::optional<LoadJob> {
            if (begun == content.size()) return {};
            const std::size_t begin = begun, size = std::min<std::size_t>(200'001, content.size() - begin);
            begun += size;
            return LoadJob{&source, begin, buffer.memory(), begin, size, nullptr, [&] { ++done; }};
        },
        content.size(), meter);
    CHECK(done == 5);
    {
        const HostView view = buffer.map(Access::read);
        CHECK(std::memcmp(view.data(), content.data(), content.size()) == 0);
    }
    // And back, into a file.
    const ScratchFolder folder;
    OutputFile file(folder / "out");
    SaveJob job{&file, file.reserve(content.size()), buffer.memory(), 0, content.size(), nullptr, [&] { ++done; }};
    bool is_given = false;
    run_saves(
        device,
        [&]() -> std::optional<SaveJob> {
            if (std::exchange(is_given, true)) return {};
            return job;
        },
        false, meter);
    CHECK(done == 6);
    file.commit();
    CHECK(read_text(folder / "out") == content);
}

TEST_CASE("loading waits for every byte that passes the ring") {
    const Device device = open_device("host");
    const ScratchFolder folder;
    const std::string content = noise(1'000'003, 10);
    const MappedFile file = MappedFile::open(folder.write("a", content));
    const SmallSlots small(device, 8, 2);
    Queue busy(device);
    const Array work = empty(device, uint8, {100'000'000});
    for (std::size_t delayed = 0; delayed < Transport::load_queues; ++delayed) {
        const Buffer buffer(device, content.size() - 3);
        const Array array(buffer, uint8, {static_cast<std::int64_t>(buffer.size_bytes())});
        std::memset(buffer.map(Access::write).data(), 0, buffer.size_bytes());
        // As memory that stands in for another, it is not written to by the host.
        // One of the queues gets to its copies later than the other.
        for (int i = 0; i < 3; ++i)
            twice(busy, work);
        device.state()->transport.load_queue(delayed)->wait_for(*busy.record().native());
        std::byte stood_in_for{};
        buffer.memory()->mirrored = &stood_in_for;
        load_bytes(file, 3, array);
        buffer.memory()->mirrored = nullptr;
        // At once, and not by a view, which would wait.
        CHECK(std::memcmp(buffer.host_address(), content.data() + 3, buffer.size_bytes()) == 0);
    }
}

TEST_CASE("a reader's failure ends the transfer and the ring is whole afterwards") {
    const Device device = open_device("host");
    const SmallSlots small(device, 4, 2);
    const Buffer buffer(device, 2'000'000);
    CalledSource source([&](std::uint64_t offset, std::span<std::byte> to) {
        if (offset >= 1'000'000) throw Error(ErrorCode::io, "unreadable");
        std::fill(to.begin(), to.end(), std::byte{1});
    });
    const TransferOptions options;
    for (int round = 0; round < 20; ++round) {
        Meter meter(options, 2'000'000);
        bool is_given = false;
        const auto load = [&] {
            run_loads(
                device,
                [&]() -> std::optional<LoadJob> {
                    if (std::exchange(is_given, true)) return {};
                    return LoadJob{&source, 0, buffer.memory(), 0, 2'000'000};
                },
                2'000'000, meter);
            return 0;
        };
        expect_error(ErrorCode::io, {"unreadable"}, load);
    }
    // All slots are there to be taken.
    const std::shared_ptr<Ring> ring = device.state()->transport.ring();
    std::vector<Ring::Slot> slots;
    while (slots.size() < ring->count())
        slots.push_back(ring->take());
    CHECK_FALSE(ring->try_take());
}

TEST_CASE("a journal finishes what was interrupted wherever that was") {
    const std::string before = noise(300'000, 6), after = noise(300'000, 7);
    // After so many bytes the run ends: before the first record, and within each further one.
    for (const std::size_t written : {0U, 4000U, 8192U, 8193U, 40'000U, 299'999U, 300'000U}) {
        for (const bool is_torn : {false, true}) {
            const ScratchFolder folder;
            const std::filesystem::path path = folder.write("a", "head" + before + "tail");
            const MappedFile file = MappedFile::open(path, FileAccess::read_write);
            const JournaledRun run{"test", 4, 300'000, 10, 8192};
            {
                Journal journal(file, run);
                CHECK(journal.done_bytes() == 0);
                journal.write_at(0, as_bytes(after.substr(0, written)));
            }
            CHECK(std::filesystem::exists(journal_of(path)) == (written >= 8192));
            if (is_torn && written >= 3 * 8192) {
                // The newest record was being written: its bytes in the file are still the old ones.
                const std::size_t records = written / 8190;
                std::fstream journal(journal_of(path), std::ios::binary | std::ios::in | std::ios::out);
                journal.seekp(static_cast<std::streamoff>(4096 + records % 2 * (4096 + 8192 + 4096) + 4096 + 17));
                journal.put('!');
                const std::size_t torn = (records - 1) * 8190;
                const int descriptor = ::open(path.c_str(), O_WRONLY);
                REQUIRE(::pwrite(descriptor, before.data() + torn, 8190, static_cast<off_t>(4 + torn)) == 8190);
                ::close(descriptor);
            }
            Journal journal(file, run);
            CHECK(journal.done_bytes() % 10 == 0);
            CHECK(journal.done_bytes() <= written);
            CHECK(read_text(folder / "a") ==
                  "head" + after.substr(0, journal.done_bytes()) + before.substr(journal.done_bytes()) + "tail");
            journal.write_at(journal.done_bytes(), as_bytes(after.substr(journal.done_bytes())));
            journal.finish();
            CHECK(read_text(folder / "a") == "head" + after + "tail");
            CHECK(folder.names() == std::set<std::string>{"a"});
        }
    }
}

namespace {

// A run of one record, interrupted: `after` is in the journal, and as much of it in the file as the storage had got to.
void interrupt_run(const std::filesystem::path& path, const std::string& before, const std::string& after, std::size_t written) {
    {
        const MappedFile file = MappedFile::open(path, FileAccess::read_write);
        Journal journal(file, {"test", 3, before.size() - 3, 1, before.size() - 3});
        journal.write_at(0, as_bytes(after.substr(3)));
    }
    const int descriptor = ::open(path.c_str(), O_WRONLY);
    REQUIRE(::pwrite(descriptor, before.data() + written, before.size() - written, static_cast<off_t>(written)) >= 0);
    ::close(descriptor);
}

}  // namespace

TEST_CASE("a run is finished on what it has left, and on nothing else") {
    const std::string before = noise(100'000, 16), after = noise(100'000, 17), other = noise(100'000, 18);
    const JournaledRun run{"test", 3, 99'997, 1, 99'997};
    for (const std::size_t written : {3U, 512U, 4096U, 51'200U, 100'000U}) {
        const ScratchFolder folder;
        const std::filesystem::path path = folder.write("a", before);
        interrupt_run(path, before, after, written);
        const std::string left = read_text(path);
        CHECK(interrupted_run(MappedFile::open(path)) == journal_of(path));

        // New contents of the same file, which the run knows nothing of: whole, and in one place.
        for (const std::size_t at : {std::size_t{0}, std::size_t{99'000}}) {
            std::ofstream(path, std::ios::binary) << left.substr(0, at) << other.substr(at);
            const MappedFile rewritten = MappedFile::open(path, FileAccess::read_write);
            expect_error(ErrorCode::bad_file, {"not for this file any more", "'tandem forget'"},
                         [&] { return Journal(rewritten, run).done_bytes(); });
            CHECK(read_text(path) == left.substr(0, at) + other.substr(at));
        }
        std::ofstream(path, std::ios::binary) << left;
        // A copy that was made with the journal is finished on its own.
        std::filesystem::create_directory(folder / "copy");
        for (const std::filesystem::path& from : {path, journal_of(path)})
            std::ofstream(folder / "copy" / from.filename(), std::ios::binary) << read_text(from);
        const MappedFile copy = MappedFile::open(folder / "copy" / "a", FileAccess::read_write);
        CHECK(interrupted_run(copy) == journal_of(copy.path()));
        Journal(copy, run).finish();
        CHECK(read_text(copy.path()) == before.substr(0, 3) + after.substr(3));
        Journal(MappedFile::open(path, FileAccess::read_write), run).finish();
        CHECK(read_text(path) == before.substr(0, 3) + after.substr(3));
        CHECK_FALSE(interrupted_run(MappedFile::open(path)));
    }
}

TEST_CASE("a run that was killed before its first record has changed nothing") {
    const ScratchFolder folder;
    const std::filesystem::path path = folder.write("a", noise(50'000, 22));
    const MappedFile file = MappedFile::open(path, FileAccess::read_write);
    const JournaledRun run{"test", 0, 50'000, 1, 4096};
    std::filesystem::create_directory(folder / "kept");
    {
        const Journal journal(file, run);
        std::filesystem::copy(journal_of(path), folder / "kept" / "whole");
    }
    const std::string whole = read_text(folder / "kept" / "whole");
    // As a process leaves it that is killed while it makes one, with the mark of an earlier one on the file.
    for (const std::size_t written : {std::size_t{0}, std::size_t{16}, std::size_t{100}, whole.size()}) {
        const std::string mark = journal_of(path).native();
        static_cast<void>(::fsetxattr(file.descriptor(), "user.tandem.journal", mark.data(), mark.size(), 0));
        std::ofstream(journal_of(path), std::ios::binary) << whole.substr(0, written);
        CHECK_FALSE(interrupted_run(file));
        Journal journal(file, run);
        CHECK(journal.done_bytes() == 0);
    }
    CHECK(read_text(path) == noise(50'000, 22));
    CHECK_FALSE(interrupted_run(file));
}

TEST_CASE("an interrupted run is forgotten") {
    const std::string before = noise(50'000, 19), after = noise(50'000, 20);
    const JournaledRun run{"test", 3, 49'997, 1, 49'997};
    const ScratchFolder folder;
    const std::filesystem::path path = folder.write("a", before);
    const MappedFile file = MappedFile::open(path, FileAccess::read_write);
    CHECK_FALSE(forget_interrupted_run(file));
    {
        const Journal at_work(file, run);
        expect_error(ErrorCode::io, {"another process is changing"}, [&] { return forget_interrupted_run(file); });
        CHECK(interrupted_run(file) == journal_of(path));
    }
    CHECK_FALSE(interrupted_run(file));
    interrupt_run(path, before, after, 30'208);
    CHECK(interrupted_run(file));
    std::ofstream(path, std::ios::binary) << before;
    CHECK(forget_interrupted_run(file));
    CHECK_FALSE(interrupted_run(file));
    CHECK(folder.names() == std::set<std::string>{"a"});
    {
        Journal journal(file, run);
        journal.write_at(0, as_bytes(after.substr(3)));
        journal.finish();
    }
    CHECK(read_text(path) == before.substr(0, 3) + after.substr(3));

    // The journal of one file in the place of another's.
    folder.write("a", before);
    interrupt_run(path, before, after, 30'208);
    std::filesystem::rename(path, folder / "moved");
    folder.write("a", noise(50'000, 21));
    const MappedFile second = MappedFile::open(path, FileAccess::read_write);
    CHECK_FALSE(interrupted_run(second));
    expect_error(ErrorCode::bad_file, {"is of another file", "remove the journal"},
                 [&] { return forget_interrupted_run(second); });
    expect_error(ErrorCode::bad_file, {"not for this file any more"}, [&] { return Journal(second, run).done_bytes(); });
    const MappedFile moved = MappedFile::open(folder / "moved", FileAccess::read_write);
    Journal(moved, run).finish();
    CHECK(read_text(folder / "moved") == before.substr(0, 3) + after.substr(3));
    CHECK(folder.names() == std::set<std::string>{"a", "moved"});
}

TEST_CASE("an interrupted run is finished in less memory than it was begun with") {
    const ScratchFolder folder;
    const std::string before = noise(3'000'000, 12), after = noise(3'000'000, 13);
    const std::filesystem::path path = folder.write("a", before);
    const MappedFile file = MappedFile::open(path, FileAccess::read_write);
    {
        Journal journal(file, {"test", 0, 3'000'000, 8, 1'000'000});
        journal.write_at(0, as_bytes(after.substr(0, 2'500'000)));
    }
    Journal journal(file, {"test", 0, 3'000'000, 8, 4096});
    CHECK(journal.done_bytes() == 2'000'000);
    journal.write_at(2'000'000, as_bytes(after.substr(2'000'000, 500'000)));
    // Records are small now.
    CHECK(journal.done_bytes() > 2'490'000);
    journal.write_at(2'500'000, as_bytes(after.substr(2'500'000)));
    journal.finish();
    CHECK(read_text(path) == after);
    CHECK(folder.names() == std::set<std::string>{"a"});
}

TEST_CASE("a journal's name fits where the file's own does") {
    const ScratchFolder folder;
    for (const std::size_t length : {200U, 239U, 240U, 255U}) {
        const std::filesystem::path path = folder.write(std::string(length, 'n').c_str(), noise(10'000, 14));
        const MappedFile file = MappedFile::open(path, FileAccess::read_write);
        CHECK(journal_of(path).filename().native().size() <= 255);
        Journal journal(file, {"test", 0, 10'000, 1, 4096});
        CHECK(is_run_under_way(journal_of(path)));
        journal.write_at(0, as_bytes(noise(10'000, 15)));
        CHECK(interrupted_run(file) == journal_of(path));
        journal.finish();
        CHECK(read_text(path) == noise(10'000, 15));
        CHECK_FALSE(is_run_under_way(journal_of(path)));
    }
    CHECK(journal_of(folder / std::string(255, 'n')) != journal_of(folder / (std::string(254, 'n') + 'm')));
    CHECK(folder.names().size() == 4);
}

TEST_CASE("a journal belongs to one process and one run") {
    const ScratchFolder folder;
    const std::filesystem::path path = folder.write("a", noise(100'000, 8));
    const MappedFile file = MappedFile::open(path, FileAccess::read_write);
    const JournaledRun run{"test", 0, 100'000, 1, 4096};
    {
        Journal journal(file, run);
        // By this handle of the file and by another; the first one keeps the file.
        const MappedFile again = MappedFile::open(path, FileAccess::read_write);
        for (const MappedFile& other : {file, again, file})
            expect_error(ErrorCode::io, {"another process is changing the file"},
                         [&] { return Journal(other, run).done_bytes(); });
        CHECK(folder.names().size() == 2);
        journal.write_at(0, as_bytes(noise(50'000, 9)));
        CHECK_THROWS_AS(journal.write_at(60'000, as_bytes("x")), Error);
        CHECK_THROWS_AS(journal.finish(), Error);
    }
    const std::string kept = read_text(folder / "a");
    const std::string longer = "test" + std::string(300, ' ');
    for (const JournaledRun& other : {JournaledRun{"other", 0, 100'000, 1, 4096}, JournaledRun{"test", 8, 90'000, 1, 4096},
                                      JournaledRun{longer, 0, 100'000, 1, 4096}}) {
        expect_error(ErrorCode::bad_file, {".a.tandem-journal", "\"test\" on 100000 bytes at offset 0"},
                     [&] { return Journal(file, other).done_bytes(); });
    }
    CHECK(read_text(folder / "a") == kept);
    CHECK(Journal(file, run).done_bytes() == 49'152);
}

}  // namespace tandem::test
