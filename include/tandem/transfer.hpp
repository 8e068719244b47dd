#pragma once
// Moving bytes between files and devices: how far it has come, how to end it, and what it may take.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>

#include <tandem/device.hpp>

namespace tandem {

/// How far a transfer has come.
struct Progress {
    std::uint64_t done_bytes = 0;
    std::uint64_t total_bytes = 0;
};

/// What a caller wants to know of a transfer, and how to end it.
struct TransferOptions {
    /// Called on the calling thread, now and then while bytes move and once when all have. What it throws ends the transfer and
    /// is passed on.
    std::function<void(const Progress&)> progress{};
    /// Ends the transfer soon after a stop is requested: the call throws `cancelled`, and nothing half written is left.
    std::stop_token stop{};
};

/// What transfers of one device may take from the host. 0 stands for what suits the machine.
struct TransferLimits {
    /// Threads that read files. Chosen: three quarters of the processors, from 2 to 12. More readers than the link needs take
    /// processor time and bring nothing: 12 reached 0.95 of the link of an H200, 24 reached 0.91. With fewer than 8, CUDA copies
    /// cached files of 64 MiB and more from their own pages too: one thread registers them window by window from the front, and
    /// the others read from the end, until they meet. The windows are let go of when no more has been loaded for a tenth of a
    /// second. Takes a fifth of the processor time, and is faster than so few readers.
    unsigned readers = 0;
    /// Threads that write files. Chosen: 1; a filesystem lets one thread at a time write to a file, and the copies from the
    /// device go ahead of it.
    unsigned writers = 0;
    /// Bytes of one slot of the pinned ring, a multiple of 4096 from 64 KiB to 1 GiB. Chosen: 4 MiB; slots that don't stay in the
    /// processor's caches are slower, and small ones cost more calls. The ring has two slots for each reader.
    std::size_t slot_bytes = 0;
};

/// Takes effect with the next transfer. Thread safe. Throws invalid_argument for limits that are out of range.
void set_transfer_limits(const Device& device, const TransferLimits& limits);
/// The limits that are in force; none of them is 0.
TransferLimits transfer_limits(const Device& device);

}  // namespace tandem
