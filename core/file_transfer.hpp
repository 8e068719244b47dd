#pragma once
// Bytes between files and device memory.

#include <cstdint>

#include "core/output_file.hpp"
#include "tandem/array.hpp"
#include "tandem/mapped_file.hpp"

namespace tandem {

/// Fills `array`, which is dense, with the file's bytes from `offset_bytes` on; waits. Reads with `pread` (but what a
/// copy-on-write mapping holds), so that a file that has become shorter is an error. Host memory is bounded; where host and
/// device share memory, the bytes are read into place.
void load_bytes(const MappedFile& file, std::uint64_t offset_bytes, const Array& array);

/// Appends the bytes of `array`, which is dense, to `file`; waits. Host memory is bounded.
void save_bytes(const Array& array, OutputFile& file);

}  // namespace tandem
