#include "core/share/exporter.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/share/process_identity.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

[[noreturn]] void throw_gone(const ProcessIdentity& process) {
    throw Error(
        ErrorCode::unavailable,
        fmt::format("process {}, which shares the memory by a CUDA IPC handle, has ended, and the memory with it", process.pid));
}

}  // namespace

std::optional<std::uint64_t> start_time_of(int pid) {
    const std::optional<ProcessIdentity> process = find_process(pid);
    return process ? std::optional(process->start_time) : std::nullopt;
}

ProcessIdentity this_process() {
    const int pid = ::getpid();
    return {pid, start_time_of(pid).value_or(0)};
}

Exporter::Exporter(const ProcessIdentity& process)
    : process_(process), file_(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0))) {
    if (!file_.is_open() && errno != ENOSYS && errno != ESRCH && errno != EINVAL) {
        const int error = errno;
        throw Error(ErrorCode::io,
                    fmt::format("pidfd_open of process {}: {}", process.pid, std::generic_category().message(error)), error);
    }
    // Another process may have the number by now. Asked after it was opened, so that what is watched is what was asked about.
    const auto start = start_time_of(process.pid);
    if (!start || (process.start_time != 0 && *start != process.start_time)) throw_gone(process);
    process_.start_time = *start;
}

void Exporter::check() const {
    if (file_.is_open()) {
        pollfd entry{file_.number(), POLLIN, 0};
        if (::poll(&entry, 1, 0) > 0) throw_gone(process_);
    } else if (start_time_of(process_.pid) != process_.start_time) {
        throw_gone(process_);
    }
}

}  // namespace tandem
