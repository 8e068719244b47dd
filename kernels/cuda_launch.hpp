#pragma once
// What the CUDA kernels and backends/cuda agree on: how many threads a launch has, and which elements each of them does.

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/elementwise.hpp"

namespace tandem::cuda {

/// How a kernel asks the caches to treat what it reads or writes.
enum class Hint : unsigned char {
    none,
    streaming,  ///< first to be evicted: it will not be used again soon
};

/// The shape of a contiguous kernel. A thread moves `thread_bytes` of each operand, in accesses that lie a whole block apart, so
/// that each access of a warp is one contiguous piece and several are in flight.
struct Tuning {
    unsigned block_threads;
    unsigned thread_bytes;
    Hint load;
    Hint store;
};

/// The one place that decides it.
inline constexpr Tuning tuning{256, 16, Hint::none, Hint::none};

/// Accesses narrower than 16 bytes are not unrolled beyond this, which keeps the code small.
inline constexpr unsigned max_units_per_thread = 8;

/// What one thread loads, computes and stores at a time: an access, or an element where that is larger.
constexpr unsigned unit_bytes(unsigned width, unsigned item_bytes) noexcept {
    return width > item_bytes ? width : item_bytes;
}

constexpr unsigned units_per_thread(unsigned unit, unsigned thread_bytes = tuning.thread_bytes) noexcept {
    const unsigned units = thread_bytes / unit;
    return units < 1 ? 1 : units > max_units_per_thread ? max_units_per_thread : units;
}

/// Threads of a strided kernel's block, and the positions along the innermost dimension that each does for one row.
inline constexpr unsigned strided_block_threads = 256;
inline constexpr unsigned strided_positions = 4;

struct Launch {
    unsigned grid_x = 1, grid_y = 1;
    unsigned block_x = 1, block_y = 1;
};

inline constexpr std::int64_t max_grid_x = 0x7fffffff;
inline constexpr std::int64_t max_grid_y = 65535;

constexpr std::int64_t divide_up(std::int64_t count, std::int64_t size) noexcept {
    return count / size + (count % size != 0 ? 1 : 0);
}

/// One thread block for each tile of units; the first block also does the elements before and after the packs.
constexpr Launch contiguous_launch(const PackPlan& plan, unsigned item_bytes, const Tuning& with = tuning) noexcept {
    const unsigned unit = unit_bytes(plan.width, item_bytes);
    const std::int64_t units = plan.packs * static_cast<std::int64_t>(pack_bytes / unit);
    const std::int64_t tiles = divide_up(units, std::int64_t{with.block_threads} * units_per_thread(unit, with.thread_bytes));
    return {static_cast<unsigned>(std::clamp<std::int64_t>(tiles, 1, max_grid_x)), 1, with.block_threads, 1};
}

/// Threads of a reduction's block; the packs that each loads before it uses the first; and the blocks for each multiprocessor, as
/// many as run at a time.
inline constexpr unsigned reduce_block_threads = 256;
inline constexpr unsigned reduce_packs_in_flight = 4;
inline constexpr unsigned reduce_blocks_per_unit = 4;

/// At most `max_blocks`, each of which leaves a partial result.
constexpr Launch reduce_contiguous_launch(const PackPlan& plan, std::int64_t max_blocks) noexcept {
    const std::int64_t blocks = divide_up(plan.packs, std::int64_t{reduce_block_threads} * reduce_packs_in_flight);
    return {static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, max_blocks)), 1, reduce_block_threads, 1};
}

/// Blocks as wide as the innermost dimension asks for. A wide one still takes several rows where there are, since a row of an
/// operand that runs across the output's order shares its memory sectors with the rows beside it.
constexpr Launch strided_launch(std::int64_t rows, std::int64_t inner) noexcept {
    constexpr std::int64_t threads = strided_block_threads;
    const auto inner_power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::min(inner, threads))));
    const auto rows_power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::min(rows, threads))));
    const std::int64_t block_y = std::min(rows_power, std::max<std::int64_t>(8, threads / inner_power));
    const std::int64_t block_x = std::min(inner_power, threads / block_y);
    const std::int64_t grid_x = std::min(divide_up(inner, block_x * strided_positions), max_grid_x);
    const std::int64_t grid_y = std::min(divide_up(rows, block_y), max_grid_y);
    return {static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y), static_cast<unsigned>(block_x),
            static_cast<unsigned>(block_y)};
}

/// As `strided_launch`, in at most `max_blocks`. Every block has `reduce_block_threads`, with work or not.
constexpr Launch reduce_strided_launch(std::int64_t rows, std::int64_t inner, std::int64_t max_blocks) noexcept {
    static_assert(reduce_block_threads == strided_block_threads);
    Launch launch = strided_launch(rows, inner);
    launch.block_y = reduce_block_threads / launch.block_x;
    launch.grid_x = static_cast<unsigned>(std::min<std::int64_t>(launch.grid_x, max_blocks));
    launch.grid_y =
        static_cast<unsigned>(std::clamp<std::int64_t>(divide_up(rows, launch.block_y), 1, max_blocks / launch.grid_x));
    return launch;
}

}  // namespace tandem::cuda
