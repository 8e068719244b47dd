#include "core/transport/region.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "tandem/error.hpp"

namespace tandem {
namespace {

// Gaps are read along where that costs less than a call for each run: gaps up to 7 times the runs' length within a few pages, and
// up to 62 times within one, of which the storage reads all anyway. A 64th of a file and less is read in its own bytes alone.
constexpr std::uint64_t max_gap_ratio = 7, max_gap_ratio_in_page = 62;
constexpr std::uint64_t max_merged_distance_bytes = 16384, page_bytes = 4096;

// From this distance on the system is asked not to read ahead: it would read the gaps.
constexpr std::uint64_t min_random_distance_bytes = 65536;

// What is read along goes through this much memory for each reader.
constexpr std::size_t group_bytes = std::size_t{256} << 10U;

Range clamped(const Range& range, std::int64_t length) {
    const auto position = [&](std::int64_t value) {
        return std::clamp<std::int64_t>(value < 0 ? value + length : value, 0, length);
    };
    const std::int64_t begin = position(range.begin);
    return {begin, std::max(begin, position(range.end))};
}

Range range_of(const Shape& shape, const std::vector<Range>& ranges, std::size_t axis) {
    return axis < ranges.size() ? clamped(ranges[axis], shape[axis]) : Range{0, shape[axis]};
}

}  // namespace

Shape shape_of_ranges(const std::string& name, const Shape& shape, const std::vector<Range>& ranges) {
    if (ranges.size() > shape.size()) {
        throw Error(ErrorCode::out_of_range,
                    fmt::format("{}: {} ranges for an array of shape {}", name, ranges.size(), to_string(shape)));
    }
    Shape part(shape.size());
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        const Range range = range_of(shape, ranges, axis);
        part[axis] = range.end - range.begin;
    }
    return part;
}

Region::Region(const Shape& shape, Order order, std::size_t item_bytes, const std::vector<Range>& ranges) {
    const Strides strides = dense_strides(shape, item_bytes, order);
    run_bytes_ = item_bytes;
    bool is_run_whole = true;  // whether the run spans all of the axes inside it
    size_bytes_ = item_bytes;
    // From the innermost axis outwards.
    for (std::size_t i = 0; i < shape.size(); ++i) {
        const std::size_t axis = order == Order::c ? shape.size() - 1 - i : i;
        const Range range = range_of(shape, ranges, axis);
        const auto count = static_cast<std::uint64_t>(range.end - range.begin);
        const auto stride = static_cast<std::uint64_t>(strides[axis]);
        offset_bytes_ += static_cast<std::uint64_t>(range.begin) * stride;
        size_bytes_ *= count;
        if (is_run_whole) {
            run_bytes_ *= count;
        } else if (count != 1) {
            axes_.insert(axes_.begin(), {count, stride});
        }
        is_run_whole = is_run_whole && count == static_cast<std::uint64_t>(shape[axis]);
    }
}

Region::Group Region::group_at(std::uint64_t position, std::size_t max_bytes) const {
    std::uint64_t run = position / run_bytes_;
    Group group{offset_bytes_, 0, static_cast<std::size_t>(position % run_bytes_), 1};
    group.offset_bytes += group.skip_bytes;
    for (std::size_t i = axes_.size(); i-- > 0;) {
        const Axis& axis = axes_[i];
        const std::uint64_t index = run % axis.count;
        group.offset_bytes += index * axis.stride_bytes;
        run /= axis.count;
        if (i + 1 != axes_.size()) continue;
        group.distance_bytes = axis.stride_bytes;
        const std::uint64_t gap = axis.stride_bytes - run_bytes_;
        const std::uint64_t max_ratio = axis.stride_bytes <= page_bytes ? max_gap_ratio_in_page : max_gap_ratio;
        if (gap > max_ratio * run_bytes_ || axis.stride_bytes > max_merged_distance_bytes) continue;
        const std::uint64_t fit = max_bytes < run_bytes_ ? 1 : (max_bytes - run_bytes_) / axis.stride_bytes + 1;
        group.count = static_cast<std::size_t>(std::min(axis.count - index, fit));
    }
    return group;
}

void RegionSource::read(std::uint64_t offset_bytes, std::span<std::byte> destination) {
    // Threads that read by one descriptor wait for each other to count its uses; with small runs, most of the time.
    const FileDescriptor own(file_.in_memory() ? -1 : open_again(file_, 0));
    const auto fetch = [&](std::uint64_t at, std::span<std::byte> to) {
        const std::uint64_t first = offset_bytes_ + at;
        if (is_private(file_) || !own.is_open() || read_fully_at(own.number(), first, to, file_.path()) < to.size())
            read_mapped(file_, first, to);  // which also says what is missing
    };
    if (own.is_open() && region_.group_at(offset_bytes, group_bytes).distance_bytes >= min_random_distance_bytes)
        static_cast<void>(::posix_fadvise(own.number(), 0, 0, POSIX_FADV_RANDOM));
    std::vector<std::byte> together;
    while (!destination.empty()) {
        const Region::Group group = region_.group_at(offset_bytes, group_bytes);
        const std::size_t run = region_.run_bytes();
        if (group.count == 1) {
            const std::size_t bytes = std::min(run - group.skip_bytes, destination.size());
            fetch(group.offset_bytes, destination.first(bytes));
            destination = destination.subspan(bytes);
            offset_bytes += bytes;
            continue;
        }
        const std::size_t first = run - group.skip_bytes;
        const std::size_t wanted = std::min(first + (group.count - 1) * run, destination.size());
        // From the first byte that is wanted to the last.
        const std::size_t last_run = (wanted + group.skip_bytes - 1) / run;
        const std::size_t span =
            last_run * group.distance_bytes + (wanted + group.skip_bytes - last_run * run) - group.skip_bytes;
        together.resize(span);
        fetch(group.offset_bytes, together);
        for (std::size_t done = 0, from = 0; done < wanted;) {
            const std::size_t in_run = (done + group.skip_bytes) % run;
            const std::size_t bytes = std::min(run - in_run, wanted - done);
            std::memcpy(destination.data() + done, together.data() + from, bytes);
            done += bytes;
            from += bytes + (group.distance_bytes - run);
        }
        destination = destination.subspan(wanted);
        offset_bytes += wanted;
    }
}

}  // namespace tandem
