#pragma once
// Bytes on their way from a device to a file.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "core/transport/meter.hpp"
#include "core/transport/sink.hpp"
#include "tandem/array.hpp"

namespace tandem {

/// A run of bytes of a device's memory, and where they go.
struct SaveJob {
    Sink* sink = nullptr;
    std::uint64_t sink_offset_bytes = 0;
    std::shared_ptr<driver::Memory> memory{};
    std::size_t offset_bytes = 0;     ///< in `memory`
    std::size_t size_bytes = 0;       ///< not 0
    const std::byte* host = nullptr;  ///< the bytes, where the host can read them in place
    /// Called once all of the bytes are on their way in the device's save queue, or written; on one of the threads.
    std::function<void()> read{};
};

/// Writes jobs to their sinks: several writers take pieces of them in order, have each copied to a slot of the ring by the
/// device's save queue, and write it while the next one's copy is under way. The caller is one of them, and the only one where
/// the pieces are to be written `in_order`.
///
/// `next` gives the jobs, one at a time; it may wait, and ends with nothing. Returns when everything is written. The first
/// failure ends all writers and is thrown; so does a cancellation.
void run_saves(const Device& device, const std::function<std::optional<SaveJob>()>& next, bool in_order, Meter& meter);

}  // namespace tandem
