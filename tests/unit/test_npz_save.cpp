// Writing archives: what Python makes of them is in tests/cli; here is how they lie in the file, and what is refused.

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

#include "core/npz/zip_writer.hpp"
#include "tests/unit/expect_error.hpp"
#include "tests/unit/scratch_folder.hpp"

using tandem::Array;
using tandem::Device;
using tandem::ErrorCode;
using tandem::Order;
using tandem::Queue;
using tandem::test::expect_error;
using tandem::test::read_text;
using tandem::test::ScratchFolder;
namespace fs = std::filesystem;
namespace npy = tandem::npy;
namespace npz = tandem::npz;

namespace {

const Device& host() {
    static const Device device = tandem::open_device("host");
    return device;
}

Array counting(std::int64_t count) {
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), -3);
    return tandem::adopt(host(), std::move(numbers));
}

std::vector<std::int32_t> values_of(const Array& array) {
    Queue queue(host());
    return tandem::to_vector<std::int32_t>(queue, array);
}

}  // namespace

TEST_CASE("npz save: progress is told and a stop leaves the old archive") {
    const ScratchFolder folder;
    for (const bool compressed : {false, true}) {
        folder.write("a.npz", "old");
        std::vector<std::pair<std::uint64_t, std::uint64_t>> told;
        std::stop_source stop;
        tandem::TransferOptions transfer{
            [&](const tandem::Progress& progress) { told.emplace_back(progress.done_bytes, progress.total_bytes); },
            stop.get_token()};
        npz::save(folder / "a.npz", {{"a", counting(1000)}, {"b", counting(10)}}, compressed, transfer);
        const std::uint64_t total = counting(1010).size_bytes();
        REQUIRE_FALSE(told.empty());
        CHECK(told.back() == std::pair(total, total));
        CHECK(std::is_sorted(told.begin(), told.end()));
        folder.write("a.npz", "old");
        transfer.progress = [](const tandem::Progress& progress) {
            if (progress.done_bytes == progress.total_bytes) throw std::runtime_error("at the end");
        };
        CHECK_THROWS_AS(npz::save(folder / "a.npz", {{"a", counting(1000)}}, compressed, transfer), std::runtime_error);
        stop.request_stop();
        expect_error(ErrorCode::cancelled, {"a.npz: cancelled"}, [&] {
            npz::save(folder / "a.npz", {{"a", counting(1000)}}, compressed, {.stop = stop.get_token()});
            return 0;
        });
        CHECK(read_text(folder / "a.npz") == "old");
    }
    // Inflating ends too.
    npz::save(folder / "a.npz", {{"a", counting(1000)}}, true);
    std::stop_source stop;
    stop.request_stop();
    expect_error(ErrorCode::cancelled, {"a.npz:a: cancelled"}, [&] {
        return npz::load(tandem::open_device("host"), folder / "a.npz", "a", {.transfer = {.stop = stop.get_token()}});
    });
}

TEST_CASE("npz save: every size, stored and deflated, comes back") {
    const ScratchFolder folder;
    std::vector<npz::Entry> entries;
    for (const std::int64_t count : {0, 1, 7, 255, 256, 257, 104729, 3000017})
        entries.push_back({"count " + std::to_string(count), counting(count)});
    for (const bool compressed : {false, true}) {
        CAPTURE(compressed);
        npz::save(folder / "a.npz", entries, compressed);
        const npz::Archive archive = npz::Archive::open(folder / "a.npz");
        REQUIRE(archive.members().size() == entries.size());
        for (const npz::Entry& entry : entries) {
            CAPTURE(entry.name);
            CHECK(archive.find(entry.name).compressed == compressed);
            CHECK(archive.find(entry.name).file_name == entry.name + ".npy");
            const npy::File file = archive.member(entry.name, true);
            CHECK(values_of(npy::load(host(), file)) == values_of(entry.array));
            if (!compressed) CHECK(file.data_offset_bytes() % 64 == 0);
        }
        CHECK(folder.names() == std::set<std::string>{"a.npz"});
    }
}

