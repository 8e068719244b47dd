// Fences between processes: waiting, the end of who signals, and pages that others have written nonsense to.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <tandem/tandem.hpp>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "core/share/fence_block.hpp"
#include "core/share/process_identity.hpp"
#include "expect_error.hpp"
#include "scratch_folder.hpp"

namespace {

using namespace tandem;
using namespace tandem::test;
using namespace std::chrono_literals;

// A child process that runs `work` with what `ready` and `go` are for it, and is killed at the end of the test.
class Child {
public:
    template <class Work>
    explicit Child(Work work) {
        REQUIRE(::pipe2(ready_.data(), O_CLOEXEC) == 0);
        pid_ = ::fork();
        REQUIRE(pid_ >= 0);
        if (pid_ == 0) {
            try {
                work();
            } catch (...) {
                ::_exit(1);
            }
            static_cast<void>(::write(ready_[1], "r", 1) < 0);
            while (true)
                ::pause();
        }
        char letter = 0;
        REQUIRE(::read(ready_[0], &letter, 1) == 1);
    }
    ~Child() {
        kill();
        ::close(ready_[0]);
        ::close(ready_[1]);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    [[nodiscard]] pid_t pid() const { return pid_; }
    void kill() {
        if (pid_ == 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }

private:
    std::array<int, 2> ready_{};
    pid_t pid_ = 0;
};

// What another process would get of it.
SharedFence again(const SharedFence& fence) {
    return SharedFence::from_file_descriptor(::fcntl(fence.file_descriptor(), F_DUPFD_CLOEXEC, 0));
}

int make_memfd(std::size_t size_bytes, int seals) {
    const int file = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    REQUIRE(file >= 0);
    REQUIRE(::ftruncate(file, static_cast<off_t>(size_bytes)) == 0);
    REQUIRE(::fcntl(file, F_ADD_SEALS, seals) == 0);
    return file;
}

}  // namespace

TEST_CASE("a fence counts upwards, and all who have it see that") {
    SharedFence fence = SharedFence::create();
    const SharedFence other = again(fence);
    CHECK(fence.value() == 0);
    fence.wait(0);
    CHECK_FALSE(other.wait(1, 0ns));
    CHECK_FALSE(other.wait(1, 5ms));
    fence.signal(3);
    CHECK(other.value() == 3);
    other.wait(3);
    CHECK(other.wait(2, std::chrono::nanoseconds::max()));
    CHECK_FALSE(other.wait(4, 1ms));
    fence.signal(2);  // no way back
    CHECK(other.value() == 3);
    fence.signal(UINT64_MAX);
    other.wait(UINT64_MAX);
}

TEST_CASE("a fence wakes all who wait, in this process and in others") {
    SharedFence fence = SharedFence::create();
    std::vector<std::thread> waiting;
    std::atomic<int> woken = 0;
    for (int i = 0; i < 4; ++i) {
        waiting.emplace_back([&] {
            again(fence).wait(1);
            ++woken;
        });
    }
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        static_cast<void>(::write(ends[1], "r", 1) < 0);
        fence.wait(1);
        fence.signal(2);
        ::_exit(0);
    }
    char letter = 0;
    CHECK(::read(ends[0], &letter, 1) == 1);
    std::this_thread::sleep_for(10ms);  // so that some sleep, which the result must not depend on
    fence.signal(1);
    for (std::thread& thread : waiting)
        thread.join();
    CHECK(woken == 4);
    CHECK(fence.wait(2, 60s));
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    ::close(ends[0]);
    ::close(ends[1]);
}

TEST_CASE("a fence is raised when a queue has come that far") {
    const Device device = open_device("host");
    Queue queue(device);
    Queue other(device);
    SharedFence fence = SharedFence::create();
    const Array numbers = empty(device, int32, {100'000});
    {
        const auto elements = numbers.map<std::int32_t>(Access::write);
        std::fill(elements.begin(), elements.end(), 1);
    }
    for (std::uint64_t step = 1; step <= 20; ++step) {
        twice(queue, numbers);
        fence.signal(queue, step);
        fence.wait(other, step);
        CHECK(numbers.map<std::int32_t>(Access::read)[99'999] == 1 << step);
    }
    fence.signal(other, 21);
    fence.wait(21);
    // Many at once come in their order, and take no more threads than there are queues.
    for (std::uint64_t step = 22; step <= 2000; ++step)
        fence.signal(step % 2 == 0 ? queue : other, step);
    fence.wait(2000);
    CHECK(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}) < 100);
}

TEST_CASE("signals that were asked for come before the process ends") {
    SharedFence fence = SharedFence::create();
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const Device device = open_device("host");
        Queue queue(device);
        const Array numbers = empty(device, float32, {3'000'000});
        for (int i = 0; i < 5; ++i)
            add(queue, numbers, numbers, numbers);
        fence.signal(queue, 5);
        std::exit(0);  // NOLINT(concurrency-mt-unsafe): as programs end
    }
    fence.wait(5);
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

TEST_CASE("who waits is told that the signalling process has ended") {
    const std::size_t descriptors = open_descriptors();
    for (const bool while_waiting : {false, true}) {
        CAPTURE(while_waiting);
        SharedFence fence = SharedFence::create();
        Child child([&fence] { fence.signal(7); });
        const std::string pid = std::to_string(child.pid());
        fence.wait(7);
        if (!while_waiting) child.kill();
        std::thread killer([&] {
            if (!while_waiting) return;
            std::this_thread::sleep_for(20ms);
            child.kill();
        });
        expect_error(ErrorCode::unavailable, {"waiting for 8", "process " + pid, "ended", "as far as 7"}, [&] {
            fence.wait(8);
            return 0;
        });
        killer.join();
        fence.wait(7);  // what was signalled stays so
        CHECK(fence.wait(7, 0ns));
        expect_error(ErrorCode::unavailable, {pid}, [&] { return fence.wait(8, 60s); });
        fence.become_signaller();
        CHECK_FALSE(fence.wait(8, 1ms));  // it is this process's turn now
    }
    // The watching thread keeps what wakes it, and lets go of processes that are watched no more when it looks next.
    for (int attempt = 0; attempt < 1000 && open_descriptors() > descriptors + 1; ++attempt)
        std::this_thread::sleep_for(1ms);
    CHECK(open_descriptors() <= descriptors + 1);
}

TEST_CASE("a signalling process in another PID namespace is known to live, and to have ended") {
    SharedFence fence = SharedFence::create();
    // By the pipe the process says how far it is, and is told to go on.
    std::array<int, 2> from{};
    std::array<int, 2> to{};
    REQUIRE(::pipe2(from.data(), O_CLOEXEC) == 0);
    REQUIRE(::pipe2(to.data(), O_CLOEXEC) == 0);
    const auto tell = [&](char letter) { return ::write(from[1], &letter, 1) == 1; };
    const auto told = [&] {
        char letter = 0;
        pollfd ready{.fd = from[0], .events = POLLIN, .revents = 0};
        return ::poll(&ready, 1, 30'000) == 1 && ::read(from[0], &letter, 1) == 1 ? letter : '\0';
    };
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) {
            tell('x');
            ::_exit(0);
        }
        const pid_t inner = ::fork();
        if (inner != 0) {
            ::waitpid(inner, nullptr, 0);
            ::_exit(0);
        }
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        char letter = 0;
        try {
            // This process lives, though there is none of its number where the child is, and /proc is of no use there.
            tell(again(fence).wait(1, 600ms) ? 'y' : 'n');
            SharedFence mine = again(fence);
            mine.signal(1);
            tell('s');
            if (::read(to[0], &letter, 1) != 1) ::_exit(1);
            mine = SharedFence();
            tell('l');
            if (::read(to[0], &letter, 1) != 1) ::_exit(1);
            fence.become_signaller();
            tell('b');
        } catch (const std::exception&) {
            tell('e');
        }
        while (true)
            ::pause();
    }
    const char first = told();
    if (first == 'x') {
        MESSAGE("needs to make PID namespaces");
    } else {
        CHECK(first == 'n');
        CHECK(told() == 's');
        fence.wait(1);
        CHECK_FALSE(fence.wait(2, 600ms));
        // It lets go of the fence, and lives.
        REQUIRE(::write(to[1], "g", 1) == 1);
        CHECK(told() == 'l');
        CHECK_FALSE(fence.wait(2, 600ms));
        REQUIRE(::write(to[1], "g", 1) == 1);
        CHECK(told() == 'b');
        CHECK_FALSE(fence.wait(2, 600ms));
        std::thread killer([&] {
            std::this_thread::sleep_for(20ms);
            ::kill(child, SIGKILL);
        });
        expect_error(ErrorCode::unavailable, {"waiting for 2", "ended", "as far as 1"}, [&] { return fence.wait(2, 60s); });
        killer.join();
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    for (const int end : {from[0], from[1], to[0], to[1]})
        ::close(end);
}

TEST_CASE("work that has failed is no work done") {
    SharedFence fence = SharedFence::create();
    const FencePage page(FileDescriptor(::fcntl(fence.file_descriptor(), F_DUPFD_CLOEXEC, 0)));
    page.block().fail(5);
    CHECK_FALSE(fence.wait(4, 1ms));
    for (const std::uint64_t value : {5U, 6U}) {
        expect_error(ErrorCode::device_lost, {std::to_string(value), "failed"}, [&] {
            fence.wait(value);
            return 0;
        });
    }
    fence.signal(9);
    fence.wait(6);
}

TEST_CASE("a fence takes nothing in its page for more than a counter") {
    SharedFence fence = SharedFence::create();
    const FencePage page(FileDescriptor(::fcntl(fence.file_descriptor(), F_DUPFD_CLOEXEC, 0)));
    // Processes that can't be, or are not what is said: ended ones.
    const std::uint32_t here = own_identity().pid_namespace;
    for (const std::uint64_t word :
         {std::uint64_t{1}, std::uint64_t{0x3FFFFF}, (std::uint64_t{77} << 22U) | 0x3FFFFEU,
          packed({.pid = 1, .start_time = 12345678, .pid_namespace = here}), packed({.pid = 0x3FFFFE, .pid_namespace = here}),
          packed({.pid = 0x3FFFFE, .pid_namespace = here}) | unwatched, ~unwatched}) {
        CAPTURE(word);
        page.block().signaller = word;
        expect_error(ErrorCode::unavailable, {"ended"}, [&] { return fence.wait(1, 60s); });
    }
    // Of which nothing can be known.
    for (const std::uint64_t word : {std::uint64_t{0}, unwatched, ~std::uint64_t{0}}) {
        page.block().signaller = word;
        CHECK_FALSE(fence.wait(1, 1ms));
    }
    std::memset(static_cast<void*>(&page.block()), 0xFF, fence_bytes);
    fence.wait(UINT64_MAX);
    fence.signal(1);
    CHECK(fence.value() == UINT64_MAX);
}

TEST_CASE("only a sealed memfd of the right size is a fence") {
    const std::size_t descriptors = open_descriptors();
    constexpr int sealed = F_SEAL_SHRINK | F_SEAL_GROW;
    const auto attach = [](int file) { return [file] { return SharedFence::from_file_descriptor(file); }; };
    expect_error(ErrorCode::bad_file, {"memfd needed"}, attach(::open("/dev/zero", O_RDWR | O_CLOEXEC)));
    expect_error(ErrorCode::bad_file, {"memfd needed"}, attach(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)));
    expect_error(ErrorCode::bad_file, {"memfd needed"}, attach(-1));
    expect_error(ErrorCode::bad_file, {"shrinking"}, attach(make_memfd(fence_bytes, 0)));
    expect_error(ErrorCode::bad_file, {"shrinking"}, attach(make_memfd(fence_bytes, F_SEAL_GROW)));
    expect_error(ErrorCode::bad_file, {"written"}, attach(make_memfd(fence_bytes, sealed | F_SEAL_FUTURE_WRITE)));
    for (const std::size_t size_bytes : {std::size_t{0}, fence_bytes - 1, fence_bytes + 1, 2 * fence_bytes}) {
        expect_error(ErrorCode::bad_file, {"4096 bytes needed", std::to_string(size_bytes) + " found"},
                     attach(make_memfd(size_bytes, sealed)));
    }
    CHECK(open_descriptors() == descriptors);
    CHECK(SharedFence::from_file_descriptor(make_memfd(fence_bytes, sealed)).value() == 0);
    CHECK(open_descriptors() == descriptors);
    // What was made here can't be changed by who gets it.
    const SharedFence fence = SharedFence::create();
    CHECK(::ftruncate(fence.file_descriptor(), 0) != 0);
    CHECK(::fcntl(fence.file_descriptor(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0);
}

TEST_CASE("a fence without a counter says so") {
    SharedFence fence;
    Queue queue(open_device("host"));
    CHECK_FALSE(fence.is_valid());
    const auto expect = [](auto call) { expect_error(ErrorCode::invalid_argument, {"fence", "create"}, call); };
    expect([&] { return fence.value(); });
    expect([&] { return fence.wait(1, 0ns); });
    expect([&] { return fence.file_descriptor(); });
    expect([&] {
        fence.signal(1);
        return 0;
    });
    expect([&] {
        fence.signal(queue, 1);
        return 0;
    });
    CHECK(SharedFence::create().is_valid());
}
