#pragma once
// What the operations must give, computed without the library: integers by their bits, floats in wider arithmetic with one
// rounding at the end, done here on integers.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops.hpp"
#include "tandem/dtype.hpp"

namespace tandem::test {

using Bytes = std::vector<std::byte>;

/// The operation on dense elements; `right` is ignored where there is one input.
Bytes reference(Op op, DType dtype, std::span<const std::byte> left, std::span<const std::byte> right);

/// Deterministic elements: random bits, with each type's special values (infinities, NaN, signed zeros, subnormals, extremes)
/// mixed in.
Bytes make_elements(DType dtype, std::size_t count, std::uint64_t seed);

/// The index of the first element that differs, or -1. NaNs are equal to each other.
std::int64_t first_difference(DType dtype, std::span<const std::byte> actual, std::span<const std::byte> expected);

}  // namespace tandem::test
