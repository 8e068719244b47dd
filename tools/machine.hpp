#pragma once
// The machine that the command runs on.

#include <cstdint>
#include <string>

namespace tandem::command {

struct Machine {
    std::string cpu;          ///< as the kernel names it, else the architecture
    unsigned processors = 1;  ///< that this process may run on
    std::uint64_t memory_bytes = 0;
    std::string kernel;  ///< "Linux 6.1.0-13-amd64"
};

/// Native calls: uname, sysconf; /proc/cpuinfo.
Machine this_machine();

/// Memory that could be taken now without others having to give any up: /proc/meminfo's MemAvailable, or half of what this
/// process's control group may have where that is less.
std::uint64_t available_memory_bytes();

}  // namespace tandem::command
