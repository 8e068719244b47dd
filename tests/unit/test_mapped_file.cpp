#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <tandem/error.hpp>
#include <tandem/mapped_file.hpp>

#include "expect_error.hpp"
#include "scratch_folder.hpp"

using tandem::Advice;
using tandem::ErrorCode;
using tandem::FileAccess;
using tandem::MappedFile;
using tandem::test::as_text;
using tandem::test::expect_error;
using tandem::test::mappings_of;
using tandem::test::open_descriptors;
using tandem::test::read_text;
using tandem::test::ScratchFolder;
namespace fs = std::filesystem;

namespace {

const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

// Writes `content` into `path`, a pipe, in pieces with pauses, from another thread.
std::thread feed(const fs::path& path, std::string content, std::size_t piece) {
    return std::thread([path, content = std::move(content), piece] {
        const int pipe = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
        for (std::size_t at = 0; at < content.size();) {
            const ssize_t count = ::write(pipe, content.data() + at, std::min(piece, content.size() - at));
            if (count < 0) {
                break;
            }
            at += static_cast<std::size_t>(count);
            if (at < 3 * piece) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        }
        ::close(pipe);
    });
}

std::string read_through(const MappedFile& file, std::uint64_t offset, std::size_t size) {
    std::string text(size, '\0');
    file.read(offset, std::as_writable_bytes(std::span(text)));
    return text;
}

}  // namespace

TEST_CASE("mapped file: the bytes of a file") {
    const ScratchFolder folder;
    const fs::path path = folder.write("a.bin", "hello mapped world");
    const MappedFile file = MappedFile::open(path);
    CHECK(file.path() == path);
    CHECK(file.access() == FileAccess::read);
    CHECK(as_text(file.bytes()) == "hello mapped world");
    CHECK(file.size_bytes() == 18);
    CHECK_FALSE(file.in_memory());
    CHECK(reinterpret_cast<std::uintptr_t>(file.bytes().data()) % page == 0);
    CHECK(read_through(file, 6, 6) == "mapped");
}

TEST_CASE("mapped file: an empty handle") {
    const MappedFile none;
    CHECK(none.path().empty());
    CHECK(none.bytes().empty());
    CHECK(none.size_bytes() == 0);
    CHECK_FALSE(none.in_memory());
    CHECK(none.cached_bytes(0, 100) == 0);
    none.read(0, {});
    expect_error(ErrorCode::bad_file, {"1 bytes needed, 0 found"}, [&] {
        read_through(none, 0, 1);
        return 0;
    });
    expect_error(ErrorCode::invalid_argument, {"reading only"}, [&] { return none.writable_bytes(); });
}

TEST_CASE("mapped file: a file of no bytes") {
    const ScratchFolder folder;
    for (const FileAccess access : {FileAccess::read, FileAccess::copy_on_write, FileAccess::read_write}) {
        const MappedFile file = MappedFile::open(folder.write("empty", ""), access);
        CHECK(file.bytes().empty());
        CHECK_FALSE(file.in_memory());
        CHECK(file.cached_bytes(0, 10) == 0);
        file.read(0, {});
    }
}

TEST_CASE("mapped file: handles share one mapping, which ends with the last") {
    const ScratchFolder folder;
    const fs::path path = folder.write("a.bin", std::string(10000, 'x'));
    const std::size_t before = open_descriptors();
    {
        MappedFile first = MappedFile::open(path);
        const MappedFile second = first;
        CHECK(first.bytes().data() == second.bytes().data());
        first = MappedFile();
        CHECK(mappings_of(path) == 1);
        CHECK(as_text(second.bytes().first(3)) == "xxx");
    }
    CHECK(mappings_of(path) == 0);
    CHECK(open_descriptors() == before);
}

TEST_CASE("mapped file: writing") {
    const ScratchFolder folder;
    const fs::path path = folder.write("a.bin", "original");
    expect_error(ErrorCode::invalid_argument, {"a.bin", "reading only"}, [&] { return MappedFile::open(path).writable_bytes(); });

    const MappedFile own = MappedFile::open(path, FileAccess::copy_on_write);
    std::memcpy(own.writable_bytes().data(), "changed!", 8);
    CHECK(as_text(own.bytes()) == "changed!");
    CHECK(read_text(path) == "original");
    CHECK(read_through(own, 0, 8) == "original");

    const MappedFile shared = MappedFile::open(path, FileAccess::read_write);
    std::memcpy(shared.writable_bytes().data(), "rewritten", 8);
    CHECK(read_text(path) == "rewritte");
}

