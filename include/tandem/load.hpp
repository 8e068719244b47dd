#pragma once
// How arrays are loaded from files.

#include <cstdint>
#include <optional>
#include <vector>

#include <tandem/dtype.hpp>
#include <tandem/placement.hpp>
#include <tandem/transfer.hpp>

namespace tandem {

/// Positions `begin` to `end` (not included) along one axis; negative ones count from the axis's end, and what lies beyond it is
/// clamped, as in Python.
struct Range {
    std::int64_t begin = 0;
    std::int64_t end = INT64_MAX;
};

/// What of a file is loaded, and to where.
struct LoadOptions {
    /// What the file's void items are ("V2" from bfloat16 writers).
    std::optional<DType> as{};
    MemoryKind kind = MemoryKind::device;
    /// The part of the array that is loaded, by its axes from the first on; further ones are taken whole. Only the bytes that the
    /// part covers are read: runs of them one by one, or together with the gaps between them where those are short: up to
    /// seven times as long as the runs within 16 KiB, and up to 62 times within 4 KiB.
    std::vector<Range> ranges{};
    TransferOptions transfer{};
    /// To memory that can be shared with other processes and devices; see share.hpp.
    bool shareable = false;
};

}  // namespace tandem
