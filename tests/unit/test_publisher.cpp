// Published names: what processes get by them, who has a name, and what is left of those who end.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <tandem/tandem.hpp>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "child.hpp"
#include "core/share/names.hpp"
#include "core/share/own_descriptor.hpp"
#include "expect_error.hpp"
#include "scratch_folder.hpp"

namespace {

using namespace tandem;
using namespace tandem::test;
using namespace std::chrono_literals;
using Names = std::set<std::string>;

// 0, 1, 2, ... in memory that can be shared.
Array numbers(const Device& device, std::int64_t count, DType dtype = int32) {
    Array array = empty_shareable(device, dtype, {count});
    auto elements = array.map<std::int32_t>(Access::write);
    std::iota(elements.begin(), elements.end(), 0);
    return array;
}

std::int64_t sum_of(const Array& array) {
    const auto elements = array.map<std::int32_t>(Access::read);
    return std::accumulate(elements.begin(), elements.end(), std::int64_t{0});
}

// A child process that leaves without a destructor, as a killed one does.
template <class Work>
void in_process_that_is_lost(Work work) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        work();
        ::_exit(0);
    }
    REQUIRE(::waitpid(child, nullptr, 0) == child);
}

std::vector<std::string> names_of(const std::vector<PublishedInfo>& infos) {
    std::vector<std::string> names;
    for (const PublishedInfo& info : infos)
        names.push_back(info.name);
    return names;
}

}  // namespace

TEST_CASE("a published array is the same memory in this process and in others") {
    const ScratchFolder folder;
    const Device device = open_device("host");
    Publisher publisher("numbers", {.folder = folder.path()});
    const Array array = numbers(device, 1000);
    publisher.add(array.slice(0, 10, 1000, 3));

    const Array here = attach(device, "numbers", {.folder = folder.path()});
    CHECK(here.shape() == Shape{330});
    CHECK(here.strides_bytes() == Strides{12});
    array.map<std::int32_t>(Access::read_write)[10] = 77;
    {
        Queue queue(device);
        CHECK(to_vector<std::int32_t>(queue, here)[0] == 77);
    }
    const std::string there = in_child([&] {
        Queue queue(device);
        Array attached = attach(open_device("host"), "numbers", {.folder = folder.path()});
        const std::vector<std::int32_t> found = to_vector<std::int32_t>(queue, attached);
        twice(queue, attached);
        queue.synchronize();
        return std::to_string(found[0]) + " " + std::to_string(found[1]) + " " + std::to_string(found.size());
    });
    CHECK(there == "77 13 330");
    CHECK(array.map<std::int32_t>(Access::read)[13] == 26);
    CHECK(array.map<std::int32_t>(Access::read)[12] == 12);
}

TEST_CASE("keys, fences, and the list of what there is") {
    const ScratchFolder folder;
    const PublisherOptions options{.folder = folder.path()};
    const AttachOptions where{.folder = folder.path()};
    const Device device = open_device("host");
    Publisher publisher("b", options);
    CHECK(publisher.name() == "b");
    CHECK(publisher.path() == folder / "b.sock");
    CHECK(published(where).empty());
    SharedFence fence = SharedFence::create();
    publisher.add(numbers(device, 8));
    publisher.add(numbers(device, 100), fence, "y");
    publisher.add(numbers(device, 5), "x", {.is_writable = false});
    Publisher other("a", options);
    other.add(numbers(device, 1), "only");

    CHECK(names_of(published(where)) == std::vector<std::string>{"a/only", "b", "b/x", "b/y"});
    const std::vector<PublishedInfo> infos = published("b", where);
    REQUIRE(infos.size() == 3);
    const PublishedInfo& info = infos[2];
    CHECK(info.name == "b/y");
    CHECK(info.dtype == int32);
    CHECK(info.shape == Shape{100});
    CHECK(info.size_bytes >= 400);
    CHECK(info.method == ShareMethod::host_memory);
    CHECK(info.kind == MemoryKind::device);
    CHECK(info.device == "host:0");
    CHECK(info.is_writable);
    CHECK(info.has_fence);
    CHECK(info.pid == ::getpid());
    CHECK(info.user == ::geteuid());
    CHECK_FALSE(infos[1].is_writable);
    CHECK_FALSE(infos[1].has_fence);
    CHECK(names_of(published("b/x", where)) == std::vector<std::string>{"b/x"});

    const Attachment attachment = attach_with_fence(device, "b/y", where);
    CHECK(sum_of(attachment.array) == 4950);
    fence.signal(4);
    attachment.fence.wait(4);
    CHECK_FALSE(attach_with_fence(device, "b", where).fence.is_valid());
    CHECK(sum_of(attach(device, "b/x", where)) == 10);

    expect_error(ErrorCode::unavailable, {"'b'", "'z' is not published", "an array without key, 'x', 'y'"},
                 [&] { return attach(device, "b/z", where); });
    expect_error(ErrorCode::unavailable, {"'a'", "an array without key is not published", "'only'"},
                 [&] { return attach(device, "a", where); });
    expect_error(ErrorCode::unavailable, {"'z' is not published"}, [&] { return published("b/z", where); });
    expect_error(ErrorCode::invalid_argument, {"'b'", "'y' is published already"}, [&] {
        publisher.add(numbers(device, 1), "y");
        return 0;
    });
    expect_error(ErrorCode::out_of_range, {"'b'", "'z' is not published"}, [&] {
        publisher.remove("z");
        return 0;
    });
    publisher.remove("y");
    CHECK(sum_of(attachment.array) == 4950);
    CHECK(names_of(published("b", where)) == std::vector<std::string>{"b", "b/x"});
}

