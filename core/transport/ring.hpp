#pragma once
// The pinned host memory that bytes pass on their way between files and a device.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "core/driver.hpp"

namespace tandem {

/// Waits for `event` without keeping a processor busy, as drivers do.
void wait_quietly(const driver::Event& event);

/// Slots of pinned memory, used in turns. Thread safe.
///
/// Whoever holds a slot must be able to finish with it without taking another one: slots are for moving bytes, not for keeping.
class Ring {
public:
    /// Bytes that a slot has beyond `slot_bytes`, for reads that have to begin and end at blocks of the storage.
    static constexpr std::size_t slack_bytes = 2 * std::size_t{4096};

    /// Throws out_of_memory. Native calls: those of `pinned` memory, which stays mapped.
    Ring(driver::Device& device, unsigned count, std::size_t slot_bytes);
    ~Ring();
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;

    [[nodiscard]] std::size_t slot_bytes() const noexcept { return slot_bytes_; }
    [[nodiscard]] unsigned count() const noexcept { return count_; }

    /// A slot, held. Goes back to the ring with its end.
    class Slot {
    public:
        Slot(Ring& ring, std::byte* data) noexcept : ring_(&ring), data_(data) {}
        ~Slot();
        Slot(Slot&& other) noexcept;
        Slot& operator=(Slot&& other) noexcept;
        Slot(const Slot&) = delete;
        Slot& operator=(const Slot&) = delete;

        /// `slot_bytes` + `slack_bytes`, starting at a page.
        [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, ring_->slot_bytes_ + slack_bytes}; }
        /// The slot is not given out again before `event`.
        void busy_until(std::shared_ptr<driver::Event> event) noexcept { event_ = std::move(event); }

    private:
        Ring* ring_;
        std::byte* data_;
        std::shared_ptr<driver::Event> event_;
    };

    /// The slot that was given back first; waits until there is one and its bytes have been moved.
    Slot take();
    /// The same for who holds one already: nothing where there is none to be had at once.
    std::optional<Slot> try_take();

private:
    struct Free {
        std::byte* data;
        std::shared_ptr<driver::Event> event;  // null: not in use
    };

    void put(std::byte* data, std::shared_ptr<driver::Event> event) noexcept;

    const std::size_t slot_bytes_;
    const unsigned count_;
    std::shared_ptr<driver::Memory> memory_;
    void* mapped_;
    std::mutex mutex_;
    std::condition_variable returned_;
    std::deque<Free> free_;
};

}  // namespace tandem
