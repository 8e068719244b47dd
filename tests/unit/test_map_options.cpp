// What a mapping asks of the system, against what the system's own tables say of it.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tandem/error.hpp>
#include <tandem/mapped_file.hpp>

#include "child.hpp"
#include "expect_error.hpp"
#include "mapping_checks.hpp"
#include "scratch_folder.hpp"

using tandem::Advice;
using tandem::ErrorCode;
using tandem::FileAccess;
using tandem::Grant;
using tandem::MapGrants;
using tandem::MapOptions;
using tandem::MappedFile;
using tandem::test::as_text;
using tandem::test::check_reason;
using tandem::test::check_refused;
using tandem::test::every_access;
using tandem::test::expect_error;
using tandem::test::has_flag;
using tandem::test::in_child;
using tandem::test::mappings_of;
using tandem::test::megabyte;
using tandem::test::open_descriptors;
using tandem::test::page;
using tandem::test::places;
using tandem::test::populate_read;
using tandem::test::read_text;
using tandem::test::refuse_call;
using tandem::test::ScratchFolder;
using tandem::test::smaps_bytes;
using tandem::test::sparse_file;
using tandem::test::system_does;
namespace fs = std::filesystem;

namespace {

void touch_every_page(const MappedFile& file) {
    for (std::size_t at = 0; at < file.size_bytes(); at += page) {
        volatile std::byte touched = file.bytes()[at];
        static_cast<void>(touched);
    }
}

std::vector<const Grant*> all_of(const MapGrants& grants) {
    return {&grants.populate, &grants.huge_pages, &grants.lock, &grants.advice};
}

const MapOptions everything = {
    .access = FileAccess::read, .populate = true, .huge_pages = true, .lock = true, .advice = Advice::sequential};

}  // namespace

TEST_CASE("map options: nothing is asked for by default") {
    const ScratchFolder folder;
    const fs::path path = folder.write("a.bin", "hello");
    for (const MappedFile& file : {MappedFile(), MappedFile::open(path), MappedFile::open(path, FileAccess::read_write),
                                   MappedFile::open(path, MapOptions()), MappedFile::open(path, {})}) {
        for (const Grant* grant : all_of(file.grants())) {
            CHECK_FALSE(grant->requested);
            CHECK_FALSE(grant->granted);
            CHECK(grant->reason.empty());
        }
    }
    const MappedFile own = MappedFile::open(path, {.access = FileAccess::copy_on_write});
    CHECK(own.access() == FileAccess::copy_on_write);
    own.writable_bytes()[0] = std::byte{'j'};
    CHECK(as_text(own.bytes()) == "jello");
}

TEST_CASE("map options: populate") {
    for (const fs::path& place : places()) {
        for (const FileAccess access : every_access) {
            CAPTURE(place);
            CAPTURE(static_cast<int>(access));
            const ScratchFolder folder(place);
            const fs::path path = sparse_file(folder, 4 * megabyte + 100);
            const MappedFile lazy = MappedFile::open(path, access);
            CHECK(smaps_bytes(lazy.bytes().data(), "Rss") == 0);
            const MappedFile file = MappedFile::open(path, {.access = access, .populate = true});
            const Grant& grant = file.grants().populate;
            check_reason(grant);
            const std::uint64_t resident = smaps_bytes(file.bytes().data(), "Rss");
            CHECK(grant.granted == (resident >= file.size_bytes()));
            if (::madvise(nullptr, 0, populate_read) == 0) {
                CHECK(grant.granted);
            }
            // In copy_on_write too the pages are the page cache's.
            CHECK(smaps_bytes(file.bytes().data(), "Anonymous") == 0);
            CHECK_FALSE(file.grants().lock.requested);
        }
    }
}

TEST_CASE("map options: populate on a system without MADV_POPULATE_READ") {
    for (const fs::path& place : places()) {
        for (const FileAccess access : every_access) {
            CAPTURE(place);
            const ScratchFolder folder(place);
            const fs::path path = sparse_file(folder, megabyte);
            const std::string result = in_child([&]() -> std::string {
                if (!refuse_call(SYS_madvise, 2, populate_read, EINVAL)) {
                    return "no seccomp";
                }
                const MappedFile file = MappedFile::open(path, {.access = access, .populate = true});
                const std::uint64_t resident = smaps_bytes(file.bytes().data(), "Rss");
                const Grant& grant = file.grants().populate;
                if (grant.granted != (resident == megabyte) || smaps_bytes(file.bytes().data(), "Anonymous") != 0) {
                    return "granted " + std::to_string(grant.granted) + ", resident " + std::to_string(resident);
                }
                return grant.granted ? "granted" : grant.reason;
            });
            if (result == "no seccomp") {
                MESSAGE("seccomp is refused: populating by MAP_POPULATE is not tested");
            } else if (access == FileAccess::copy_on_write) {
                CHECK(result ==
                      "madvise(MADV_POPULATE_READ) of 1048576 bytes: Invalid argument; MAP_POPULATE would copy every page");
            } else {
                CHECK(result == "granted");
            }
        }
    }
}

