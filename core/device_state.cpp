#include "core/device_state.hpp"

#include "tandem/error.hpp"

namespace tandem {

std::shared_ptr<QueueState> DeviceState::make_queue() {
    auto queue = std::make_shared<QueueState>(native->make_queue());
    const std::lock_guard lock(mutex_);
    std::erase_if(queues_, [](const std::weak_ptr<QueueState>& entry) { return entry.expired(); });
    queues_.push_back(queue);
    return queue;
}

std::vector<std::shared_ptr<QueueState>> DeviceState::live_queues() {
    std::vector<std::shared_ptr<QueueState>> live;
    const std::lock_guard lock(mutex_);
    for (const auto& entry : queues_) {
        if (auto queue = entry.lock(); queue != nullptr && !queue->is_abandoned()) live.push_back(std::move(queue));
    }
    return live;
}

void DeviceState::finish() noexcept {
    try {
        for (const auto& queue : live_queues())
            queue->record()->wait();
    } catch (...) {
        // A lost device has nothing pending.
    }
    transport.finish();
}

template <class Allocate>
std::shared_ptr<driver::Memory> DeviceState::allocate_with(Allocate&& allocate) {
    const auto queues = live_queues();
    for (const auto& queue : queues)
        queue->reap();
    try {
        return allocate();
    } catch (const Error& error) {
        if (error.code() != ErrorCode::out_of_memory) throw;
    }
    for (const auto& queue : queues) {
        queue->record()->wait();
        queue->reap();
    }
    return allocate();
}

std::shared_ptr<driver::Memory> DeviceState::allocate(std::size_t size_bytes, MemoryKind kind) {
    return allocate_with([&] { return native->allocate(size_bytes, kind); });
}

std::shared_ptr<driver::Memory> DeviceState::allocate_shareable(std::size_t size_bytes) {
    return allocate_with([&] { return native->allocate_shareable(size_bytes); });
}

template <class Submit>
void DeviceState::transfer(const std::shared_ptr<driver::Memory>& memory, std::size_t size_bytes, Submit&& submit) {
    const std::lock_guard lock(transfer_mutex_);
    if (transfer_ == nullptr) transfer_ = make_queue();
    {
        QueueState::Submission submission(*transfer_, size_bytes);
        submission.use(memory);
        submit(submission.native());
    }
    transfer_->synchronize();
}

void DeviceState::read(const std::shared_ptr<driver::Memory>& memory, std::size_t offset_bytes, std::byte* to,
                       std::size_t size_bytes) {
    transfer(memory, size_bytes, [&](driver::Queue& queue) { queue.read(*memory, offset_bytes, to, size_bytes); });
}

void DeviceState::write(const std::shared_ptr<driver::Memory>& memory, std::size_t offset_bytes, const std::byte* from,
                        std::size_t size_bytes) {
    transfer(memory, size_bytes, [&](driver::Queue& queue) { queue.write(*memory, offset_bytes, from, size_bytes); });
}

}  // namespace tandem
