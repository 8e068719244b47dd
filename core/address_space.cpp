#include "core/address_space.hpp"

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "tandem/error.hpp"

namespace tandem {

RangeFacts facts_of(const void* address, std::size_t size_bytes) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps(std::fopen("/proc/self/maps", "re"), &std::fclose);
    if (maps == nullptr) throw Error(ErrorCode::io, "/proc/self/maps: can't be opened");
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t end = begin + size_bytes;
    RangeFacts facts;
    std::uintptr_t reached = begin;  // all before it is accounted for
    char line[512];                  // longer lines have longer paths, which are not needed
    bool at_start = true;
    while (reached < end && std::fgets(line, sizeof line, maps.get()) != nullptr) {
        const bool is_start = at_start;
        at_start = false;
        for (const char* c = line; *c != '\0'; ++c)
            at_start = at_start || *c == '\n';
        if (!is_start) continue;
        std::uintptr_t first = 0, last = 0;
        char permissions[5] = {};
        std::uint64_t inode = 0;
        if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %" SCNu64, &first, &last, permissions, &inode) != 4)
            continue;
        if (last <= reached) continue;
        if (first > reached) break;  // a gap
        reached = last;
        facts.is_mapped = facts.is_mapped && permissions[0] == 'r';
        facts.is_writable = facts.is_writable && permissions[1] == 'w';
        facts.is_file = facts.is_file || inode != 0;
        facts.is_private_file = facts.is_private_file || (inode != 0 && permissions[3] == 'p');
    }
    facts.is_mapped = facts.is_mapped && reached >= end;
    return facts;
}

}  // namespace tandem