TEST_CASE("only shareable memory is published") {
    const ScratchFolder folder;
    const Device device = open_device("host");
    Publisher publisher("a", {.folder = folder.path()});
    expect_error(ErrorCode::unsupported, {}, [&] {
        publisher.add(empty(device, float32, {3}));
        return 0;
    });
    CHECK(published({.folder = folder.path()}).empty());
    // An array without elements has no memory to share, and is an array all the same.
    publisher.add(empty_shareable(device, float64, {0, 3}));
    const Array attached = attach(device, "a", {.folder = folder.path()});
    CHECK(attached.shape() == Shape{0, 3});
    CHECK(attached.dtype() == float64);
}

TEST_CASE("a name has one publisher, and is free when that has ended") {
    const ScratchFolder folder;
    const PublisherOptions options{.folder = folder.path()};
    const AttachOptions where{.folder = folder.path()};
    const Device device = open_device("host");
    const std::size_t descriptors = open_descriptors();
    {
        Publisher first("a", options);
        const std::string self = "process " + std::to_string(::getpid());
        expect_error(ErrorCode::unavailable, {"'a'", "published already", self}, [&] { return Publisher("a", options); });
        CHECK(in_child([&] {
                  try {
                      const Publisher second("a", options);
                      return std::string("published twice");
                  } catch (const Error& error) {
                      return std::string(to_string(error.code()));
                  }
              }) == "unavailable");
        CHECK(folder.names() == Names{"a.lock", "a.sock"});
        struct stat status {};
        REQUIRE(::stat((folder / "a.sock").c_str(), &status) == 0);
        CHECK((status.st_mode & 0777U) == 0600);
        REQUIRE(::stat((folder / "a.lock").c_str(), &status) == 0);
        CHECK((status.st_mode & 0777U) == 0600);
        Publisher moved = std::move(first);
        expect_error(ErrorCode::invalid_argument, {"moved from"},
                     [&] { return first.name(); });  // NOLINT(bugprone-use-after-move)
        moved.add(numbers(device, 3));
        CHECK(sum_of(attach(device, "a", where)) == 3);
        moved = Publisher("b", options);
        CHECK(folder.names() == Names{"b.lock", "b.sock"});
    }
    CHECK(folder.names().empty());
    CHECK(open_descriptors() == descriptors);
    expect_error(ErrorCode::unavailable, {"'a'", "nobody publishes", folder.path().native(), "nothing"},
                 [&] { return attach(device, "a", where); });
}

TEST_CASE("what a dead publisher leaves is known for that, and replaced") {
    const ScratchFolder folder;
    const PublisherOptions options{.folder = folder.path()};
    const AttachOptions where{.folder = folder.path()};
    const Device device = open_device("host");
    const auto lose = [&](std::string_view name) {
        in_process_that_is_lost([&] { new Publisher(name, options); });  // NOLINT(cppcoreguidelines-owning-memory)
    };
    lose("a");
    CHECK(folder.names() == Names{"a.lock", "a.sock"});
    expect_error(ErrorCode::unavailable, {"'a'", "nobody publishes"}, [&] { return attach(device, "a", where); });
    CHECK(folder.names().empty());  // who was looked for and not found is cleaned up after
    lose("a");
    {
        Publisher next("a", options);
        next.add(numbers(device, 4));
        CHECK(sum_of(attach(device, "a", where)) == 6);
        lose("b");
        CHECK(names_of(published(where)) == std::vector<std::string>{"a"});
        CHECK(folder.names() == Names{"a.lock", "a.sock"});
    }
    // Whatever else lies there is nobody's socket, and stays.
    folder.write("c.sock", "text");
    folder.write("notes.txt", "text");
    CHECK(published(where).empty());
    expect_error(ErrorCode::unavailable, {"'c'", "nobody publishes"}, [&] { return attach(device, "c", where); });
    expect_error(ErrorCode::io, {"c.sock", "bind"}, [&] { return Publisher("c", options); });
    CHECK(folder.names() == Names{"c.sock", "notes.txt"});
}

