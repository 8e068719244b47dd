// Output to what can't be replaced: devices, pipes, descriptors of this process.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <set>
#include <stop_token>
#include <string>
#include <thread>

#include <tandem/error.hpp>

#include "core/output_file.hpp"
#include "expect_error.hpp"
#include "scratch_folder.hpp"

using tandem::ErrorCode;
using tandem::OutputFile;
using tandem::test::as_bytes;
using tandem::test::expect_error;
using tandem::test::read_text;
using tandem::test::ScratchFolder;
namespace fs = std::filesystem;
using Names = std::set<std::string>;

TEST_CASE("output file: a full device, written directly") {
    OutputFile out("/dev/full");
    CHECK(expect_error(ErrorCode::io, {"/dev/full: write at offset 0: No space left on device"}, [&] {
              out.write(as_bytes("x"));
              return 0;
          }) == ENOSPC);
    expect_error(ErrorCode::invalid_argument, {"a write failed"}, [&] {
        out.commit();
        return 0;
    });
}

TEST_CASE("output file: devices and pipes are written directly") {
    const ScratchFolder folder;
    {
        OutputFile null("/dev/null");
        null.write(as_bytes("anything"));
        null.commit();
    }
    CHECK(fs::is_character_file("/dev/null"));
    const fs::path path = folder / "pipe";
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    std::string received;
    std::thread reader([&] { received = read_text(path); });
    {
        OutputFile out(path);
        // More than a pipe holds, so that writes are cut short.
        out.write(as_bytes(std::string(300000, 'p')));
        CHECK(out.size_bytes() == 300000);
        out.commit();
    }
    reader.join();
    CHECK((received == std::string(300000, 'p')));
    CHECK(fs::is_fifo(path));
    CHECK(folder.names() == Names{"pipe"});
}

TEST_CASE("output file: a stop ends the waiting for a pipe's reader") {
    const ScratchFolder folder;
    const fs::path path = folder / "pipe";
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    const auto stop_soon = [](std::stop_source& stop) {
        return std::jthread([&stop] {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            stop.request_stop();
        });
    };
    {
        std::stop_source stop;
        const std::jthread stopper = stop_soon(stop);
        expect_error(ErrorCode::cancelled, {"pipe: cancelled while nothing reads"}, [&] {
            OutputFile out(path, {.stop = stop.get_token()});
            return 0;
        });
    }
    {
        // Opened, and never read.
        const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        REQUIRE(reader >= 0);
        std::stop_source stop;
        OutputFile out(path, {.stop = stop.get_token()});
        const std::jthread stopper = stop_soon(stop);
        expect_error(ErrorCode::cancelled, {"pipe: cancelled while nothing reads"}, [&] {
            out.write(as_bytes(std::string(300'000, 'p')));
            return 0;
        });
        ::close(reader);
    }
    // A pipe of the process itself, and one that is read slowly.
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    std::string received;
    std::thread reader([&] {
        std::array<char, 1500> buffer{};
        for (ssize_t count = 0; (count = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
            received.append(buffer.data(), static_cast<std::size_t>(count));
    });
    std::string sent;
    for (int i = 0; i < 100'000; ++i)
        sent += static_cast<char>(i % 251);
    {
        std::stop_source stop;
        OutputFile out("/proc/self/fd/" + std::to_string(ends[1]), {.stop = stop.get_token()});
        ::close(ends[1]);
        out.write(as_bytes(sent));
        out.commit();
    }
    reader.join();
    ::close(ends[0]);
    CHECK((received == sent));
}

TEST_CASE("output file: a pipe that does not block is waited for") {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
    std::string received;
    std::thread reader([&] {
        std::array<char, 4096> buffer{};
        for (;;) {
            const ssize_t count = ::read(ends[0], buffer.data(), buffer.size());
            if (count > 0) {
                received.append(buffer.data(), static_cast<std::size_t>(count));
            } else if (count == 0) {
                return;
            } else {
                std::this_thread::sleep_for(std::chrono::microseconds(100));
            }
        }
    });
    {
        OutputFile out("/dev/fd/" + std::to_string(ends[1]));
        out.write(as_bytes(std::string(500000, 'q')));
        out.commit();
    }
    ::close(ends[1]);
    reader.join();
    ::close(ends[0]);
    CHECK((received == std::string(500000, 'q')));
}

TEST_CASE("output file: a descriptor of this process is written on, not replaced") {
    const ScratchFolder folder;
    const fs::path path = folder.write("log", "before ");
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    REQUIRE(descriptor >= 0);
    {
        OutputFile out("/proc/self/fd/" + std::to_string(descriptor));
        out.write(as_bytes("after"));
        out.commit();
    }
    REQUIRE(::write(descriptor, "!", 1) == 1);
    ::close(descriptor);
    CHECK(read_text(path) == "before after!");
    CHECK(folder.names() == Names{"log"});
    CHECK(expect_error(ErrorCode::io, {"/dev/fd/999", "Bad file descriptor"}, [&] {
              OutputFile none("/dev/fd/999");
              return 0;
          }) == EBADF);
}
