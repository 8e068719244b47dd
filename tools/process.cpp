#include "tools/process.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <system_error>

#include <fmt/format.h>
#include <tandem/error.hpp>

#include "tools/outputs.hpp"
#include "tools/text.hpp"

namespace tandem::command {
namespace {

volatile std::sig_atomic_t file_is_open = 0;
volatile std::sig_atomic_t interrupted_by = 0;
// Where an interrupt is told to who waits for it; no descriptor while nobody does.
volatile std::sig_atomic_t interrupt_pipe = -1;

void end_by(int signal_number) {
    std::signal(signal_number, SIG_DFL);
    std::raise(signal_number);
}

// What `on_bus_error` writes: made before, since there nothing can be.
std::string& bus_error_message() {
    static std::string message;
    return message;
}

extern "C" void on_bus_error(int /*signal_number*/) {
    // Several threads may come here at once; the first one speaks, and ends them all.
    static std::atomic_flag is_told = ATOMIC_FLAG_INIT;
    while (is_told.test_and_set())
        ::pause();
    const std::string& message = bus_error_message();
    static_cast<void>(::write(STDERR_FILENO, message.data(), message.size()) < 0);
    ::_exit(1);
}

extern "C" void on_interrupt(int signal_number) {
    if (interrupt_pipe >= 0) {
        const int error = errno;
        static_cast<void>(::write(interrupt_pipe, "", 1) < 0);
        errno = error;
    } else if (file_is_open != 0) {
        interrupted_by = signal_number;
    } else {
        end_by(signal_number);
    }
}

}  // namespace

void prepare_process() {
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        // Opened the wrong way round, so that using it still fails.
        if (::fcntl(descriptor, F_GETFD) < 0) ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);
    // Blocked too, in all threads: a driver's compiler may put its own handlers in the place of what is ignored.
    sigset_t errors;
    ::sigemptyset(&errors);
    ::sigaddset(&errors, SIGPIPE);
    ::sigaddset(&errors, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &errors, nullptr);
    for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
        struct sigaction action {};
        // Whoever started this process with a signal ignored wants it to stay so.
        if (::sigaction(signal_number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) continue;
        action = {};
        action.sa_handler = on_interrupt;
        action.sa_flags = SA_RESTART;
        ::sigemptyset(&action.sa_mask);
        ::sigaction(signal_number, &action, nullptr);
    }
}

void guard_mapped_files(const std::string& job) {
    bus_error_message() = fmt::format(
        "tandem: {}: SIGBUS: a file became shorter while it was used in place, or its storage failed\n", one_line(job));
    std::signal(SIGBUS, on_bus_error);
}

bool is_interrupted() noexcept {
    return interrupted_by != 0;
}

void check_interrupt() {
    if (is_interrupted()) throw Error(ErrorCode::io, "interrupted");
}

WritingGuard::WritingGuard(const std::filesystem::path& path) {
    std::error_code ignored;
    const std::filesystem::file_status status = std::filesystem::status(path, ignored);
    file_is_open = !std::filesystem::exists(status) || std::filesystem::is_regular_file(status) ? 1 : 0;
}

InterruptWait::InterruptWait() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        throw Error(ErrorCode::io, fmt::format("pipe2: {}", std::generic_category().message(errno)), errno);
    }
    // Enough interrupts to fill the pipe must not stop the handler.
    ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
    reader_ = ends[0];
    interrupt_pipe = ends[1];
}

InterruptWait::~InterruptWait() {
    const int writer = interrupt_pipe;
    interrupt_pipe = -1;
    ::close(writer);
    ::close(reader_);
}

void InterruptWait::wait() const {
    char letter = 0;
    while (::read(reader_, &letter, 1) < 0 && errno == EINTR) {
    }
}

WritingGuard::~WritingGuard() {
    file_is_open = 0;
    if (interrupted_by == 0) return;
    if (!done_.empty()) print_error(fmt::format("tandem: {}: was complete when the interrupt came", done_));
    end_by(interrupted_by);
}

}  // namespace tandem::command
