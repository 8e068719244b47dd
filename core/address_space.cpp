#include "core/address_space.hpp"

#include <cinttypes>
#include <cstdio>
#include <fstream>

#include "tandem/error.hpp"

namespace tandem {

std::optional<MapsLine> parse_maps_line(const std::string& line) {
    MapsLine mapping;
    char rights[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %" SCNu64, &mapping.begin, &mapping.end, rights,
                    &mapping.inode) != 4) {
        return std::nullopt;
    }
    mapping.is_readable = rights[0] == 'r';
    mapping.is_writable = rights[1] == 'w';
    mapping.is_private = rights[3] == 'p';
    return mapping;
}

RangeFacts facts_of(const void* address, std::size_t size_bytes) {
    std::ifstream maps("/proc/self/maps");
    if (!maps) throw Error(ErrorCode::io, "/proc/self/maps: can't be opened");
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t end = begin + size_bytes;
    RangeFacts facts;
    std::uintptr_t reached = begin;  // all before it is accounted for
    for (std::string line; reached < end && std::getline(maps, line);) {
        const auto mapping = parse_maps_line(line);
        if (!mapping || mapping->end <= reached) continue;
        if (mapping->begin > reached) break;  // a gap
        reached = mapping->end;
        facts.is_mapped = facts.is_mapped && mapping->is_readable;
        facts.is_writable = facts.is_writable && mapping->is_writable;
        facts.is_file = facts.is_file || mapping->inode != 0;
        facts.is_private_file = facts.is_private_file || (mapping->inode != 0 && mapping->is_private);
    }
    facts.is_mapped = facts.is_mapped && reached >= end;
    return facts;
}

}  // namespace tandem
