#pragma once
// Bytes on their way to a device.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "core/transport/meter.hpp"
#include "core/transport/source.hpp"
#include "tandem/array.hpp"

namespace tandem {

/// A run of bytes of one source, and where they go.
struct LoadJob {
    Source* source = nullptr;
    std::uint64_t source_offset_bytes = 0;
    std::shared_ptr<driver::Memory> memory{};
    std::size_t offset_bytes = 0;  ///< in `memory`
    std::size_t size_bytes = 0;    ///< not 0
    std::byte* host = nullptr;     ///< the destination, where the host can write to it: then nothing is copied
    /// Called once all of the bytes are in place, or on their way in the device's load queue; on one of the threads.
    std::function<void()> done{};
};

/// Moves jobs to a device: several readers take pieces of them in order, read each into a slot of the ring, queue the slot's
/// copy on the device's load queue, and take the next. The caller is one of the readers.
///
/// `next` gives the jobs, one at a time; it may wait, and ends with nothing. Returns when all that it gave is on its way. The
/// first failure ends all readers and is thrown; so does a cancellation. `total_bytes` is what is known of the whole, for the
/// number of readers. Returns how many of the load queues, from the first on, have work of it.
std::size_t run_loads(const Device& device, const std::function<std::optional<LoadJob>()>& next, std::uint64_t total_bytes,
                      Meter& meter);

}  // namespace tandem
