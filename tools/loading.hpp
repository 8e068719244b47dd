#pragma once
// What inputs hold: their elements as arrays, and where they lie.

#include <cstddef>
#include <cstdint>

#include <tandem/tandem.hpp>

#include "tools/inputs.hpp"

namespace tandem::command {

/// The elements that `input` names, for computing with them, in memory of `kind`. `adopted` is the file itself, where the device
/// can use that in place; else the device's memory, and the array's residency says why. With `strict`, bytes behind the data are
/// refused. Structured, text and untyped items and dates are errors that say how to go on. What can be found wrong by the header
/// alone is, before any data is read; what follows the data in a stream, or in a file behind a descriptor, is left there to be
/// read by others.
Array load(const Device& device, const Input& input, const RawOptions& options, bool strict, MemoryKind kind);
/// The same in memory that can be shared with other processes; not for `adopted`.
Array load_shareable(const Device& device, const Input& input, const RawOptions& options, bool strict, MemoryKind kind);

/// The part of a file that holds one input's elements.
struct Region {
    MappedFile file;
    std::uint64_t offset_bytes = 0;  ///< of the first item
    std::uint64_t size_bytes = 0;    ///< of all items
    std::size_t item_bytes = 1;
    std::size_t element_offset_bytes = 0;  ///< of the elements in an item; not 0 for fields alone
    std::size_t element_bytes = 1;         ///< of the elements in an item
    DType dtype = DType::uint8;
    bool swapped = false;  ///< the file's byte order is not this machine's
    bool is_time = false;  ///< dates or durations, taken as integers

    [[nodiscard]] std::uint64_t trailing_bytes() const { return file.size_bytes() - offset_bytes - size_bytes; }
};

/// Where the elements lie that `load` would give, from the header alone; the same checks and errors. Not for streams.
Region find_region(const Input& input, const RawOptions& options, bool strict);

/// Bytes behind the elements that `load` would give. Inflates no more than a header. Not for streams.
std::uint64_t count_trailing_bytes(const Input& input, const RawOptions& options);

/// A raw stream's data and how much of the stream was found.
struct RawExtent {
    std::uint64_t data_bytes = 0;
    std::uint64_t found_bytes = 0;  ///< from the stream's beginning
};

/// Reads the raw stream `input` without keeping it, to `further_bytes` behind its data, or to its end without a --shape. Throws
/// bad_file where it ends before its data does.
RawExtent measure_raw_stream(const Input& input, const RawOptions& options, std::uint64_t further_bytes);

}  // namespace tandem::command