TEST_CASE("mapped file: a file without write permission can be copied on write") {
    const ScratchFolder folder;
    const fs::path path = folder.write("a.bin", "original");
    REQUIRE(::chmod(path.c_str(), 0444) == 0);
    const MappedFile own = MappedFile::open(path, FileAccess::copy_on_write);
    own.writable_bytes()[0] = std::byte{'O'};
    CHECK(as_text(own.bytes()) == "Original");
    // As someone else, since root may write to every file; a child, so that this process stays what it is.
    REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        if (::geteuid() == 0 && ::setuid(65534) != 0) {
            ::_exit(10);
        }
        try {
            static_cast<void>(MappedFile::open(path, FileAccess::read_write));
        } catch (const tandem::Error& error) {
            ::_exit(error.code() == ErrorCode::io && error.native_code() == EACCES ? 0 : 11);
        }
        ::_exit(12);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("mapped file: what can't be opened, and leaves nothing open") {
    const ScratchFolder folder;
    const std::size_t before = open_descriptors();
    for (const FileAccess access : {FileAccess::read, FileAccess::copy_on_write, FileAccess::read_write}) {
        CHECK(expect_error(ErrorCode::io, {"none.bin: open: No such file"},
                           [&] { return MappedFile::open(folder / "none.bin", access); }) == ENOENT);
        CHECK(expect_error(ErrorCode::io, {folder.path().native(), "is a directory"},
                           [&] { return MappedFile::open(folder.path(), access); }) == EISDIR);
    }
    const fs::path file = folder.write("file", "x");
    CHECK(expect_error(ErrorCode::io, {"Not a directory"}, [&] { return MappedFile::open(file / "in"); }) == ENOTDIR);
    fs::create_symlink("loop", folder / "loop");
    CHECK(expect_error(ErrorCode::io, {"loop"}, [&] { return MappedFile::open(folder / "loop"); }) == ELOOP);
    expect_error(ErrorCode::io, {"without an end"}, [] { return MappedFile::open("/dev/zero"); });
    expect_error(ErrorCode::io, {"without an end"}, [] { return MappedFile::open("/dev/urandom"); });
    CHECK(open_descriptors() == before);
}

TEST_CASE("mapped file: a file larger than the address space") {
    // In memory, where no filesystem's own bound comes first.
    const int huge = ::memfd_create("huge", MFD_CLOEXEC);
    REQUIRE(huge >= 0);
    REQUIRE(::ftruncate(huge, std::numeric_limits<off_t>::max() / 2) == 0);
    const std::string path = "/proc/self/fd/" + std::to_string(huge);
    const std::size_t before = open_descriptors();
    CHECK(expect_error(ErrorCode::io, {path + ": mmap of 4611686018427387903 bytes: "}, [&] { return MappedFile::open(path); }) ==
          ENOMEM);
    CHECK(open_descriptors() == before);
    ::close(huge);
}

TEST_CASE("mapped file: a file that may stay unmapped is read all the same") {
    const int huge = ::memfd_create("huge", MFD_CLOEXEC);
    REQUIRE(huge >= 0);
    constexpr std::uint64_t size = std::numeric_limits<off_t>::max() / 2;
    REQUIRE(::ftruncate(huge, static_cast<off_t>(size)) == 0);
    REQUIRE(::pwrite(huge, "abc", 3, 5) == 3);
    const std::string path = "/proc/self/fd/" + std::to_string(huge);
    const MappedFile file = MappedFile::open(path, {.lock = true, .may_stay_unmapped = true});
    CHECK_FALSE(file.is_mapped());
    CHECK_FALSE(file.in_memory());
    CHECK(file.bytes().empty());
    CHECK(file.size_bytes() == size);
    CHECK_FALSE(file.grants().lock.granted);
    CHECK(file.grants().lock.reason.find("the address space has no room") != std::string::npos);
    CHECK_FALSE(file.advise(Advice::random, 0, 4096).granted);
    CHECK_FALSE(file.drop(0, 4096).granted);
    CHECK(file.cached_bytes(0, 4096) == 4096);
    std::array<std::byte, 3> found{};
    file.read(5, found);
    CHECK(std::memcmp(found.data(), "abc", 3) == 0);
    expect_error(ErrorCode::bad_file, {"3 bytes needed, 1 found"}, [&] {
        file.read(size - 1, found);
        return 0;
    });
    const MappedFile writable = MappedFile::open(path, {.access = FileAccess::read_write, .may_stay_unmapped = true});
    CHECK(writable.writable_bytes().empty());
    expect_error(ErrorCode::io, {"mmap of"},
                 [&] { return MappedFile::open(path, {.access = FileAccess::copy_on_write, .may_stay_unmapped = true}); });
    CHECK(MappedFile::open("/proc/self/exe", {.may_stay_unmapped = true}).is_mapped());
    ::close(huge);
}

TEST_CASE("mapped file: 100 GB open as quickly as a page, and untouched") {
    const ScratchFolder folder;
    const fs::path path = folder.write("sparse", "");
    fs::resize_file(path, std::uintmax_t{100} << 30U);
    for (const FileAccess access : {FileAccess::read, FileAccess::copy_on_write, FileAccess::read_write}) {
        const auto start = std::chrono::steady_clock::now();
        const MappedFile file = MappedFile::open(path, access);
        const auto elapsed = std::chrono::steady_clock::now() - start;
        CHECK(file.size_bytes() == std::uint64_t{100} << 30U);
        CHECK(elapsed < std::chrono::milliseconds(20));
        CHECK(file.cached_bytes(0, std::uint64_t{1} << 30U) == 0);
    }
}

TEST_CASE("mapped file: what is in the page cache") {
    const ScratchFolder folder;
    const fs::path path = folder.write("a.bin", std::string(10 * page + 100, 'x'));
    const MappedFile file = MappedFile::open(path);
    const std::uint64_t size = file.size_bytes();
    // Just written, so all of it is there.
    CHECK(file.cached_bytes(0, size) == size);
    CHECK(file.cached_bytes(0, std::numeric_limits<std::uint64_t>::max()) == size);
    CHECK(file.cached_bytes(5, 10) == 10);
    CHECK(file.cached_bytes(page - 5, 10) == 10);
    CHECK(file.cached_bytes(size - 7, 100) == 7);
    CHECK(file.cached_bytes(size, 1) == 0);
    CHECK(file.cached_bytes(std::numeric_limits<std::uint64_t>::max(), 1) == 0);
    CHECK(file.cached_bytes(3, 0) == 0);
}

TEST_CASE("mapped file: cached bytes beside a hole, over many windows of pages") {
    const ScratchFolder folder;
    const fs::path path = folder.write("a.bin", std::string(page, 'x'));
    const std::uint64_t size = std::uint64_t{3} << 26U;
    fs::resize_file(path, size);
    const MappedFile file = MappedFile::open(path);
    CHECK(file.cached_bytes(0, size) == page);
    // A page read through the mapping comes into the cache; the kernel may read some around it.
    volatile std::byte touched = file.bytes()[size - 1];
    static_cast<void>(touched);
    const std::uint64_t cached = file.cached_bytes(0, size);
    CHECK(cached >= 2 * page);
    CHECK(cached < size);
    CHECK(file.cached_bytes(size - 1, 1) == 1);
    CHECK(file.cached_bytes(0, page) == page);
}

TEST_CASE("mapped file: reading copies, and reports a file that has become shorter") {
    const ScratchFolder folder;
    const fs::path path = folder.write("a.bin", std::string(5000, 'a') + std::string(5000, 'b'));
    const MappedFile file = MappedFile::open(path);
    CHECK(read_through(file, 4999, 2) == "ab");
    CHECK(read_through(file, 10000, 0).empty());
    fs::resize_file(path, 6000);
    CHECK(read_through(file, 5000, 1000) == std::string(1000, 'b'));
    expect_error(ErrorCode::bad_file, {path.native() + ": offset 5000: 5000 bytes needed, 1000 found"}, [&] {
        read_through(file, 5000, 5000);
        return 0;
    });
    expect_error(ErrorCode::bad_file, {"offset 9000: 10 bytes needed, 0 found"}, [&] {
        read_through(file, 9000, 10);
        return 0;
    });
    for (const std::uint64_t offset :
         {std::numeric_limits<std::uint64_t>::max(), std::uint64_t{1} << 63U, (std::uint64_t{1} << 63U) - 1}) {
        expect_error(ErrorCode::bad_file, {"10 bytes needed, 0 found"}, [&] {
            read_through(file, offset, 10);
            return 0;
        });
    }
}

TEST_CASE("mapped file: pages behind the end of a file that has become shorter") {
    const ScratchFolder folder;
    for (const FileAccess access : {FileAccess::read, FileAccess::copy_on_write, FileAccess::read_write}) {
        CAPTURE(static_cast<int>(access));
        const fs::path path = folder.write("a.bin", std::string(4 * page, 'x'));
        const MappedFile file = MappedFile::open(path, access);
        if (access != FileAccess::read) {
            file.writable_bytes()[2 * page] = std::byte{'y'};
        }
        fs::resize_file(path, page + 100);
        CHECK(file.size_bytes() == 4 * page);
        CHECK(as_text(file.bytes().subspan(page + 99, 3)) == std::string("x\0\0", 3));
        // Also where this process had written a page of its own.
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            ::signal(SIGBUS, SIG_DFL);
            volatile std::byte touched = file.bytes()[2 * page];
            static_cast<void>(touched);
            ::_exit(0);
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        REQUIRE(WIFSIGNALED(status));
        CHECK(WTERMSIG(status) == SIGBUS);
        expect_error(ErrorCode::bad_file, {"1 bytes needed, 0 found"}, [&] { return read_through(file, 2 * page, 1); });
        fs::resize_file(path, 4 * page);
        CHECK(as_text(file.bytes().subspan(2 * page, 1)) == std::string(1, '\0'));
    }
}

TEST_CASE("mapped file: /proc says 0 bytes, and has content") {
    const MappedFile file = MappedFile::open("/proc/self/status");
    CHECK(file.in_memory());
    CHECK(as_text(file.bytes()).find("Name:") == 0);
    CHECK(file.cached_bytes(0, file.size_bytes()) == file.size_bytes());
    CHECK(read_through(file, 0, 5) == "Name:");
    expect_error(ErrorCode::bad_file, {"/proc/self/status: offset ", "5 bytes needed, 2 found"}, [&] {
        read_through(file, file.size_bytes() - 2, 5);
        return 0;
    });
}

TEST_CASE("mapped file: /sys says a page, can't be mapped, and has less") {
    const fs::path path = "/sys/kernel/mm/transparent_hugepage/enabled";
    if (!fs::exists(path)) {
        MESSAGE("no " << path << ": a file that mmap refuses is not tested");
        return;
    }
    const MappedFile file = MappedFile::open(path);
    CHECK(file.in_memory());
    CHECK(file.size_bytes() < page);
    CHECK(as_text(file.bytes()) == read_text(path));
}

TEST_CASE("mapped file: what is in memory can be copied on write") {
    const MappedFile file = MappedFile::open("/proc/self/status", FileAccess::copy_on_write);
    file.writable_bytes()[0] = std::byte{'n'};
    CHECK(as_text(file.bytes().first(4)) == "name");
    // A change that can't reach the file is no read_write.
    const ScratchFolder folder;
    REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
    expect_error(ErrorCode::io, {"pipe: mmap to write"},
                 [&] { return MappedFile::open(folder / "pipe", FileAccess::read_write); });
}

TEST_CASE("mapped file: pipes of any length, in pieces of any size") {
    const ScratchFolder folder;
    const fs::path path = folder / "pipe";
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, std::size_t{5000}, std::size_t{1} << 20U, (std::size_t{5} << 20U) + 3}) {
        CAPTURE(size);
        std::string content(size, '\0');
        for (std::size_t i = 0; i < size; ++i) {
            content[i] = static_cast<char>(i * 7 % 251);
        }
        std::thread writer = feed(path, content, 7001);
        const MappedFile file = MappedFile::open(path);
        writer.join();
        CHECK(file.in_memory());
        CHECK(file.size_bytes() == size);
        CHECK((as_text(file.bytes()) == content));
        if (size > 0) {
            CHECK(reinterpret_cast<std::uintptr_t>(file.bytes().data()) % page == 0);
        }
    }
}

