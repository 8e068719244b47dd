#pragma once
// What this process has mapped where.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace tandem {

/// A mapping as /proc/self/maps and smaps head it.
struct MapsLine {
    std::uintptr_t begin = 0, end = 0;
    bool is_readable = false;
    bool is_writable = false;
    bool is_private = false;
    std::uint64_t inode = 0;  ///< 0: no file
};

/// "BEGIN-END rights offset device inode path"; nothing for other lines, which smaps has between them.
std::optional<MapsLine> parse_maps_line(const std::string& line);

/// What is known of a range of memory. Of a range over several mappings, what holds for any of them counts.
struct RangeFacts {
    bool is_mapped = true;         ///< false: some page belongs to nothing that can be read
    bool is_writable = true;       ///< false: some page is read-only
    bool is_file = false;          ///< some page belongs to a file, memfd and tmpfs included
    bool is_private_file = false;  ///< and to a private mapping of it, whose written pages are the process's own
};

/// The facts about [address, address + size_bytes). Costs some 0.1 ms. Thread safe. Native call: /proc/self/maps.
RangeFacts facts_of(const void* address, std::size_t size_bytes);

}  // namespace tandem
