#include "core/share/process_identity.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <string_view>

namespace tandem {
namespace {

constexpr unsigned pid_bits = 22;
constexpr unsigned start_bits = 25;
constexpr unsigned namespace_bits = 16;

constexpr std::uint64_t low_bits(std::uint64_t value, unsigned count) noexcept {
    return value & ((std::uint64_t{1} << count) - 1);
}

struct Status {
    int pid = 0;
    bool has_ended = false;
    std::uint64_t start_time = 0;
};

// /proc/PID/stat: "PID (NAME) STATE ..." where NAME may hold anything, parentheses too; the start is the 22nd word.
std::optional<Status> parse_status(std::string_view text) noexcept {
    Status status;
    if (std::from_chars(text.data(), text.data() + text.size(), status.pid).ec != std::errc()) return std::nullopt;
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string_view::npos || text.size() < name_end + 3) return std::nullopt;
    text.remove_prefix(name_end + 2);
    status.has_ended = text.front() == 'Z' || text.front() == 'X';
    for (int word = 3; word < 22; ++word) {
        const std::size_t space = text.find(' ');
        if (space == std::string_view::npos) return std::nullopt;
        text.remove_prefix(space + 1);
    }
    if (std::from_chars(text.data(), text.data() + text.size(), status.start_time).ec != std::errc()) return std::nullopt;
    return status;
}

std::optional<Status> read_status(const char* path) noexcept {
    const FileDescriptor file(::open(path, O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) return std::nullopt;
    std::array<char, 1024> text{};  // the words up to the 22nd take less
    const ssize_t count = ::read(file.number(), text.data(), text.size());
    if (count <= 0) return std::nullopt;
    return parse_status({text.data(), static_cast<std::size_t>(count)});
}

ProcessIdentity find_self(pid_t pid) noexcept {
    ProcessIdentity self{.pid = pid};
    // A /proc of another namespace has this process under another number, and nothing in it is of use.
    const std::optional<Status> found = read_status("/proc/self/stat");
    if (found && found->pid == pid) self.start_time = found->start_time;
    struct stat status {};
    if (::stat("/proc/self/ns/pid", &status) == 0) self.pid_namespace = static_cast<std::uint32_t>(status.st_ino);
    return self;
}

}  // namespace

std::uint64_t packed(const ProcessIdentity& process) noexcept {
    return low_bits(static_cast<std::uint64_t>(process.pid), pid_bits) | low_bits(process.start_time, start_bits) << pid_bits |
           low_bits(process.pid_namespace, namespace_bits) << (pid_bits + start_bits);
}

ProcessIdentity unpacked(std::uint64_t word) noexcept {
    return {.pid = static_cast<int>(low_bits(word, pid_bits)),
            .start_time = low_bits(word >> pid_bits, start_bits),
            .pid_namespace = static_cast<std::uint32_t>(low_bits(word >> (pid_bits + start_bits), namespace_bits))};
}

bool is_same(const ProcessIdentity& left, const ProcessIdentity& right) noexcept {
    ProcessIdentity one = unpacked(packed(left));
    ProcessIdentity other = unpacked(packed(right));
    if (left.start_time == 0 || right.start_time == 0) one.start_time = other.start_time = 0;
    return one == other;
}

ProcessIdentity own_identity() noexcept {
    thread_local ProcessIdentity known;  // a fork's child finds its parent's
    const pid_t pid = ::getpid();
    if (known.pid != pid) known = find_self(pid);
    return known;
}

std::optional<ProcessIdentity> find_process(pid_t pid) noexcept {
    if (pid <= 0) return std::nullopt;
    const ProcessIdentity self = own_identity();
    ProcessIdentity process{.pid = pid, .start_time = 0, .pid_namespace = self.pid_namespace};
    if (self.start_time != 0) {
        std::array<char, 32> path{};
        std::snprintf(path.data(), path.size(), "/proc/%d/stat", static_cast<int>(pid));
        if (const std::optional<Status> found = read_status(path.data())) {
            if (found->has_ended) return std::nullopt;
            process.start_time = found->start_time;
            return process;
        }
    }
    if (::kill(pid, 0) != 0 && errno != EPERM) return std::nullopt;
    return process;
}

WatchedProcess::WatchedProcess(const ProcessIdentity& process) noexcept
    : process_(process),
      is_visible_(unpacked(packed(process)).pid_namespace != 0 &&
                  unpacked(packed(process)).pid_namespace == unpacked(packed(own_identity())).pid_namespace) {
    if (!is_visible_) return;
    file_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0U)));
    // Another process may have the number by now. Asked after it was opened, so that what is watched is what was asked about.
    const std::optional<ProcessIdentity> found = find_process(process.pid);
    was_there_ = found && is_same(*found, process);
    if (!was_there_) {
        file_.reset();
    } else if (process.start_time == 0) {
        process_.start_time = found->start_time;
    }
}

bool WatchedProcess::has_ended() const noexcept {
    if (!is_visible_) return false;
    if (!was_there_) return true;
    if (file_.is_open()) {
        pollfd entry{.fd = file_.number(), .events = POLLIN, .revents = 0};
        return ::poll(&entry, 1, 0) > 0;
    }
    const std::optional<ProcessIdentity> found = find_process(process_.pid);
    return !found || !is_same(*found, process_);
}

}  // namespace tandem
