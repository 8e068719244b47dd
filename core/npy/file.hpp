#pragma once
// What core/ knows of an open .npy file.

#include <optional>
#include <string_view>

#include <tandem/npy.hpp>

namespace tandem::npy {

/// What `file`'s items are, taken as `as` says. Throws invalid_argument where they are not, or are structured.
ItemType item_type(const File& file, std::optional<DType> as);
/// The same by the header alone; `file_name` is for messages.
ItemType item_type(const Header& header, std::string_view file_name, std::optional<DType> as);

/// What a file's items become on a device. The shape is the file's, followed by the dimensions that each item adds; the strides
/// of the former follow the file's order, the latter's are always C's.
struct Loaded {
    DType dtype;
    Shape shape;
    Strides strides_bytes;
};

Loaded loaded_as(const ItemType& type, const Header& header);

}  // namespace tandem::npy
