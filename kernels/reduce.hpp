#pragma once
// reduce: one value from all elements, their sum, smallest or largest.
//
// Shapes   any, any strides; zero elements never get here.
// Types    every dtype; the result's is `result_dtype`.
// Meaning  sums of integers wrap modulo 2^64; bool counts as 0 or 1, where any non-zero byte is 1. Floating point is summed by
// Sum2
//          (Ogita, Rump, Oishi 2005) in blocks of `block_elements`, whose results, pairs of numbers, are added by
//          AccurateDWPlusDW (Joldes, Muller, Popescu 2017), and rounded once at the end: float64 in pairs of double, the others
//          in pairs of float. Complex sums are two sums. The smallest and the largest are NaN where an element is; complex
//          numbers are ordered by real, then imaginary part.
// Error    |result - exact| <= u |exact| + (g^2 + 3 k v^2) sum(|x|): v is the unit roundoff of float or double, u that of the
//          result's type; g = b v / (1 - b v) with b = block_elements, by Sum2's bound (Proposition 4.5 there); k is how many
//          pairs are added one onto the other: one for each block, and fewer than 2200 for each call.
// Exact    integers, smallest and largest: the same bits on every backend and as NumPy, but for the sign of zero and what is
//          inside a NaN. Floating point: the same on every backend wherever the sums of pairs are exact.
//
// A call reduces its elements to at most `max_partials` partial results, each by a group of its own, and these and what earlier
// calls have left to one. All of it is in the state's memory.

#include <cstddef>

#include "kernels/elementwise.hpp"
#include "tandem/reduce_op.hpp"

namespace tandem {

/// Elements that are summed before their sum and its error are made a pair.
inline constexpr unsigned block_elements = 256;

// The state: the running partial result, the value that it stands for, and a call's partial results.
inline constexpr std::size_t partial_bytes = 32;
inline constexpr std::size_t result_offset_bytes = 32;
inline constexpr std::size_t partials_offset_bytes = 64;
inline constexpr unsigned max_partials = 2048;

/// The type whose kernels reduce `dtype`.
constexpr DType kernel_dtype(ReduceOp op, DType dtype) noexcept {
    return op == ReduceOp::sum && dtype == DType::int64 ? DType::uint64 : dtype;
}

}  // namespace tandem
