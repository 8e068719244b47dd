#include "core/share/process_identity.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <string_view>

namespace tandem {
namespace {

// /proc/PID/stat: "PID (NAME) STATE ..." where NAME may hold anything, parentheses too; the start is the 22nd word.
std::optional<ProcessIdentity> parse_status(pid_t pid, std::string_view text) noexcept {
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string_view::npos || text.size() < name_end + 3) return std::nullopt;
    text.remove_prefix(name_end + 2);
    if (text.front() == 'Z' || text.front() == 'X') return std::nullopt;
    for (int word = 3; word < 22; ++word) {
        const std::size_t space = text.find(' ');
        if (space == std::string_view::npos) return std::nullopt;
        text.remove_prefix(space + 1);
    }
    ProcessIdentity process{.pid = pid, .start_time = 0};
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), process.start_time);
    if (problem != std::errc()) return std::nullopt;
    return process;
}

constexpr unsigned pid_bits = 22;

}  // namespace

std::uint64_t packed(const ProcessIdentity& process) noexcept {
    return (process.start_time << pid_bits) | (static_cast<std::uint64_t>(process.pid) & ((1U << pid_bits) - 1));
}

ProcessIdentity unpacked(std::uint64_t word) noexcept {
    return {.pid = static_cast<int>(word & ((1U << pid_bits) - 1)), .start_time = word >> pid_bits};
}

std::optional<ProcessIdentity> find_process(pid_t pid) noexcept {
    if (pid <= 0) return std::nullopt;
    std::array<char, 32> path{};
    std::snprintf(path.data(), path.size(), "/proc/%d/stat", static_cast<int>(pid));
    const FileDescriptor file(::open(path.data(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) return std::nullopt;
    std::array<char, 1024> text{};  // the words up to the 22nd take less
    const ssize_t count = ::read(file.number(), text.data(), text.size());
    if (count <= 0) return std::nullopt;
    return parse_status(pid, {text.data(), static_cast<std::size_t>(count)});
}

ProcessIdentity own_identity() noexcept {
    static std::atomic<std::uint64_t> known{0};  // a fork's child finds its parent's
    const pid_t pid = ::getpid();
    ProcessIdentity process = unpacked(known.load());
    if (process.pid != pid) {
        process = find_process(pid).value_or(ProcessIdentity{.pid = pid, .start_time = 0});
        known = packed(process);
    }
    return process;
}

bool is_running(const ProcessIdentity& process) noexcept {
    const std::optional<ProcessIdentity> found = find_process(process.pid);
    return found && *found == process;
}

FileDescriptor open_process(const ProcessIdentity& process) noexcept {
    FileDescriptor descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0U)));
    if (descriptor.is_open() && !is_running(process)) descriptor.reset();
    return descriptor;
}

}  // namespace tandem
