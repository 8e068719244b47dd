#pragma once
// Bytes between files and device memory.

#include <cstddef>
#include <cstdint>
#include <functional>

#include "core/output_file.hpp"
#include "core/transport/source.hpp"
#include "tandem/array.hpp"
#include "tandem/mapped_file.hpp"
#include "tandem/transfer.hpp"

namespace tandem {

/// What is done with bytes on the device once they are there: queued on `queue`, for the bytes from `begin_bytes` on. Called on
/// one thread at a time, for whole items and in any order.
struct Conversion {
    std::size_t item_bytes = 1;
    std::function<void(Queue& queue, std::size_t begin_bytes, std::size_t size_bytes)> convert{};
};

/// Fills `array`, which is dense, with the bytes of `source` from its beginning on; waits. Host memory is bounded by the device's
/// ring. Where the host can write to the array, the bytes are read into place.
void load_bytes(Source& source, const Array& array, const TransferOptions& options = {}, const Conversion& conversion = {});

/// The same with a file's bytes from `offset_bytes` on. Reads with `pread` (but what a copy-on-write mapping holds), so that a
/// file that has become shorter is an error. Where few readers can't keep up with the device's link, a file that is in the page
/// cache is copied from there by the device, if it can (core/driver.hpp: `Device::readers_worth_adopting`).
void load_bytes(const MappedFile& file, std::uint64_t offset_bytes, const Array& array, const TransferOptions& options = {},
                const Conversion& conversion = {});

/// Gives the bytes of `array`, which is dense, to `sink`, from its `offset_bytes` on; waits. Host memory is bounded by the
/// device's ring.
void save_bytes(const Array& array, Sink& sink, std::uint64_t offset_bytes, const TransferOptions& options = {});

/// Appends them to `file`. What fails gives it up.
void save_bytes(const Array& array, OutputFile& file, const TransferOptions& options = {});

}  // namespace tandem