TEST_CASE("map options: a file that ends before its pages are read") {
    const ScratchFolder folder;
    const fs::path path = folder.write("a.bin", std::string(4 * page, 'x'));
    const MappedFile file = MappedFile::open(path);
    fs::resize_file(path, page);
    // The advice itself needs no pages.
    CHECK(file.advise(Advice::random, 0, file.size_bytes()).granted);
    CHECK(file.drop(0, file.size_bytes()).granted);
}

TEST_CASE("map options: advice") {
    const std::vector<std::pair<Advice, int>> advices = {
        {Advice::sequential, MADV_SEQUENTIAL}, {Advice::random, MADV_RANDOM}, {Advice::will_need, MADV_WILLNEED}};
    for (const fs::path& place : places()) {
        for (const auto& [advice, native] : advices) {
            CAPTURE(place);
            CAPTURE(native);
            const ScratchFolder folder(place);
            const fs::path path = sparse_file(folder, 3 * page + 1);
            const MappedFile file = MappedFile::open(path, {.advice = advice});
            check_reason(file.grants().advice);
            CHECK(file.grants().advice.granted ==
                  system_does(path, [number = native](void* data, std::size_t size) { return ::madvise(data, size, number); }));
            const bool granted = file.grants().advice.granted;
            CHECK(has_flag(file.bytes().data(), "sr") == (granted && advice == Advice::sequential));
            CHECK(has_flag(file.bytes().data(), "rr") == (granted && advice == Advice::random));
            CHECK(file.advise(Advice::normal, 0, file.size_bytes()).granted == granted);
            CHECK_FALSE(has_flag(file.bytes().data(), "sr"));
            CHECK_FALSE(has_flag(file.bytes().data(), "rr"));
        }
    }
}

TEST_CASE("map options: advice on a range is rounded outward and clamped") {
    constexpr auto far = std::numeric_limits<std::uint64_t>::max();
    const ScratchFolder folder;
    const fs::path path = sparse_file(folder, 8 * page + 1);
    if (!system_does(path, [](void* data, std::size_t size) { return ::madvise(data, size, MADV_RANDOM); })) {
        MESSAGE("this system has no MADV_RANDOM: advice on ranges is not tested");
        return;
    }
    const MappedFile file = MappedFile::open(path);
    const auto random_pages = [&] {
        std::string pages;
        for (std::size_t at = 0; at < file.size_bytes(); at += page) {
            pages += has_flag(file.bytes().data() + at, "rr") ? 'r' : '-';
        }
        return pages;
    };
    check_reason(file.advise(Advice::random, page + 5, 1));
    CHECK(random_pages() == "-r-------");
    check_reason(file.advise(Advice::random, 3 * page - 1, 2));
    CHECK(random_pages() == "-rrr-----");
    check_reason(file.advise(Advice::random, 8 * page, far));
    CHECK(random_pages() == "-rrr----r");
    check_reason(file.advise(Advice::normal, 0, 2 * page));
    CHECK(random_pages() == "--rr----r");
    check_reason(file.advise(Advice::random, 0, far));
    CHECK(random_pages() == "rrrrrrrrr");
    check_refused(file.advise(Advice::random, 8 * page + 1, 1), "no byte of the file lies in the range");
    check_refused(file.advise(Advice::random, far, far), "no byte of the file lies in the range");
    check_refused(file.advise(Advice::random, 5, 0), "no byte of the file lies in the range");
}

