#pragma once
// What the machine and the drivers can do without the library: the calls themselves, in parallel.

#include <cstdint>
#include <filesystem>

#include <tandem/device.hpp>

#include "tools/measurement.hpp"
#include "tools/scratch.hpp"

namespace tandem::command {

// Each owns the memory that it needs, which is touched before it runs. `threads` is how many threads share the work.

/// From one part of the host's memory to another, past the caches where the processor can; `size_bytes` are copied, and counted
/// twice: read and written.
Contender memory_copy(std::uint64_t size_bytes, unsigned threads);

/// `pread` of a file that is in the page cache, into memory that stays in the processor's caches. `file` must outlive it.
Contender warm_read(const ScratchFile& file, unsigned threads);
/// The same around the page cache (O_DIRECT). There is no figure where the filesystem has no such reads.
Contender cold_read(const ScratchFile& file, unsigned threads);

/// `pwrite` of a new file in `folder`, which is removed; with `flushes`, and fsync.
Contender file_write(const std::filesystem::path& folder, std::uint64_t size_bytes, unsigned threads, bool flushes);

/// The driver's copies between pinned memory and the device's; throws as `empty` does.
Contender copy_to_device(const Device& device, std::uint64_t size_bytes);
Contender copy_from_device(const Device& device, std::uint64_t size_bytes);
/// Within the device's memory; `size_bytes` are copied, and counted twice: read and written.
Contender copy_in_device(const Device& device, std::uint64_t size_bytes);

}  // namespace tandem::command
