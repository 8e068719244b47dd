#pragma once
// Shapes and strides.

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

/// Elements along each dimension, outermost first; `{}` is one element (a scalar). Never negative.
using Shape = std::vector<std::int64_t>;

/// Bytes from one element to the next along each dimension; may be zero or negative.
using Strides = std::vector<std::int64_t>;

/// The most dimensions an array may have; NumPy's own limit since 2.0.
inline constexpr std::size_t max_dimensions = 64;

/// Which index runs fastest in memory: the last (C) or the first (Fortran).
enum class Order : std::uint8_t { c, fortran };

/// `(3, 4)`, `(3,)`, `()`: as Python writes a shape.
std::string to_string(const Shape& shape);

/// The number of elements of `shape`. Throws invalid_argument for a negative dimension or more than
/// `max_dimensions` of them, out_of_range where the non-zero dimensions' product times `item_bytes` passes 2^63 - 1
/// (also beside a zero dimension, as NumPy has it).
std::int64_t element_count(const Shape& shape, std::size_t item_bytes = 1);

/// The strides of a dense array of `shape` in `order`.
Strides dense_strides(const Shape& shape, std::size_t item_bytes, Order order = Order::c);

}  // namespace tandem
