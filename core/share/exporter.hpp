#pragma once
// Processes, and whether they still run.

#include <cstdint>
#include <memory>
#include <optional>

#include "core/posix_file.hpp"

namespace tandem {

/// A process, told apart from a later one with its number.
struct ProcessIdentity {
    int pid = 0;                   ///< 0: not known
    std::uint64_t start_time = 0;  ///< clock ticks from boot on; 0: not known

    friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// This process. Native call: /proc/self/stat.
ProcessIdentity this_process();

/// When process `pid` started; nothing where there is none. Native call: /proc/PID/stat.
std::optional<std::uint64_t> start_time_of(int pid);

/// Watches the process that memory comes from. Thread safe.
class Exporter {
public:
    /// Throws unavailable where the process has ended, io where it can't be watched. Native call: pidfd_open.
    explicit Exporter(const ProcessIdentity& process);

    /// Throws unavailable where it has ended. Costs one system call. Native call: poll.
    void check() const;

private:
    ProcessIdentity process_;
    FileDescriptor file_;  // of the process; not open on a kernel older than 5.3
};

}  // namespace tandem
