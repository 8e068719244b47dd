#pragma once
// Which queues have work on a memory that may not be done yet.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace tandem {

class QueueState;

/// One entry for each queue that used the memory: the last batch of that queue in which it did. Thread safe.
class MemoryUses {
public:
    struct Use {
        std::weak_ptr<QueueState> queue;  ///< expired: the queue is gone, and it waited for its work
        std::uint64_t queue_id;
        std::uint64_t batch;
    };

    /// Notes a use; returns false where the same batch had already used the memory.
    bool mark(QueueState& queue, std::uint64_t queue_id, std::uint64_t batch);

    /// Blocks until all work on the memory that was submitted before the call is done; work on other memory is not waited for,
    /// except what shares a batch with it (core/queue_state.hpp). Throws what that work failed with.
    void wait() const;

private:
    std::atomic<std::uint64_t> latest_{0};  // the use noted last, packed; 0: none that can be
    mutable std::mutex mutex_;
    std::vector<Use> uses_;
};

}  // namespace tandem
