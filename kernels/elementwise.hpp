#pragma once
// What every elementwise kernel of every backend agrees on: the call, and how contiguous data is walked.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/ops.hpp"
#include "tandem/dtype.hpp"

namespace tandem {

/// The most dimensions that a kernel walks by itself; core/ loops over the ones beyond.
inline constexpr int max_kernel_dimensions = 6;

/// One output and at most two inputs, in this order everywhere.
inline constexpr int max_operands = 3;

/// How a strided kernel finds its elements: the same bytes in CUDA's and OpenCL's parameter space, so plain integers
/// without padding. Dimensions run outermost first; `dimensions` is at least 1.
struct StridedLayout {
    std::int64_t dimensions;
    std::int64_t shape[max_kernel_dimensions];
    std::int64_t strides_bytes[max_operands][max_kernel_dimensions];
};
static_assert(sizeof(StridedLayout) ==
              sizeof(std::int64_t) * static_cast<std::size_t>(1 + max_kernel_dimensions * (1 + max_operands)));

/// Contiguous data is walked in packs of 16 bytes, each read and written as 16 / width accesses of `width` bytes.
inline constexpr std::size_t pack_bytes = 16;

/// How many elements lie before the first pack, and how wide the accesses to the packs may be.
struct PackPlan {
    std::int64_t head = 0;   ///< elements before the packs, done one by one
    std::int64_t packs = 0;  ///< whole packs
    std::int64_t tail = 0;   ///< elements after them, done one by one
    unsigned width = 1;      ///< 16, 8, 4, 2 or 1
};

/// The plan for `count` elements of `item_bytes` at `addresses`: where all addresses share their position within a pack, the head
/// brings them to its start and accesses are 16 bytes wide; else they are as wide as the worst pair allows.
constexpr PackPlan plan_packs(const std::uint64_t* addresses, int operands, std::size_t item_bytes, std::int64_t count) noexcept {
    PackPlan plan;
    std::uint64_t differing = 0;
    for (int i = 1; i < operands; ++i)
        differing |= addresses[0] ^ addresses[i];
    const std::uint64_t misalignment = addresses[0] % pack_bytes;
    const std::uint64_t gap = (pack_bytes - misalignment) % pack_bytes;
    if (differing % pack_bytes == 0 && gap % item_bytes == 0) {
        plan.head = static_cast<std::int64_t>(gap / item_bytes);
        plan.width = pack_bytes;
    } else {
        const std::uint64_t low_bits = (differing | addresses[0]) % pack_bytes;
        plan.width = low_bits == 0 ? unsigned{pack_bytes} : 1U << static_cast<unsigned>(std::countr_zero(low_bits));
    }
    if (plan.head > count) plan.head = count;
    const auto per_pack = static_cast<std::int64_t>(pack_bytes / item_bytes);
    plan.packs = (count - plan.head) / per_pack;
    plan.tail = count - plan.head - plan.packs * per_pack;
    return plan;
}

/// The type whose kernel computes `op` for `dtype`. Two's complement makes signed and unsigned addition one thing, and a
/// move or a swap looks at the size alone, so that fewer kernels are compiled for the same set of types.
constexpr DType kernel_dtype(Op op, DType dtype) noexcept {
    const bool bits_only = op == Op::copy || op == Op::byteswap;
    switch (dtype) {
        case DType::int8:
            return DType::uint8;
        case DType::int16:
            return DType::uint16;
        case DType::int32:
            return DType::uint32;
        case DType::int64:
            return DType::uint64;
        case DType::float16:
        case DType::bfloat16:
            return bits_only ? DType::uint16 : dtype;
        case DType::float32:
            return bits_only ? DType::uint32 : dtype;
        case DType::float64:
            return bits_only ? DType::uint64 : dtype;
        default:
            return dtype;
    }
}

}  // namespace tandem
