#pragma once
// The header of a .npy file: what it says, read and written without touching the data.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/dtype.hpp>
#include <tandem/shape.hpp>

namespace tandem::npy {

/// What one element, or one field of a structured element, is made of.
struct ItemType {
    std::string descr;           ///< as the file writes it: "<f4", ">M8[ns]", "|S5", "[('x', '<f4'), ('y', '<f4')]"
    std::optional<DType> dtype;  ///< the library's type; empty for text, void and structured items. M8 and m8 are int64
    bool swapped = false;        ///< the byte order is not this machine's; never set where a component is one byte
    std::size_t item_bytes = 0;  ///< bytes of one item, sub-array included; may be 0 ("|S0", "|V0")
    std::string unit;            ///< of "M8[unit]" and "m8[unit]", such as "ns" or "25s"; else empty
    Shape subarray;              ///< of a sub-array type; appended to the array's shape
};

/// One field of a structured type. Padding fields (an empty name and a void type) are not listed, as in NumPy.
struct Field {
    std::string name;   ///< a nested field's path is written with dots by `find_field`
    std::string title;  ///< the optional second name, else empty
    ItemType type;
    std::size_t offset_bytes = 0;  ///< from the start of the enclosing item
    std::vector<Field> fields;     ///< of a nested structure
};

/// A .npy header, checked. Nothing in it refers to the file any more.
struct Header {
    int major = 1;
    int minor = 0;
    ItemType type;
    std::vector<Field> fields;  ///< of a structured type, else empty
    Shape shape;                ///< as in the file; sub-array dimensions not included
    bool fortran_order = false;
    std::uint64_t data_offset = 0;  ///< bytes from the start of the file to the first element
    std::uint64_t data_bytes = 0;   ///< bytes of all elements
};

/// The longest header accepted, in bytes. NumPy refuses headers over 10,000 characters unless told otherwise; a structured type
/// of a few thousand fields needs more, and 1 MiB still bounds what a hostile file can make a reader allocate.
inline constexpr std::size_t max_header_bytes = std::size_t{1} << 20U;

/// Bytes that `header_bytes` needs to tell how long a header is: magic, version and the longer of the two length fields.
inline constexpr std::size_t prologue_bytes = 12;

/// How many bytes from the start of the file the header takes, prologue included, from the file's first bytes
/// (`prologue_bytes` of them, or all where the file is shorter). `file_name` is only for messages.
/// Throws bad_file: no .npy magic (the message names the likely type), a version other than 1.0, 2.0 and 3.0, a length over
/// `max_header_bytes`.
std::size_t header_bytes(std::span<const std::byte> start, std::string_view file_name);

/// The header that `start`, which holds at least `header_bytes(start)` bytes of the file, says. Does not know the file's
/// size, so whether the data is all there is checked by whoever opens it.
/// Throws bad_file with file name, offset, what was needed and what was found.
Header parse_header(std::span<const std::byte> start, std::string_view file_name);

/// The header of the file at `path`; reads the header alone, however large the file is.
/// Throws io where the file can't be opened or read (a directory too), bad_file as `parse_header`, and bad_file where the
/// file ends before the data does.
Header read_header(const std::filesystem::path& path);

/// The field that `path` names, nested ones with dots: "position.x"; its offset is from the start of the whole item. A title
/// names a field as its name does, and the longest name that fits is taken where names have dots themselves. Throws out_of_range,
/// naming the fields there are; unsupported for a field inside a sub-array of structures, which has no one offset (a sub-array
/// around the whole item is in `header.type.subarray` and does not count).
Field find_field(const Header& header, std::string_view path);

/// The bytes of a header for `dtype` elements, padded so that the data starts at a multiple of `alignment`, which is a power
/// of two, 64 or more (the page size makes the data mappable in place). Version 1.0, or 2.0 where the length needs it.
/// Byte for byte what NumPy writes for alignment 64. NumPy's own reader takes headers of up to 10,000 characters unless told
/// otherwise, so that alignments over 8192 are for other readers. Throws invalid_argument for another alignment or one that needs
/// more than `max_header_bytes`, and as `element_count` for a shape.
std::string format_header(DType dtype, const Shape& shape, bool fortran_order, std::size_t alignment = 64);

}  // namespace tandem::npy
