#pragma once
// What an open device is to core/: the native device, and the queues that work on it.

#include <memory>
#include <mutex>
#include <vector>

#include "core/driver.hpp"
#include "core/queue_state.hpp"

namespace tandem {

/// Shared by every Device handle of one device. Thread safe.
struct DeviceState {
    explicit DeviceState(std::shared_ptr<driver::Device> device) : native(std::move(device)) {}

    const std::shared_ptr<driver::Device> native;

    std::shared_ptr<QueueState> make_queue();

    /// Memory of this device. Finished work's memory is let go of first; where the device still has too little, queued work is
    /// waited for and the call tried once more, since its memory may be all that is missing.
    std::shared_ptr<driver::Memory> allocate(std::size_t size_bytes, MemoryKind kind);

    /// The library's own queue, for calls that move bytes and wait; made on first use. Used with `transfer_mutex` held.
    QueueState& transfer_queue();
    std::mutex transfer_mutex;

private:
    std::vector<std::shared_ptr<QueueState>> live_queues();

    std::mutex mutex_;
    std::vector<std::weak_ptr<QueueState>> queues_;
    std::shared_ptr<QueueState> transfer_;
};

}  // namespace tandem
