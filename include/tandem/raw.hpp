#pragma once
// Arrays from and to files that hold elements and nothing else.

#include <cstdint>
#include <filesystem>
#include <optional>

#include <tandem/adopt.hpp>
#include <tandem/array.hpp>
#include <tandem/mapped_file.hpp>

namespace tandem::raw {

/// The elements from `offset_bytes` to the end of the file, or as many as `shape` asks for, in this machine's byte order, copied
/// to memory of `kind`; waits. Without `shape` the array has one dimension. Throws bad_file where the bytes are no multiple of
/// the element size, or fewer than `shape` needs; io; out_of_memory.
Array load(const Device& device, const std::filesystem::path& path, DType dtype, const std::optional<Shape>& shape = {},
           std::uint64_t offset_bytes = 0, MemoryKind kind = MemoryKind::device);

/// The same elements in the file itself, in place where the device can, as `npy::map`.
Array map(const Device& device, const std::filesystem::path& path, DType dtype, const std::optional<Shape>& shape = {},
          std::uint64_t offset_bytes = 0, FileAccess access = FileAccess::read, const AdoptOptions& options = {});

/// Writes the elements in C order. Waits; complete or not at all. Throws io.
void save(const std::filesystem::path& path, const Array& array);

}  // namespace tandem::raw
