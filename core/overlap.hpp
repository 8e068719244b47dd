#pragma once
// Where the elements of arrays lie in memory, and whether they share bytes.

#include <cstdint>

#include "tandem/array.hpp"

namespace tandem {

/// How the elements of two arrays lie to each other in memory.
enum class Overlap : std::uint8_t {
    none,     ///< no byte belongs to both
    same,     ///< element for element the same bytes
    partial,  ///< anything else
};

// Whether some byte is shared is a question about sums of strides, which is hard where there are many that fit together in no
// simple way. The two below are exact for slices, steps, transposes and whatever else is a few dimensions; a layout of which
// `overlap_steps` steps of search don't tell counts as one that shares bytes. Neither allocates.

inline constexpr int overlap_steps = 10'000;

/// For arrays of one shape. Arrays that share bytes are `same` where start and layout are the same, else `partial`.
Overlap overlap(const Array& left, const Array& right) noexcept;

/// True where no byte of `array` belongs to two of its elements.
bool elements_are_apart(const Array& array) noexcept;

/// The bytes between the lowest and the highest of an array, from the start of its memory.
struct ByteRange {
    std::int64_t first, end;
};
ByteRange byte_range(const Array& array) noexcept;

}  // namespace tandem
