#include "core/numa.hpp"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <fstream>
#include <string>

#include <fmt/format.h>

namespace tandem {
namespace {

// Beyond any machine, and short enough for a list of them.
constexpr int max_number = 65536;

std::string first_line(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

}  // namespace

std::vector<int> parse_number_list(std::string_view text) {
    std::vector<int> numbers;
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at != end) {
        int first = 0, last = 0;
        auto read = std::from_chars(at, end, first);
        if (read.ec != std::errc{}) return {};
        last = first;
        if (read.ptr != end && *read.ptr == '-') read = std::from_chars(read.ptr + 1, end, last);
        if (read.ec != std::errc{} || first < 0 || last < first || last >= max_number) return {};
        for (int number = first; number <= last; ++number)
            numbers.push_back(number);
        at = read.ptr;
        if (at == end) break;
        if (*at != ',' || ++at == end) return {};
    }
    return numbers;
}

std::vector<int> processors_of_node(int node, const std::filesystem::path& nodes) {
    if (node < 0 || parse_number_list(first_line(nodes / "online")).size() < 2) return {};
    return parse_number_list(first_line(nodes / fmt::format("node{}", node) / "cpulist"));
}

void stay_near_node(int node) noexcept {
    try {
        const std::vector<int> processors = processors_of_node(node);
        cpu_set_t allowed, near;
        CPU_ZERO(&near);
        if (processors.empty() || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
        for (const int processor : processors) {
            if (processor < CPU_SETSIZE && CPU_ISSET(static_cast<std::size_t>(processor), &allowed))
                CPU_SET(static_cast<std::size_t>(processor), &near);
        }
        if (CPU_COUNT(&near) != 0) ::sched_setaffinity(0, sizeof near, &near);
    } catch (...) {
        // It works from everywhere, if more slowly.
    }
}

void prefer_node(std::byte* data, std::size_t size_bytes, int node) noexcept {
    try {
        constexpr int bits = 8 * sizeof(unsigned long);
        std::array<unsigned long, 1024 / bits> mask{};
        if (node >= 1024 || processors_of_node(node).empty()) return;
        mask[static_cast<std::size_t>(node / bits)] = 1UL << static_cast<unsigned>(node % bits);
        ::syscall(SYS_mbind, data, size_bytes, MPOL_PREFERRED, mask.data(), 1024UL, 0U);
    } catch (...) {
    }
}

}  // namespace tandem
