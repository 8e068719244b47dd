#include "tools/machine.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>
#include <thread>

namespace tandem::command {
namespace {

// What follows `key` and a colon in the first such line of `path`; empty where there is none.
std::string value_in(const char* path, std::string_view key) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with(key)) continue;
        const std::size_t start = line.find_first_not_of(" \t", line.find(':') + 1);
        return start == std::string::npos ? std::string() : line.substr(start);
    }
    return {};
}

// The number in `path`; the largest there is where the file is missing or says "max".
std::uint64_t number_in(const char* path) {
    std::uint64_t number = 0;
    return std::ifstream(path) >> number ? number : std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

Machine this_machine() {
    Machine machine;
    utsname names{};
    if (::uname(&names) == 0) {
        machine.kernel = std::string(names.sysname) + " " + names.release;
        machine.cpu = names.machine;
    }
    if (const std::string model = value_in("/proc/cpuinfo", "model name"); !model.empty()) machine.cpu = model;
    machine.processors = std::max(1U, std::thread::hardware_concurrency());
    machine.memory_bytes =
        static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return machine;
}

std::uint64_t available_memory_bytes() {
    const std::string kibibytes = value_in("/proc/meminfo", "MemAvailable");
    std::uint64_t available = this_machine().memory_bytes / 2;
    if (!kibibytes.empty()) available = std::stoull(kibibytes) << 10U;
    // Version 2 of control groups, as a container sees its own; page cache counts as used there and can go.
    const std::uint64_t limit = number_in("/sys/fs/cgroup/memory.max");
    return std::min(available, limit / 2);
}

}  // namespace tandem::command
