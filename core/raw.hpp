#pragma once
// What raw files hold.

#include <cstdint>
#include <optional>
#include <string>

#include "tandem/dtype.hpp"
#include "tandem/shape.hpp"

namespace tandem::raw {

/// The shape of the elements from `offset_bytes` on in a file of `file_bytes`: the one asked for, or all there are. Throws
/// bad_file, naming the file as `name`, where the bytes are too few, or no multiple of an element.
Shape shape_in_file(const std::string& name, std::uint64_t file_bytes, DType dtype, const std::optional<Shape>& shape,
                    std::uint64_t offset_bytes);

}  // namespace tandem::raw
