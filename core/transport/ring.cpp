#include "core/transport/ring.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "tandem/error.hpp"

namespace tandem {

void wait_quietly(const driver::Event& event) {
    // Shorter than any slot's way across a link; the system makes it some 60 us.
    while (!event.is_done())
        std::this_thread::sleep_for(std::chrono::microseconds(10));
    event.wait();  // for what it failed with
}

Ring::Ring(driver::Device& device, unsigned count, std::size_t slot_bytes)
    : slot_bytes_(slot_bytes),
      count_(count),
      memory_(device.allocate(count * (slot_bytes + slack_bytes), MemoryKind::pinned)),
      mapped_(memory_->map(0, memory_->size_bytes(), Access::read_write)) {
    if (mapped_ == nullptr) {
        throw Error(ErrorCode::unsupported, "a transfer's pinned memory has no address on the host");
    }
    for (unsigned slot = 0; slot < count; ++slot)
        free_.push_back({static_cast<std::byte*>(mapped_) + slot * (slot_bytes + slack_bytes), nullptr});
}

Ring::~Ring() {
    for (const Free& slot : free_) {
        try {
            if (slot.event != nullptr) slot.event->wait();
        } catch (...) {
            // A lost device moves nothing any more.
        }
    }
    memory_->unmap(mapped_, Access::read_write);
}

Ring::Slot Ring::take() {
    Free taken{};
    {
        std::unique_lock lock(mutex_);
        returned_.wait(lock, [this] { return !free_.empty(); });
        taken = std::move(free_.front());
        free_.pop_front();
    }
    Slot slot(*this, taken.data);
    if (taken.event != nullptr) wait_quietly(*taken.event);
    return slot;
}

std::optional<Ring::Slot> Ring::try_take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty() || (free_.front().event != nullptr && !free_.front().event->is_done())) return {};
    Slot slot(*this, free_.front().data);
    free_.pop_front();
    return slot;
}

void Ring::put(std::byte* data, std::shared_ptr<driver::Event> event) noexcept {
    {
        const std::lock_guard lock(mutex_);
        // The deque has had room for all slots since it was made, and a slot is in it or out of it.
        free_.push_back({data, std::move(event)});
    }
    returned_.notify_one();
}

Ring::Slot::~Slot() {
    if (data_ != nullptr) ring_->put(data_, std::move(event_));
}

Ring::Slot::Slot(Slot&& other) noexcept
    : ring_(other.ring_), data_(std::exchange(other.data_, nullptr)), event_(std::move(other.event_)) {}

Ring::Slot& Ring::Slot::operator=(Slot&& other) noexcept {
    std::swap(ring_, other.ring_);
    std::swap(data_, other.data_);
    std::swap(event_, other.event_);
    return *this;
}

}  // namespace tandem
