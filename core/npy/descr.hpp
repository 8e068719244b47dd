#pragma once
// The item type of a .npy header, as NumPy reads it.

#include <vector>

#include <tandem/npy_header.hpp>

#include "core/npy/literal.hpp"

namespace tandem::npy {

/// An item type and, where it is structured, its fields.
struct ItemDescription {
    ItemType type;
    std::vector<Field> fields;
};

/// What `node`, the value of 'descr', describes: a type code, a list of fields, or a tuple of a type and a sub-array's shape.
/// Throws bad_file for everything that NumPy refuses, and for Python objects, long doubles and multi-byte numbers in no byte
/// order.
ItemDescription parse_descr(const Literal& literal, const Literal::Node& node);

/// The dimensions that `node`, a tuple or list of whole numbers, says. `what` names them in messages: "shape".
/// Throws bad_file.
Shape parse_dimensions(const Literal& literal, const Literal::Node& node, std::string_view what);

/// `element_count(shape, item_bytes)`, with bad_file at `node` for its errors.
std::uint64_t checked_element_count(const Literal& literal, const Literal::Node& node, const Shape& shape,
                                    std::size_t item_bytes);

}  // namespace tandem::npy
