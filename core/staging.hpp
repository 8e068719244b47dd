#pragma once
// Bringing elements into the form, and to the place, from where they can be moved on.

#include <cstdint>

#include "tandem/array.hpp"

namespace tandem {

enum class DenseOrder : std::uint8_t { c, any };

/// `array` itself where it is dense in an accepted order, else a dense copy in C order, for which it waits.
Array dense(const Array& array, DenseOrder accepted);

}  // namespace tandem
