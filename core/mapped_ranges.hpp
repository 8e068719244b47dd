#pragma once
// Which parts of a memory the host is looking at.

#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

#include "tandem/buffer.hpp"

namespace tandem {

/// The host views of one memory. While one is open the device must not write to its bytes, nor read what the host may be writing;
/// core/ asks here before each launch. Costs a load where nothing is mapped. Thread safe.
class MappedRanges {
public:
    /// Notes a view. False, and nothing noted, where it overlaps another and either writes.
    bool add(std::size_t offset_bytes, std::size_t size_bytes, Access access);
    void remove(std::size_t offset_bytes, std::size_t size_bytes, Access access) noexcept;

    [[nodiscard]] bool are_none() const noexcept { return count_.load(std::memory_order_relaxed) == 0; }
    /// True where work on the range conflicts with an open view: either of them writes.
    [[nodiscard]] bool conflicts(std::size_t offset_bytes, std::size_t size_bytes, Access access) const;

private:
    struct Range {
        std::size_t begin, end;
        Access access;
    };
    [[nodiscard]] bool conflicts_locked(std::size_t begin, std::size_t end, Access access) const noexcept;

    mutable std::mutex mutex_;
    std::atomic<std::size_t> count_{0};
    std::vector<Range> ranges_;
};

}  // namespace tandem