TEST_CASE("mapped file: /dev/stdin") {
    const ScratchFolder folder;
    const int saved = ::dup(0);
    // A pipe.
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    REQUIRE(::write(ends[1], "through a pipe", 14) == 14);
    ::close(ends[1]);
    ::dup2(ends[0], 0);
    ::close(ends[0]);
    const MappedFile pipe = MappedFile::open("/dev/stdin");
    // A file, which is mapped as by its name.
    const fs::path path = folder.write("a.bin", "through a file");
    const int input = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ::dup2(input, 0);
    ::close(input);
    const MappedFile file = MappedFile::open("/dev/stdin");
    if (saved >= 0) {
        ::dup2(saved, 0);
        ::close(saved);
    } else {
        ::close(0);
    }
    CHECK(pipe.in_memory());
    CHECK(as_text(pipe.bytes()) == "through a pipe");
    CHECK_FALSE(file.in_memory());
    CHECK(as_text(file.bytes()) == "through a file");
}

TEST_CASE("mapped file: /dev/null is empty") {
    const MappedFile file = MappedFile::open("/dev/null");
    CHECK(file.bytes().empty());
    CHECK(file.in_memory());
}

TEST_CASE("mapped file: names on one line in messages") {
    const ScratchFolder folder;
    expect_error(ErrorCode::io, {"line\\nbreak \\x1b[31m caf\xc3\xa9: open: No such file"},
                 [&] { return MappedFile::open(folder / "line\nbreak \x1b[31m caf\xc3\xa9"); });
}

TEST_CASE("mapped file: descriptors are not inherited") {
    const ScratchFolder folder;
    const fs::path path = folder.write("a.bin", "x");
    const MappedFile file = MappedFile::open(path);
    bool found = false;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
        std::error_code error;
        if (fs::read_symlink(entry.path(), error) == fs::canonical(path)) {
            found = true;
            CHECK((::fcntl(std::stoi(entry.path().filename().native()), F_GETFD) & FD_CLOEXEC) != 0);
        }
    }
    CHECK(found);
}
