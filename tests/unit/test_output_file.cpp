#include <doctest/doctest.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <tandem/error.hpp>

#include "core/output_file.hpp"
#include "expect_error.hpp"
#include "scratch_folder.hpp"

using tandem::Error;
using tandem::ErrorCode;
using tandem::OutputFile;
using tandem::test::as_bytes;
using tandem::test::expect_error;
using tandem::test::open_descriptors;
using tandem::test::read_text;
using tandem::test::ScratchFolder;
namespace fs = std::filesystem;
using Names = std::set<std::string>;

namespace {

mode_t mode_of(const fs::path& path) {
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    return status.st_mode & 07777;
}

// Errors of the constructor.
int refuse(const fs::path& path, std::initializer_list<std::string_view> parts) {
    return expect_error(ErrorCode::io, parts, [&] {
        OutputFile out(path);
        return 0;
    });
}

// Puts a filesystem of 256 KiB on `path`, for this process alone; false where that is not permitted.
bool mount_small(const fs::path& path) {
    const std::string user = fmt::format("{0} {0} 1", ::geteuid());
    const std::string group = fmt::format("{0} {0} 1", ::getegid());
    if (::unshare(CLONE_NEWNS) != 0) {
        if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
            return false;
        }
        // Files can be made in a user namespace only by users that it knows.
        std::ofstream("/proc/self/setgroups") << "deny";
        std::ofstream("/proc/self/uid_map") << user;
        std::ofstream("/proc/self/gid_map") << group;
    }
    return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=256k") == 0;
}

// What is wrong with writing to the small filesystem at `folder` until it is full; 0 for nothing.
int fill_disk(const ScratchFolder& folder) {
    int code = 0;
    for (const bool unnamed : {true, false}) {
        folder.write("old.npy", "old");
        auto out = std::make_unique<OutputFile>(folder / "old.npy", OutputFile::Options{.unnamed = unnamed});
        try {
            for (int i = 0; i < 100; ++i) {
                out->write(as_bytes(std::string(10000, 'x')));
            }
            code = 11;
        } catch (const Error& error) {
            const std::string message = error.what();
            const bool right = error.code() == ErrorCode::io && error.native_code() == ENOSPC &&
                               message.find("old.npy: write at offset ") != std::string::npos &&
                               message.find("No space left on device") != std::string::npos;
            code = right ? code : 12;
        }
        // The space is free again at once, and nothing is left.
        code = fs::space(folder.path()).available > 200 * 1024 ? code : 13;
        code = folder.names() == Names{"old.npy"} && read_text(folder / "old.npy") == "old" ? code : 14;
    }
    return code;
}

// The working directory for a while.
class WorkingDirectory {
public:
    explicit WorkingDirectory(const fs::path& path) : saved_(fs::current_path()) { fs::current_path(path); }
    ~WorkingDirectory() {
        std::error_code ignored;
        fs::current_path(saved_, ignored);
    }
    WorkingDirectory(const WorkingDirectory&) = delete;
    WorkingDirectory& operator=(const WorkingDirectory&) = delete;

private:
    fs::path saved_;
};

}  // namespace

TEST_CASE("output file: visible when it is complete, and not before") {
    const ScratchFolder folder;
    for (const bool unnamed : {true, false}) {
        CAPTURE(unnamed);
        const fs::path path = folder / (unnamed ? "a.npy" : "b.npy");
        const std::size_t before = open_descriptors();
        {
            OutputFile out(path, {.unnamed = unnamed});
            out.write(as_bytes("hello "));
            out.write({});
            out.write(as_bytes("world"));
            CHECK(out.size_bytes() == 11);
            CHECK_FALSE(fs::exists(path));
            out.commit();
            CHECK(read_text(path) == "hello world");
        }
        CHECK(read_text(path) == "hello world");
        CHECK(open_descriptors() == before);
    }
    CHECK(folder.names() == Names{"a.npy", "b.npy"});
}

