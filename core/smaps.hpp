#pragma once
// What the kernel says of a mapping of this process, in /proc/self/smaps.

#include <cstddef>
#include <cstdint>
#include <optional>

namespace tandem {

struct MappingFacts {
    std::uint64_t resident_bytes = 0;  ///< in pages that the process's page table holds, hugetlbfs's included
    std::uint64_t huge_bytes = 0;      ///< of these, in transparent huge pages that are mapped as such
    bool huge_eligible = false;        ///< all of the mapping may get transparent huge pages (THPeligible)
};

/// The facts of the mappings that [data, data + size_bytes) consists of: advice on a part of a mapping splits it. Nothing where
/// /proc can't be read or has no such mapping.
std::optional<MappingFacts> mapping_facts(const void* data, std::size_t size_bytes);

}  // namespace tandem
