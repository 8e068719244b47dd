#pragma once
// NumPy's type codes: "<f4", "|S5", ">M8[ns]", "float32".

#include <string>
#include <string_view>

#include <tandem/npy_header.hpp>

namespace tandem::npy {

/// A type code read: the item type, or why it can't be.
struct TypeCode {
    ItemType type;
    char kind = '\0';     ///< NumPy's: b i u f c m M S U V; '\0' where `problem` is set
    bool sized = false;   ///< false for a text or void type whose width may follow: "S" in ('S', 5)
    std::string problem;  ///< "a type of plain bytes needed, Python objects ('|O') found", or empty
};

TypeCode parse_type_code(std::string_view code);

}  // namespace tandem::npy
