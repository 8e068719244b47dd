#pragma once
// Adopting memory, with the reason at hand where that can't be done in place.

#include <cstdint>
#include <functional>
#include <string>

#include "tandem/adopt.hpp"

namespace tandem {

/// Why elements like these can't be used as the file has them; empty where they can.
std::string improper_reason(DType dtype, bool is_swapped);

/// Makes a file's bytes proper elements, on the device: native byte order, and bools of 0 and 1. Queued.
void make_proper(Queue& queue, const Array& array, bool is_swapped);
/// The same on a queue of its own, where there is something to do; waits.
void make_proper(const Array& array, bool is_swapped);

/// What `load` makes of a file whose elements can't be used as it has them, for `reason`; read-only where the file is. Throws
/// unsupported where they may not be copied: zero copy is required, or they are to be written to in the file.
Array copy_improper(const Device& device, const MappedFile& file, const AdoptOptions& options, const std::string& reason,
                    const std::function<Array()>& load);

/// `size_bytes` of a file from `offset_bytes` on, as `adopt_bytes` adopts it all.
Buffer adopt_file(const Device& device, const MappedFile& file, std::uint64_t offset_bytes, std::uint64_t size_bytes,
                  const AdoptOptions& options);

}  // namespace tandem
