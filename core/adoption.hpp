#pragma once
// Adopting memory, with the reason at hand where that can't be done in place.

#include <cstdint>
#include <string>

#include "tandem/adopt.hpp"

namespace tandem {

/// Makes a file's bytes proper elements, on the device: native byte order, and bools of 0 and 1. Waits.
void make_proper(const Array& array, bool is_swapped);

/// Why elements like these can't be used as the file has them; empty where they can.
std::string improper_reason(DType dtype, bool is_swapped);

/// Throws unsupported where improper elements may not be copied: zero copy is required, or they are to be written to in the file.
void check_improper_allowed(const Device& device, const std::string& file_name, FileAccess access, const AdoptOptions& options,
                            const std::string& reason);

/// `size_bytes` of a file from `offset_bytes` on, as `adopt_bytes` adopts it all.
Buffer adopt_file(const Device& device, const MappedFile& file, std::uint64_t offset_bytes, std::uint64_t size_bytes,
                  const AdoptOptions& options);

}  // namespace tandem