TEST_CASE("output file: without commit nothing is left, and an earlier file stays") {
    const ScratchFolder folder;
    folder.write("old.npy", "old");
    for (const bool unnamed : {true, false}) {
        for (const char* name : {"new.npy", "old.npy"}) {
            OutputFile out(folder / name, {.unnamed = unnamed});
            out.write(as_bytes("something"));
        }
        CHECK(folder.names() == Names{"old.npy"});
    }
    CHECK(read_text(folder / "old.npy") == "old");
}

TEST_CASE("output file: space that was taken and is not written is given back") {
    const ScratchFolder folder;
    OutputFile out(folder / "a");
    out.take_space(100'000);
    out.write(as_bytes("text"));
    out.commit();
    CHECK(read_text(folder / "a") == "text");
    expect_error(ErrorCode::io, {"fallocate"}, [&] {
        OutputFile(folder / "b").take_space(std::uint64_t{1} << 62U);
        return 0;
    });
    CHECK(folder.names() == Names{"a"});
    OutputFile("/dev/null").take_space(100'000);
}

TEST_CASE("output file: a file of no bytes") {
    const ScratchFolder folder;
    OutputFile out(folder / "empty");
    out.commit();
    CHECK(fs::file_size(folder / "empty") == 0);
}

TEST_CASE("output file: replaces a file, whose readers keep what they have") {
    const ScratchFolder folder;
    const fs::path path = folder.write("a.npy", "old content");
    std::ifstream reader(path);
    for (const bool unnamed : {true, false}) {
        OutputFile out(path, {.unnamed = unnamed});
        out.write(as_bytes("new"));
        CHECK((unnamed ? read_text(path) == "old content" : read_text(path) == "new"));
        out.commit();
        CHECK(read_text(path) == "new");
    }
    CHECK(std::string(std::istreambuf_iterator<char>(reader), {}) == "old content");
    CHECK(folder.names() == Names{"a.npy"});
}

TEST_CASE("output file: permissions") {
    const ScratchFolder folder;
    const mode_t umask = ::umask(027);
    for (const bool unnamed : {true, false}) {
        OutputFile out(folder / "new", {.unnamed = unnamed});
        out.commit();
        CHECK(mode_of(folder / "new") == 0640);
        fs::remove(folder / "new");
        for (const mode_t mode : {0600U, 0666U, 0755U}) {
            const fs::path path = folder.write("old", "x");
            REQUIRE(::chmod(path.c_str(), mode) == 0);
            OutputFile again(path, {.unnamed = unnamed});
            again.commit();
            CHECK(mode_of(path) == mode);
        }
    }
    ::umask(umask);
}

TEST_CASE("output file: owner and group of the file that was there are kept") {
    const ScratchFolder folder;
    if (::geteuid() != 0) {
        MESSAGE("only root may give files away: not tested");
        return;
    }
    const fs::path path = folder.write("a", "x");
    const auto check = [&path](uid_t owner, gid_t group, mode_t mode) {
        struct stat status {};
        REQUIRE(::stat(path.c_str(), &status) == 0);
        CHECK(status.st_uid == owner);
        CHECK(status.st_gid == group);
        CHECK((status.st_mode & 07777) == mode);
    };
    const auto replace = [&path](bool unnamed) {
        OutputFile out(path, {.unnamed = unnamed});
        out.write(as_bytes("new"));
        out.commit();
    };
    for (const bool unnamed : {true, false}) {
        REQUIRE(::chown(path.c_str(), 12345, 23456) == 0);
        REQUIRE(::chmod(path.c_str(), 06750) == 0);
        replace(unnamed);
        // New content has no right to what the old was trusted with.
        check(12345, 23456, 0750);
        // Someone who may write to the file but not give files away: the group that takes the place of the file's own
        // gets what others had.
        REQUIRE(::chown(path.c_str(), 12345, 23456) == 0);
        REQUIRE(::chmod(path.c_str(), 0676) == 0);
        REQUIRE(::chmod(folder.path().c_str(), 0777) == 0);
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            int code = 0;
            try {
                code = ::setgroups(0, nullptr) == 0 && ::setgid(65534) == 0 && ::setuid(65534) == 0 ? 0 : 10;
                if (code == 0) replace(unnamed);
            } catch (const std::exception&) {
                code = 11;
            }
            ::_exit(code);
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        CHECK(WEXITSTATUS(status) == 0);
        check(65534, 65534, 0666);
    }
}

TEST_CASE("output file: relative paths, and a working directory that changes") {
    const ScratchFolder folder;
    fs::create_directory(folder / "in");
    {
        const WorkingDirectory here(folder.path());
        OutputFile plain("a.npy");
        OutputFile dotted("./b.npy");
        OutputFile inside("in/c.npy");
        OutputFile around("in/../d.npy");
        fs::current_path("in");
        plain.commit();
        dotted.commit();
        inside.commit();
        around.commit();
    }
    CHECK(folder.names() == Names{"a.npy", "b.npy", "d.npy", "in"});
    CHECK(fs::exists(folder / "in/c.npy"));
}

TEST_CASE("output file: symbolic links are followed") {
    const ScratchFolder folder;
    fs::create_directory(folder / "data");
    fs::create_directory_symlink("data", folder / "way");
    folder.write("data/real.npy", "old");
    fs::create_symlink("data/real.npy", folder / "link.npy");
    fs::create_symlink("link.npy", folder / "link to link.npy");
    fs::create_symlink("data/missing.npy", folder / "dangling.npy");
    fs::create_symlink(folder / "data/absolute.npy", folder / "absolute.npy");
    const auto write = [&](std::string_view name) {
        OutputFile out(folder / name);
        out.write(as_bytes(name));
        out.commit();
    };
    write("link to link.npy");
    write("dangling.npy");
    write("absolute.npy");
    write("way/new.npy");
    CHECK(fs::is_symlink(folder / "link to link.npy"));
    CHECK(fs::is_symlink(folder / "link.npy"));
    CHECK(fs::is_symlink(folder / "dangling.npy"));
    CHECK(read_text(folder / "data/real.npy") == "link to link.npy");
    CHECK(read_text(folder / "data/missing.npy") == "dangling.npy");
    CHECK(read_text(folder / "data/absolute.npy") == "absolute.npy");
    CHECK(read_text(folder / "data/new.npy") == "way/new.npy");
    fs::create_symlink("loop", folder / "loop");
    CHECK(refuse(folder / "loop", {"loop", "open to write"}) == ELOOP);
}

TEST_CASE("output file: refused before any work") {
    const ScratchFolder folder;
    const std::size_t before = open_descriptors();
    fs::create_directory(folder / "folder");
    fs::create_directory_symlink("folder", folder / "link");
    CHECK(refuse(folder / "folder", {"folder: open to write: is a directory"}) == EISDIR);
    CHECK(refuse(folder / "folder/", {"is a directory"}) == EISDIR);
    CHECK(refuse(folder / "link", {"is a directory"}) == EISDIR);
    CHECK(refuse(folder / "folder/.", {"is a directory"}) == EISDIR);
    CHECK(refuse(folder / "folder/..", {"is a directory"}) == EISDIR);
    CHECK(refuse(folder / "new/", {"is a directory"}) == EISDIR);
    CHECK(refuse(folder / "missing/a.npy", {"missing/a.npy", "create a file in ", "No such file"}) == ENOENT);
    CHECK(refuse("", {"No such file"}) == ENOENT);
    folder.write("file", "x");
    CHECK(refuse(folder / "file/a.npy", {"file/a.npy", "Not a directory"}) == ENOTDIR);
    CHECK(refuse(folder / std::string(300, 'n'), {"File name too long"}) == ENAMETOOLONG);
    CHECK(folder.names() == Names{"file", "folder", "link"});
    CHECK(open_descriptors() == before);
}

TEST_CASE("output file: without permission") {
    const ScratchFolder folder;
    const fs::path read_only = folder.write("read only.npy", "x");
    fs::create_directory(folder / "closed");
    REQUIRE(::chmod(read_only.c_str(), 0444) == 0);
    REQUIRE(::chmod((folder / "closed").c_str(), 0555) == 0);
    REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
    // As someone else, since root may do everything; a child, so that this process stays what it is.
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        if (::geteuid() == 0 && ::setuid(65534) != 0) {
            ::_exit(10);
        }
        const auto error_of = [](const fs::path& path) {
            try {
                OutputFile out(path);
            } catch (const Error& error) {
                return error.code() == ErrorCode::io ? error.native_code() : -1;
            }
            return 0;
        };
        const bool right = error_of(read_only) == EACCES && error_of(folder / "closed/new.npy") == EACCES;
        ::_exit(right ? 0 : 11);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    ::chmod((folder / "closed").c_str(), 0755);
    CHECK(read_text(read_only) == "x");
}

TEST_CASE("output file: names as long as the filesystem allows") {
    const ScratchFolder folder;
    const std::string name(NAME_MAX, 'n');
    for (const bool unnamed : {true, false}) {
        OutputFile out(folder / name, {.unnamed = unnamed});
        out.write(as_bytes("x"));
        out.commit();
        CHECK(folder.names() == Names{name});
    }
}

TEST_CASE("output file: many at once, and one name from two writers") {
    const ScratchFolder folder;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&folder, thread] {
            for (int i = 0; i < 20; ++i) {
                OutputFile out(folder / "same", {.unnamed = thread % 2 == 0});
                out.write(as_bytes(std::string(1000, static_cast<char>('a' + thread))));
                out.commit();
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    // One writer's content, whole.
    const std::string content = read_text(folder / "same");
    CHECK(content == std::string(1000, content[0]));
    CHECK(folder.names() == Names{"same"});
}

TEST_CASE("output file: after commit") {
    const ScratchFolder folder;
    OutputFile out(folder / "a");
    out.write(as_bytes("x"));
    out.commit();
    expect_error(ErrorCode::invalid_argument, {"a: write", "committed"}, [&] {
        out.write(as_bytes("y"));
        return 0;
    });
    expect_error(ErrorCode::invalid_argument, {"a: commit", "committed"}, [&] {
        out.commit();
        return 0;
    });
    CHECK(read_text(folder / "a") == "x");
}

TEST_CASE("output file: a target that becomes a directory meanwhile") {
    const ScratchFolder folder;
    OutputFile out(folder / "a");
    out.write(as_bytes("x"));
    fs::create_directory(folder / "a");
    CHECK(expect_error(ErrorCode::io, {"a: rename: Is a directory"}, [&] {
              out.commit();
              return 0;
          }) == EISDIR);
    CHECK(folder.names() == Names{"a"});
}

TEST_CASE("output file: a limit on file sizes") {
    const ScratchFolder folder;
    folder.write("a.npy", "old");
    struct rlimit saved {};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &saved) == 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    for (const bool unnamed : {true, false}) {
        OutputFile out(folder / "a.npy", {.unnamed = unnamed});
        const struct rlimit small { .rlim_cur = 10000, .rlim_max = saved.rlim_max };
        REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
        int error = 0;
        std::string message;
        try {
            out.write(as_bytes(std::string(6000, 'x')));
            // The first 4000 of these fit: a short write, then the failure.
            out.write(as_bytes(std::string(6000, 'x')));
        } catch (const Error& caught) {
            error = caught.native_code();
            message = caught.what();
        }
        REQUIRE(::setrlimit(RLIMIT_FSIZE, &saved) == 0);
        CHECK(error == EFBIG);
        CHECK(message == (folder / "a.npy").native() + ": write at offset 10000: File too large");
        CHECK(folder.names() == Names{"a.npy"});
        expect_error(ErrorCode::invalid_argument, {"a write failed"}, [&] {
            out.commit();
            return 0;
        });
    }
    std::signal(SIGXFSZ, handler);
    CHECK(read_text(folder / "a.npy") == "old");
}

TEST_CASE("output file: a full disk") {
    const ScratchFolder folder;
    // A small filesystem of its own, seen by a child process only.
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    constexpr int not_permitted = 10;
    if (child == 0) {
        if (!mount_small(folder.path())) {
            ::_exit(not_permitted);
        }
        int code = 15;
        try {
            code = fill_disk(folder);
        } catch (const std::exception&) {
            // Told by the code: this process has no test to fail.
        }
        ::_exit(code);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    if (WEXITSTATUS(status) == not_permitted) {
        MESSAGE("no filesystem may be mounted here: a full disk is tested by the limit on file sizes and /dev/full alone");
    } else {
        CHECK(WEXITSTATUS(status) == 0);
    }
}
