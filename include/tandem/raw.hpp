#pragma once
// Arrays from and to files that hold elements and nothing else.

#include <cstdint>
#include <filesystem>
#include <optional>

#include <tandem/adopt.hpp>
#include <tandem/array.hpp>
#include <tandem/load.hpp>
#include <tandem/mapped_file.hpp>

namespace tandem::raw {

/// The elements from `offset_bytes` to the end of the file, or as many as `shape` asks for, in this machine's byte order, or the
/// part of them that `options.ranges` name, copied to memory of `options.kind`; waits. Without `shape` the array has one
/// dimension. `options.as` is not for raw files. Throws bad_file where the bytes are no multiple of the element size, or fewer
/// than `shape` needs; out_of_range for more ranges than axes; io; out_of_memory; cancelled.
Array load(const Device& device, const MappedFile& file, DType dtype, const std::optional<Shape>& shape = {},
           std::uint64_t offset_bytes = 0, const LoadOptions& options = {});
/// The same for the file at `path`.
Array load(const Device& device, const std::filesystem::path& path, DType dtype, const std::optional<Shape>& shape = {},
           std::uint64_t offset_bytes = 0, const LoadOptions& options = {});

/// The same elements in the file itself, in place where the device can, as `npy::map`.
Array map(const Device& device, const std::filesystem::path& path, DType dtype, const std::optional<Shape>& shape = {},
          std::uint64_t offset_bytes = 0, FileAccess access = FileAccess::read, const AdoptOptions& options = {});

/// Writes the elements in C order. Waits; complete or not at all. Throws io, cancelled.
void save(const std::filesystem::path& path, const Array& array, const TransferOptions& transfer = {});

}  // namespace tandem::raw