TEST_CASE("map options: drop gives whole pages back, and loses nothing") {
    constexpr auto far = std::numeric_limits<std::uint64_t>::max();
    for (const fs::path& place : places()) {
        for (const FileAccess access : {FileAccess::read, FileAccess::read_write}) {
            CAPTURE(place);
            const ScratchFolder folder(place);
            const fs::path path = folder.write("a.bin", std::string(8 * page + 10, 'x'));
            const MappedFile file = MappedFile::open(path, access);
            if (access == FileAccess::read_write) {
                file.writable_bytes()[page] = std::byte{'y'};
            }
            touch_every_page(file);
            const auto resident_pages = [&] { return smaps_bytes(file.bytes().data(), "Rss") / page; };
            CHECK(resident_pages() == 9);
            CHECK(file.drop(1, 3 * page - 1).granted);
            CHECK(resident_pages() == 7);
            CHECK(as_text(file.bytes().subspan(page, 1)) == (access == FileAccess::read_write ? "y" : "x"));
            CHECK(as_text(file.bytes().subspan(2 * page, 1)) == "x");

            const std::string page_text = std::to_string(page);
            check_refused(file.drop(1, 2 * page - 2), "no whole page of " + page_text + " bytes lies in the range");
            check_refused(file.drop(8 * page, 9), "no whole page of " + page_text + " bytes lies in the range");
            check_refused(file.drop(far, far), "no whole page of " + page_text + " bytes lies in the range");
            touch_every_page(file);
            // The last page is whole as far as the file goes.
            CHECK(file.drop(8 * page, 10).granted);
            CHECK(resident_pages() == 8);
            check_reason(file.drop(0, far));
            CHECK(resident_pages() == 0);
            CHECK(read_text(path)[page] == (access == FileAccess::read_write ? 'y' : 'x'));
            CHECK(as_text(file.bytes().last(10)) == "xxxxxxxxxx");
        }
    }
}

TEST_CASE("map options: drop where it would lose bytes") {
    const ScratchFolder folder;
    const fs::path path = folder.write("a.bin", std::string(2 * page, 'x'));
    const MappedFile own = MappedFile::open(path, FileAccess::copy_on_write);
    own.writable_bytes()[0] = std::byte{'y'};
    expect_error(ErrorCode::invalid_argument, {"a.bin: drop", "copied on write"}, [&] { return own.drop(0, page); });
    CHECK(as_text(own.bytes().first(2)) == "yx");
    const MappedFile memory = MappedFile::open("/proc/self/status");
    check_refused(memory.drop(0, memory.size_bytes()), "not a mapping: the file was read into memory");
    CHECK(as_text(memory.bytes().first(5)) == "Name:");
}

TEST_CASE("map options: a file of no bytes") {
    for (const fs::path& place : places()) {
        const ScratchFolder folder(place);
        const MappedFile file = MappedFile::open(folder.write("empty", ""), everything);
        for (const Grant* grant : all_of(file.grants())) {
            check_refused(*grant, "the file has no bytes");
        }
        check_refused(file.advise(Advice::random, 0, 1), "the file has no bytes");
        check_refused(file.drop(0, 1), "the file has no bytes");
    }
    check_refused(MappedFile().advise(Advice::random, 0, 1), "the file has no bytes");
    check_refused(MappedFile().drop(0, 1), "the file has no bytes");
}

TEST_CASE("map options: a pipe is not a mapping") {
    const ScratchFolder folder;
    const fs::path path = folder / "pipe";
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    for (const std::string& content : {std::string(), std::string(2 * page, 'x')}) {
        std::thread writer([&] { std::ofstream(path, std::ios::binary) << content; });
        const MappedFile file = MappedFile::open(path, everything);
        writer.join();
        REQUIRE(file.in_memory());
        for (const Grant* grant : all_of(file.grants())) {
            check_refused(*grant, "not a mapping: the file was read into memory");
        }
        check_refused(file.advise(Advice::random, 0, page), "not a mapping: the file was read into memory");
        check_refused(file.drop(0, page), "not a mapping: the file was read into memory");
        CHECK((as_text(file.bytes()) == content));
    }
}

TEST_CASE("map options: all at once, through copies and moves of the handle") {
    const ScratchFolder folder;
    const fs::path path = folder.write("a.bin", std::string(64 * page, 'x'));
    const std::size_t descriptors = open_descriptors();
    {
        MappedFile first = MappedFile::open(path, everything);
        for (const Grant* grant : all_of(first.grants())) {
            check_reason(*grant);
        }
        const std::byte* data = first.bytes().data();
        const MappedFile copy = first;
        CHECK(&copy.grants() == &first.grants());
        const MappedFile moved = std::move(first);
        CHECK(&copy.grants() == &moved.grants());
        CHECK(moved.bytes().data() == data);
        CHECK(mappings_of(path) == 1);
        CHECK(as_text(moved.bytes().last(3)) == "xxx");
        CHECK_FALSE(MappedFile(MappedFile::open(path)).grants().populate.requested);
    }
    CHECK(mappings_of(path) == 0);
    CHECK(open_descriptors() == descriptors);
}

TEST_CASE("map options: what can't be opened is the error that it is without them") {
    const ScratchFolder folder;
    CHECK(expect_error(ErrorCode::io, {"none.bin: open: No such file"},
                       [&] { return MappedFile::open(folder / "none.bin", everything); }) == ENOENT);
    CHECK(expect_error(ErrorCode::io, {"is a directory"}, [&] { return MappedFile::open(folder.path(), everything); }) == EISDIR);
}
