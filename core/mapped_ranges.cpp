#include "core/mapped_ranges.hpp"

#include <algorithm>

namespace tandem {

bool MappedRanges::conflicts_locked(std::size_t begin, std::size_t end, Access access) const noexcept {
    return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
        return begin < range.end && range.begin < end && (access != Access::read || range.access != Access::read);
    });
}

bool MappedRanges::add(std::size_t offset_bytes, std::size_t size_bytes, Access access) {
    const std::lock_guard lock(mutex_);
    if (conflicts_locked(offset_bytes, offset_bytes + size_bytes, access)) return false;
    ranges_.push_back({offset_bytes, offset_bytes + size_bytes, access});
    count_.store(ranges_.size(), std::memory_order_relaxed);
    return true;
}

void MappedRanges::remove(std::size_t offset_bytes, std::size_t size_bytes, Access access) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& range) {
        return range.begin == offset_bytes && range.end == offset_bytes + size_bytes && range.access == access;
    });
    if (found != ranges_.end()) ranges_.erase(found);
    count_.store(ranges_.size(), std::memory_order_relaxed);
}

bool MappedRanges::conflicts(std::size_t offset_bytes, std::size_t size_bytes, Access access) const {
    if (are_none()) return false;
    const std::lock_guard lock(mutex_);
    return conflicts_locked(offset_bytes, offset_bytes + size_bytes, access);
}

}  // namespace tandem
