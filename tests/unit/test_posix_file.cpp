#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <tandem/error.hpp>

#include "core/posix_file.hpp"
#include "expect_error.hpp"
#include "scratch_folder.hpp"

using tandem::ErrorCode;
using tandem::FileDescriptor;
using tandem::named_descriptor;
using tandem::open_file;
using tandem::read_fully;
using tandem::test::as_bytes;
using tandem::test::as_text;
using tandem::test::expect_error;
using tandem::test::open_descriptors;
using tandem::test::ScratchFolder;

namespace {

std::string path_of(const FileDescriptor& file) {
    return "/dev/fd/" + std::to_string(file.number());
}

std::string read_text(const FileDescriptor& file, std::size_t size_bytes) {
    std::vector<std::byte> bytes(size_bytes);
    bytes.resize(read_fully(file.number(), bytes, "file"));
    return as_text(bytes);
}

}  // namespace

TEST_CASE("posix file: paths that name a descriptor") {
    CHECK(named_descriptor("/dev/stdin") == 0);
    CHECK(named_descriptor("/dev/fd/0") == 0);
    CHECK(named_descriptor("/dev/fd/63") == 63);
    CHECK(named_descriptor("/proc/self/fd/7") == 7);
    for (const char* path : {"", "-", "stdin", "/dev/stdin/", "/dev/fd/", "/dev/fd", "/dev/fd/x", "/dev/fd/1x", "/dev/fd/-1",
                             "/dev/fd/+1", "/dev/fd/1/2", "/dev/fd/99999999999", "dev/fd/1", "/dev/null", "/proc/self/fd/"}) {
        CAPTURE(path);
        CHECK(!named_descriptor(path));
    }
}

TEST_CASE("posix file: a named descriptor is used as it is") {
    const ScratchFolder folder;
    const std::size_t before = open_descriptors();
    {
        // Its position too, and though its name leads nowhere any more.
        const FileDescriptor file = open_file(folder.write("a", "0123456789"), O_RDONLY);
        std::filesystem::remove(folder / "a");
        CHECK(read_text(file, 4) == "0123");
        CHECK(read_text(open_file(path_of(file), O_RDONLY), 3) == "456");
        CHECK(read_text(file, 100) == "789");
    }
    {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
        const FileDescriptor ours(ends[0]);
        FileDescriptor theirs(ends[1]);
        REQUIRE(::write(theirs.number(), "over a socket", 13) == 13);
        theirs.reset();
        const FileDescriptor opened = open_file(path_of(ours), O_RDONLY);
        CHECK((::fcntl(opened.number(), F_GETFD) & FD_CLOEXEC) != 0);
        CHECK(read_text(opened, 100) == "over a socket");
    }
    CHECK(open_descriptors() == before);
    CHECK(expect_error(ErrorCode::io, {"/dev/fd/999: open: Bad file descriptor"},
                       [] { return open_file("/dev/fd/999", O_RDONLY); }) == EBADF);
    const FileDescriptor directory(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    CHECK(expect_error(ErrorCode::io, {"is a directory"}, [&] { return open_file(path_of(directory), O_RDONLY); }) == EISDIR);
}

TEST_CASE("posix file: a descriptor that does not block is waited for") {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
    const FileDescriptor source(ends[0]);
    std::thread writer([descriptor = ends[1]] {
        FileDescriptor target(descriptor);
        for (const char* part : {"late, ", "but ", "whole"}) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
            static_cast<void>(::write(target.number(), part, std::char_traits<char>::length(part)) > 0);
        }
    });
    const std::string text = read_text(source, 100);
    writer.join();
    CHECK(text == "late, but whole");
}

TEST_CASE("posix file: what has no end") {
    const auto status_of = [](const char* path) {
        struct stat status {};
        REQUIRE(::stat(path, &status) == 0);
        return status;
    };
    for (const char* path : {"/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"})
        CHECK(tandem::has_no_end(status_of(path)));
    for (const char* path : {"/dev/null", "/dev", "/proc/self/maps"})
        CHECK(!tandem::has_no_end(status_of(path)));
}
