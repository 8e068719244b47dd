#pragma once
// What core/ knows of an open .npy file.

#include <optional>

#include <tandem/npy.hpp>

namespace tandem::npy {

/// What `file`'s items are, taken as `as` says. Throws invalid_argument where they are not, or are structured.
ItemType item_type(const File& file, std::optional<DType> as);

}  // namespace tandem::npy
