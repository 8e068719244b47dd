#include "core/memory_uses.hpp"

#include <algorithm>

#include "core/queue_state.hpp"

namespace tandem {

bool MemoryUses::mark(QueueState& queue, std::uint64_t queue_id, std::uint64_t batch) {
    const std::lock_guard lock(mutex_);
    for (Use& use : uses_) {
        if (use.queue_id != queue_id) continue;
        const bool first = use.batch != batch;
        use.batch = batch;
        return first;
    }
    std::erase_if(uses_, [](const Use& use) { return use.queue.expired(); });
    uses_.push_back({queue.weak_from_this(), queue_id, batch});
    return true;
}

void MemoryUses::wait() const {
    std::vector<Use> uses;
    {
        const std::lock_guard lock(mutex_);
        uses = uses_;
    }
    for (const Use& use : uses) {
        if (const std::shared_ptr<QueueState> queue = use.queue.lock()) queue->wait_batch(use.batch);
    }
}

}  // namespace tandem