TEST_CASE("a fork's child takes nothing of its parent's away") {
    const ScratchFolder folder;
    const Device device = open_device("host");
    Publisher publisher("a", {.folder = folder.path()});
    publisher.add(numbers(device, 4));
    CHECK(in_child([&] {
              Publisher inherited = std::move(publisher);
              return std::string("left");
          }) == "left");
    CHECK(sum_of(attach(device, "a", {.folder = folder.path()})) == 6);
    expect_error(ErrorCode::unavailable, {"already"}, [&] { return Publisher("a", {.folder = folder.path()}); });
}

TEST_CASE("a child that outlives a killed publisher does not keep its name") {
    const ScratchFolder folder;
    const AttachOptions where{.folder = folder.path(), .timeout = 30s};
    const Device device = open_device("host");
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    const pid_t publishing = ::fork();
    REQUIRE(publishing >= 0);
    if (publishing == 0) {
        Publisher publisher("a", {.folder = folder.path()});
        publisher.add(numbers(device, 4));
        if (::fork() == 0) {
            ::alarm(300);  // where the test ends early
            const pid_t self = ::getpid();
            static_cast<void>(::write(ends[1], &self, sizeof self) < 0);
        }
        while (true)
            ::pause();
    }
    pid_t child = 0;
    REQUIRE(::read(ends[0], &child, sizeof child) == sizeof child);
    CHECK(sum_of(attach(device, "a", where)) == 6);
    expect_error(ErrorCode::unavailable, {"already"}, [&] { return Publisher("a", {.folder = folder.path()}); });
    ::kill(publishing, SIGKILL);
    REQUIRE(::waitpid(publishing, nullptr, 0) == publishing);
    REQUIRE(::kill(child, 0) == 0);
    expect_error(ErrorCode::unavailable, {"'a'", "nobody publishes"}, [&] { return attach(device, "a", where); });
    CHECK(folder.names().empty());
    {
        Publisher next("a", {.folder = folder.path()});
        next.add(numbers(device, 3));
        CHECK(sum_of(attach(device, "a", where)) == 3);
    }
    ::kill(child, SIGKILL);
    ::close(ends[0]);
    ::close(ends[1]);
}

TEST_CASE("a descriptor of one process's own is no more than a number to its children") {
    const std::size_t before = open_descriptors();
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    {
        OwnDescriptor own = OwnDescriptor::take([&] { return FileDescriptor(ends[1]); });
        CHECK(in_child([&] {
                  const bool is_taken = ::fcntl(own.number(), F_GETFD) == FD_CLOEXEC;
                  const bool is_pipe = ::write(own.number(), "x", 1) == 1;
                  own.reset();
                  return std::to_string(is_taken) + (is_pipe ? " pipe" : "") + std::to_string(::fcntl(ends[1], F_GETFD));
              }) == "1-1");
        OwnDescriptor moved = std::move(own);
        CHECK(::write(moved.number(), "y", 1) == 1);
        expect_error(ErrorCode::io, {"no more"},
                     [] { return OwnDescriptor::take([]() -> FileDescriptor { throw Error(ErrorCode::io, "no more"); }); });
    }
    CHECK(::fcntl(ends[1], F_GETFD) == -1);
    ::close(ends[0]);
    CHECK(open_descriptors() == before);
}

