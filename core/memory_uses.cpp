#include "core/memory_uses.hpp"

#include <algorithm>

#include "core/queue_state.hpp"

namespace tandem {

bool MemoryUses::mark(QueueState& queue, std::uint64_t queue_id, std::uint64_t batch) {
    // Small operations on the same few arrays are many, and each comes through here for each of its arrays.
    constexpr unsigned batch_bits = 40;
    const bool is_packable = queue_id >> (64 - batch_bits) == 0 && batch >> batch_bits == 0;
    const std::uint64_t packed = is_packable ? queue_id << batch_bits | batch : 0;
    if (packed != 0 && latest_.load(std::memory_order_relaxed) == packed) return false;
    const std::lock_guard lock(mutex_);
    latest_.store(packed, std::memory_order_relaxed);
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
