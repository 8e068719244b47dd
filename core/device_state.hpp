#pragma once
// What an open device is to core/: the native device, and the queues that work on it.

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "core/driver.hpp"
#include "core/expression/cache.hpp"
#include "core/queue_state.hpp"
#include "core/transport/transport.hpp"

namespace tandem {

/// Shared by every Device handle of one device. Thread safe.
struct DeviceState {
    explicit DeviceState(std::shared_ptr<driver::Device> device) : native(std::move(device)), transport(*this) {}

    const std::shared_ptr<driver::Device> native;
    Transport transport;
    expression::Cache expressions;

    std::shared_ptr<QueueState> make_queue();

    /// Memory of this device. Finished work's memory is let go of first; where the device still has too little, queued work is
    /// waited for and the call tried once more, since its memory may be all that is missing.
    std::shared_ptr<driver::Memory> allocate(std::size_t size_bytes, MemoryKind kind);
    /// The same for `device` memory that others can have.
    std::shared_ptr<driver::Memory> allocate_shareable(std::size_t size_bytes);

    /// Moves bytes between `memory` and the host on the library's own queue, and waits for them; not for other work on the
    /// memory.
    void read(const std::shared_ptr<driver::Memory>& memory, std::size_t offset_bytes, std::byte* to, std::size_t size_bytes);
    void write(const std::shared_ptr<driver::Memory>& memory, std::size_t offset_bytes, const std::byte* from,
               std::size_t size_bytes);

    /// True once a queue of it was given up, or its work has failed in a way that takes the device with it: opening the device
    /// again then makes another state.
    [[nodiscard]] bool is_lost() const noexcept { return is_lost_.load(std::memory_order_relaxed); }
    void set_lost() noexcept { is_lost_.store(true, std::memory_order_relaxed); }

    /// Waits for all queued work. What it failed with is for those to hear who wait for it themselves.
    void finish() noexcept;

private:
    std::vector<std::shared_ptr<QueueState>> live_queues();
    template <class Allocate>
    std::shared_ptr<driver::Memory> allocate_with(Allocate&& allocate);
    template <class Submit>
    void transfer(const std::shared_ptr<driver::Memory>& memory, std::size_t size_bytes, Submit&& submit);

    std::atomic<bool> is_lost_{false};
    std::mutex mutex_;
    std::vector<std::weak_ptr<QueueState>> queues_;
    std::mutex transfer_mutex_;
    std::shared_ptr<QueueState> transfer_;  // made on first use; used with transfer_mutex_ held
};

}  // namespace tandem