TEST_CASE("names and keys that can't be") {
    const ScratchFolder folder;
    const PublisherOptions options{.folder = folder.path()};
    const AttachOptions where{.folder = folder.path()};
    const Device device = open_device("host");
    Publisher publisher("a", options);
    const Array array = numbers(device, 1);
    const std::string longest(100, 'n');
    for (const std::string& name : {std::string(), std::string("."), std::string(".."), std::string(".a"), std::string("/"),
                                    std::string("a\n"), std::string("a\0b", 3), longest + "n"}) {
        CAPTURE(name);
        expect_error(ErrorCode::invalid_argument, {"name"}, [&] { return Publisher(name, options); });
        expect_error(ErrorCode::invalid_argument, {"name"}, [&] { return attach(device, name, where); });
        expect_error(ErrorCode::invalid_argument, {"name"}, [&] { return attach(device, "a/" + name, where); });
        if (name.empty()) continue;
        expect_error(ErrorCode::invalid_argument, {"'a'", "key"}, [&] {
            publisher.add(array, name);
            return 0;
        });
    }
    expect_error(ErrorCode::invalid_argument, {"slashes"}, [&] { return Publisher("a/b", options); });
    publisher.add(array, longest);
    CHECK(attach(device, "a/" + longest, where).count() == 1);
    // A socket's address has room for 107 bytes.
    const std::size_t room = 107 - (folder / ".sock").native().size();
    const std::string fits(room, 'f');
    CHECK(Publisher(fits, options).path().native().size() == 107);
    expect_error(ErrorCode::invalid_argument, {"107 bytes at most, 108 found"}, [&] { return Publisher(fits + "f", options); });
    expect_error(ErrorCode::invalid_argument, {"107 bytes at most"}, [&] { return attach(device, fits + "f", where); });
    CHECK(folder.names() == Names{"a.lock", "a.sock"});
    expect_error(ErrorCode::io, {"nowhere"}, [&] { return Publisher("a", {.folder = folder / "nowhere"}); });
}

TEST_CASE("the user's own folder is for nobody else") {
    const ScratchFolder runtime;
    const Device device = open_device("host");
    const auto publish = [](const std::string& folder) {
        ::setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): in a child of one thread
        try {
            Publisher publisher("a");
            publisher.add(numbers(open_device("host"), 4));
            struct stat status {};
            const bool is_own = ::stat((folder + "/tandem").c_str(), &status) == 0 && (status.st_mode & 07777U) == 0700;
            return std::to_string(sum_of(attach(open_device("host"), "a"))) + (is_own ? " own" : "") + " " +
                   std::to_string(published().size());
        } catch (const Error& error) {
            return std::string(to_string(error.code())) + ": " + error.what();
        }
    };
    CHECK(in_child([&] { return publish(runtime.path().native()); }) == "6 own 1");
    CHECK(runtime.names() == Names{"tandem"});
    REQUIRE(::chmod((runtime / "tandem").c_str(), 0755) == 0);
    CHECK(in_child([&] { return publish(runtime.path().native()); }).find("mode 0700 needed") != std::string::npos);
    std::filesystem::remove(runtime / "tandem");
    std::filesystem::create_directory_symlink("/tmp", runtime / "tandem");
    CHECK(in_child([&] { return publish(runtime.path().native()); }).find("Not a directory") != std::string::npos);
    CHECK(in_child([&] { return publish((runtime / "nowhere").native()); }).find("io: ") == 0);
    // Without the variable, or with one that can't be: the system's own folder, if there is one.
    const std::string without = in_child([&] { return publish("relative"); });
    const bool is_answer = without == "6 own 1" || without.find("unavailable: no folder for sockets: XDG_RUNTIME_DIR") == 0;
    CAPTURE(without);
    CHECK(is_answer);
    std::filesystem::remove(runtime / "tandem");
    // Attaching makes nothing.
    CHECK(in_child([&] {
              ::setenv("XDG_RUNTIME_DIR", runtime.path().c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
              return std::to_string(published().size());
          }) == "0");
    CHECK(runtime.names().empty());
}

TEST_CASE("other users are refused unless they are named") {
    if (::geteuid() != 0) {
        MESSAGE("needs root");
        return;
    }
    const ScratchFolder folder;
    REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
    const Device device = open_device("host");
    Publisher open("open", {.folder = folder.path(), .users = {54321}});
    open.add(numbers(device, 4));
    Publisher closed("closed", {.folder = folder.path()});
    closed.add(numbers(device, 4));
    const auto attach_as = [&](uid_t user, std::string_view name, std::vector<std::uint32_t> from) {
        return in_child([&, user] {
            if (::setuid(user) != 0) return std::string("can't");
            return std::to_string(sum_of(attach(open_device("host"), name, {.folder = folder.path(), .users = std::move(from)})));
        });
    };
    CHECK(attach_as(54321, "open", {0}) == "6");
    CHECK(attach_as(54321, "open", {}).find("published by user 0, whom user 54321") != std::string::npos);
    CHECK(attach_as(54322, "open", {0}).find("user 54322 may not attach what user 0 publishes") != std::string::npos);
    CHECK(attach_as(54321, "closed", {0}).find("Permission denied") != std::string::npos);
    CHECK(attach_as(0, "closed", {}) == "6");
}