TEST_CASE("npz save: views, orders, names, and an archive without members") {
    const ScratchFolder folder;
    const Array all = counting(24);
    const Array table = all.reshape({4, 6});
    Queue queue(host());
    npz::save(
        queue,
        {{"", all}, {"dir/a", table.transpose()}, {"\xc3\xa9", table.slice(1, 0, 6, 2)}, {"\xff", all.at(0, 5)}, {"a.npy", all}},
        folder / "a.npz");
    const npz::Archive archive = npz::Archive::open(folder / "a.npz");
    CHECK(archive.find("dir/a").file_name == "dir/a.npy");
    CHECK(archive.find("a.npy").file_name == "a.npy.npy");
    CHECK(archive.member("dir/a").header().fortran_order);
    CHECK(archive.member("dir/a").header().shape == tandem::Shape{6, 4});
    CHECK(values_of(npy::load(host(), archive.member("\xc3\xa9"))) ==
          std::vector<std::int32_t>{-3, -1, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19});
    CHECK(archive.member("\xff").header().shape.empty());
    CHECK(archive.contains(".npy"));

    npz::save(folder / "empty.npz", {});
    CHECK(npz::Archive::open(folder / "empty.npz").members().empty());
}

TEST_CASE("npz save: the same arrays make the same bytes, and replace an archive as a whole") {
    const ScratchFolder folder;
    for (const bool compressed : {false, true}) {
        npz::save(folder / "a.npz", {{"a", counting(1000)}, {"b", counting(10)}}, compressed);
        const std::string first = tandem::test::read_text(folder / "a.npz");
        npz::save(folder / "a.npz", {{"a", counting(1000)}, {"b", counting(10)}}, compressed);
        CHECK(tandem::test::read_text(folder / "a.npz") == first);
        npz::save(folder / "a.npz", {{"c", counting(10)}}, compressed);
        CHECK_FALSE(npz::Archive::open(folder / "a.npz").contains("a"));
    }
}

TEST_CASE("npz save: what an archive can't hold leaves an earlier one alone") {
    const ScratchFolder folder;
    folder.write("a.npz", "earlier");
    const auto refused = [&](const std::vector<npz::Entry>& entries, std::initializer_list<std::string_view> parts) {
        expect_error(ErrorCode::invalid_argument, parts, [&] {
            npz::save(folder / "a.npz", entries);
            return 0;
        });
        CHECK(tandem::test::read_text(folder / "a.npz") == "earlier");
    };
    refused({{"a", counting(1)}, {"b", counting(1)}, {"a", counting(1)}}, {"a.npz: member 'a': there are two of this name"});
    refused({{std::string("a\0b", 3), counting(1)}}, {"a.npz: member 'a\\x00b': a name without NUL bytes"});
    refused({{std::string(65532, 'n'), counting(1)}}, {"at most 65531 bytes, this one has 65532"});
    npz::save(folder / "long.npz", {{std::string(65531, 'n'), counting(1)}});
    CHECK(npz::Archive::open(folder / "long.npz").members().at(0).name.size() == 65531);
    expect_error(ErrorCode::io, {"none", "No such file"}, [&] {
        npz::save(folder / "none/a.npz", {{"a", counting(1)}});
        return 0;
    });
    expect_error(ErrorCode::io, {"/dev/full", "No space left"}, [] {
        npz::save("/dev/full", {{"a", counting(1)}});
        return 0;
    });
    CHECK(folder.names() == std::set<std::string>{"a.npz", "long.npz"});
}

// A pipe is read to its end into memory, from where members are used.
TEST_CASE("npz save: to what can't be gone back in") {
    const ScratchFolder folder;
    REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
    for (const bool compressed : {false, true}) {
        std::thread writer([&] { npz::save(folder / "pipe", {{"a", counting(1000)}}, compressed); });
        const npz::Archive archive = npz::Archive::open(folder / "pipe");
        writer.join();
        CHECK(archive.mapping().in_memory());
        CHECK(values_of(npy::map(host(), archive.member("a"))) == values_of(counting(1000)));
    }
}

TEST_CASE("npz save: more members than 16 bits count") {
    const ScratchFolder folder;
    constexpr std::size_t count = 65536;
    {
        tandem::OutputFile file(folder / "a.npz");
        npz::ZipWriter zip(file);
        for (std::size_t i = 0; i < count; ++i)
            zip.begin_stored(std::to_string(i), 0, 0);
        zip.finish();
        file.commit();
    }
    const npz::Archive archive = npz::Archive::open(folder / "a.npz");
    CHECK(archive.members().size() == count);
    CHECK(archive.members().back().name == "65535");
    expect_error(ErrorCode::bad_file, {"a.npz:40000: offset 0", "empty file"}, [&] { return archive.member("40000"); });
}
