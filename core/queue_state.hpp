#pragma once
// What a queue is to core/: the native queue, and the memory that its unfinished work uses.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "core/driver.hpp"

namespace tandem {

/// Keeps the memory of submitted work alive until the work is done, and knows when that is.
///
/// Work is gathered in batches, each closed by one native event. Recording an event for each small operation would cost as much
/// as the operation's launch; so a batch holds as much work as the native queue says that an event costs nothing beside. Waiting
/// for one memory waits for the batch of its last use: for that much more than needed at most.
///
/// Thread safe; submissions come from one thread at a time.
class QueueState : public std::enable_shared_from_this<QueueState> {
public:
    explicit QueueState(std::shared_ptr<driver::Queue> native);

    /// Exclusive use of the native queue while one operation is submitted and its memory noted.
    class Submission {
    public:
        Submission(QueueState& state, std::size_t work_bytes) : state_(state), lock_(state.mutex_), work_bytes_(work_bytes) {}
        /// Closes the batch where it is due; finished work's memory is freed outside the lock.
        ~Submission();
        Submission(const Submission&) = delete;
        Submission& operator=(const Submission&) = delete;

        [[nodiscard]] driver::Queue& native() const noexcept { return *state_.native_; }
        /// Notes that the work uses `memory`. Before the work is submitted. Throws unavailable for memory that went with the
        /// process that it came from.
        void use(const std::shared_ptr<driver::Memory>& memory);

    private:
        QueueState& state_;
        std::unique_lock<std::mutex> lock_;
        std::size_t work_bytes_;
    };

    /// A point after everything submitted so far.
    std::shared_ptr<driver::Event> record();
    void wait_for(const driver::Event& event);
    /// Blocks until everything submitted is done, then lets go of its memory. Throws what the work failed with.
    void synchronize();
    /// Blocks until the batch is done. Throws what the work failed with.
    void wait_batch(std::uint64_t batch);
    /// Lets go of the memory of work that is done; does not wait.
    void reap() noexcept;

private:
    using Retained = std::vector<std::shared_ptr<driver::Memory>>;
    struct Batch {
        std::uint64_t number;
        std::shared_ptr<driver::Event> event;  // null: a call of `synchronize` waits for it, which costs less
        Retained memory;
    };

    std::shared_ptr<driver::Event> close_batch();  // with mutex_ held
    void start_batch() noexcept;                   // with mutex_ held, and open_memory_ emptied
    std::vector<Batch> take_finished() noexcept;   // with mutex_ held

    const std::uint64_t id_;
    const std::shared_ptr<driver::Queue> native_;
    const driver::EventInterval interval_;
    std::mutex mutex_;
    std::condition_variable synchronized_;
    std::uint64_t open_batch_ = 0;
    unsigned open_operations_ = 0;
    std::size_t open_bytes_ = 0;  // their traffic
    Retained open_memory_;
    std::deque<Batch> closed_;
};

}  // namespace tandem
