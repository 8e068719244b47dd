#pragma once
// What a process is known by to others, in one word, and whether it still runs.

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "core/posix_file.hpp"
#include "core/share/exporter.hpp"

namespace tandem {

/// A process in one word, which can be written and read at once. Processes have numbers below 2^22 on Linux, and 2^42 ticks are
/// 1,300 years. Source: /proc/sys/kernel/pid_max in proc(5).
std::uint64_t packed(const ProcessIdentity& process) noexcept;
ProcessIdentity unpacked(std::uint64_t word) noexcept;

/// This process as `this_process` has it, without asking the system each time; in a fork's child another one than in its parent.
ProcessIdentity own_identity() noexcept;

/// The process of that number; nothing where there is none, or only its exit status is left.
std::optional<ProcessIdentity> find_process(pid_t pid) noexcept;

/// Whether it runs.
bool is_running(const ProcessIdentity& process) noexcept;

/// A descriptor that becomes readable when the process ends. Not open where it has ended, or where the system refuses to give
/// one: `is_running` tells which.
FileDescriptor open_process(const ProcessIdentity& process) noexcept;

}  // namespace tandem
