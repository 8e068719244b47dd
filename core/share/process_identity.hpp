#pragma once
// What a process is known by to others, and whether it still runs.

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "core/posix_file.hpp"

namespace tandem {

/// A process, told apart from a later one with its number, and from one with that number in another PID namespace.
struct ProcessIdentity {
    int pid = 0;                      ///< in its own namespace; 0: not known
    std::uint64_t start_time = 0;     ///< clock ticks from boot on; 0: not known
    std::uint32_t pid_namespace = 0;  ///< the namespace's inode; 0: not known

    friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// A process in one word, which can be written and read at once: its number whole, since Linux has less than 2^22, and of the
/// rest the lowest bits, which is enough to tell one from others. The highest bit is 0. Source: /proc/sys/kernel/pid_max in
/// proc(5).
std::uint64_t packed(const ProcessIdentity& process) noexcept;
ProcessIdentity unpacked(std::uint64_t word) noexcept;

/// Whether both are the same, as far as `packed` tells; what either does not know of its start does not count.
bool is_same(const ProcessIdentity& left, const ProcessIdentity& right) noexcept;

/// This process; in a fork's child another one than in its parent. Asks the system once. Native calls: /proc/self/stat,
/// /proc/self/ns/pid.
ProcessIdentity own_identity() noexcept;

/// The process of that number in this process's namespace; nothing where there is none, or only its exit status is left. Its
/// start is not known where /proc hides it or is another namespace's. Native calls: /proc/PID/stat, kill.
std::optional<ProcessIdentity> find_process(pid_t pid) noexcept;

/// Watches a process. Thread safe. Native calls: pidfd_open, poll; those of `find_process` on a kernel older than 5.3, or where
/// there are no descriptors left.
class WatchedProcess {
public:
    explicit WatchedProcess(const ProcessIdentity& process) noexcept;

    [[nodiscard]] const ProcessIdentity& process() const noexcept { return process_; }
    /// Whether its end can be noticed: not where it is of another PID namespace, or of one that is not known.
    [[nodiscard]] bool is_visible() const noexcept { return is_visible_; }
    /// Whether it has ended; false where that can't be noticed.
    [[nodiscard]] bool has_ended() const noexcept;
    /// What becomes readable when it ends; -1 where the system lends nothing of the kind, and `has_ended` has to be asked.
    [[nodiscard]] int descriptor() const noexcept { return file_.number(); }

private:
    ProcessIdentity process_;
    bool is_visible_;
    FileDescriptor file_;
    bool was_there_ = false;
};

}  // namespace tandem
