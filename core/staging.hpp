#pragma once
// Bringing elements into the form, and to the place, from where they can be moved on.

#include <cstddef>
#include <functional>
#include <span>

#include "tandem/array.hpp"

namespace tandem {

enum class DenseOrder : std::uint8_t { c, any };

/// `array` itself where it is dense in an accepted order, else a dense copy in C order, for which it waits.
Array dense(const Array& array, DenseOrder accepted);

/// Bytes that are moved at a time: enough for the link, few enough to stay in the processor's caches while two pieces are in use.
inline constexpr std::size_t piece_bytes = std::size_t{4} << 20U;

/// Fills `array`, which is dense, with what `produce(offset_bytes, piece)` puts into host memory, piece by piece and in order;
/// waits. One piece is produced while the one before it is on its way to the device, so host memory is two pieces. What `produce`
/// throws is passed on.
void fill_in_pieces(const Array& array, const std::function<void(std::size_t offset_bytes, std::span<std::byte> piece)>& produce);

}  // namespace tandem
