#pragma once
// A part of an array in a file, as the bytes that it covers.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/transport/source.hpp"
#include "tandem/load.hpp"
#include "tandem/shape.hpp"

namespace tandem {

/// The shape that `ranges` leave of `shape`, of an array in the file `name`. Throws out_of_range for more ranges than axes.
Shape shape_of_ranges(const std::string& name, const Shape& shape, const std::vector<Range>& ranges);

/// The bytes that a region covers, in the order in which they lie in the file: runs of equal length at regular distances, along
/// any number of axes.
class Region {
public:
    /// Of an array of `shape`, dense in `order`, with items of `item_bytes`.
    Region(const Shape& shape, Order order, std::size_t item_bytes, const std::vector<Range>& ranges);

    [[nodiscard]] std::uint64_t size_bytes() const noexcept { return size_bytes_; }
    [[nodiscard]] bool is_one_run() const noexcept { return axes_.empty(); }
    /// Of the region's first byte in the array.
    [[nodiscard]] std::uint64_t offset_bytes() const noexcept { return offset_bytes_; }

    /// Runs that are read together: `count` of them at equal distances, the first from its byte `skip_bytes` on.
    struct Group {
        std::uint64_t offset_bytes = 0;  ///< in the array, of the first byte that is wanted
        std::uint64_t distance_bytes = 0;
        std::size_t skip_bytes = 0;
        std::size_t count = 1;
    };
    /// The group that holds the region's byte `position`, with at most `max_bytes` from its first byte to its last.
    [[nodiscard]] Group group_at(std::uint64_t position, std::size_t max_bytes) const;
    [[nodiscard]] std::size_t run_bytes() const noexcept { return run_bytes_; }

private:
    struct Axis {
        std::uint64_t count;
        std::uint64_t stride_bytes;
    };
    std::uint64_t offset_bytes_ = 0;
    std::uint64_t size_bytes_ = 0;
    std::size_t run_bytes_ = 0;
    std::vector<Axis> axes_;  // outside the runs, outermost first
};

/// A region of an array that begins at `offset_bytes` of a file. Throws as `MappedFile::read`.
class RegionSource final : public Source {
public:
    RegionSource(MappedFile file, std::uint64_t offset_bytes, Region region)
        : file_(std::move(file)), offset_bytes_(offset_bytes), region_(std::move(region)) {}
    [[nodiscard]] std::string name() const override { return printable_path(file_.path()); }
    void read(std::uint64_t offset_bytes, std::span<std::byte> destination) override;

private:
    const MappedFile file_;
    const std::uint64_t offset_bytes_;
    const Region region_;
};

}  // namespace tandem
