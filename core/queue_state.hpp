#pragma once
// What a queue is to core/: the native queue, and the memory that its unfinished work uses.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
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

        [[nodiscard]] driver::Queue& native() const noexcept { return *state_.target_; }
        /// Notes that the work uses `memory`. Before the work is submitted. Throws unavailable for memory that went with the
        /// process that it came from.
        void use(const std::shared_ptr<driver::Memory>& memory);
        /// The same for a kernel.
        void use(const std::shared_ptr<driver::Kernel>& kernel);
        /// True where the work is not done but recorded.
        [[nodiscard]] bool is_recorded() const noexcept { return state_.target_ != state_.native_.get(); }
        /// Keeps anything alive until the work is done.
        void keep(std::shared_ptr<const void> thing) { state_.open_things_.push_back(std::move(thing)); }

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

    using Retained = std::vector<std::shared_ptr<driver::Memory>>;
    using Things = std::vector<std::shared_ptr<const void>>;

    /// Sends what is submitted from here on to the recorder, and has all that waits refused, until `end_recording`, which gives
    /// what the submissions have used. Throws invalid_argument while another recording is under way.
    void begin_recording(const std::function<driver::Queue&()>& make_recorder);
    void end_recording(Retained& memory, Things& things) noexcept;
    [[nodiscard]] const std::shared_ptr<driver::Queue>& native() const noexcept { return native_; }

    /// The Queue that this belongs to is another object from here on, or none. From the thread that submits.
    void leave() noexcept { is_left_ = true; }
    /// Whether that has happened since the latest `begin_recording`.
    [[nodiscard]] bool is_left() const noexcept { return is_left_; }

    /// Nobody waits for this queue's work any more, and what it uses is never let go of. `is_abandoned` from any thread.
    void abandon() noexcept;
    [[nodiscard]] bool is_abandoned() const noexcept { return is_abandoned_.load(std::memory_order_relaxed); }

private:
    struct Batch {
        std::uint64_t number;
        std::shared_ptr<driver::Event> event;  // null: a call of `synchronize` waits for it, which costs less
        Retained memory;
        Things things;
    };

    void check_not_recording(const char* what) const;  // with mutex_ held
    std::shared_ptr<driver::Event> close_batch();      // with mutex_ held
    void start_batch() noexcept;                       // with mutex_ held, and open_memory_ emptied
    std::vector<Batch> take_finished() noexcept;       // with mutex_ held

    const std::uint64_t id_;
    const std::shared_ptr<driver::Queue> native_;
    driver::Queue* target_;  // the native queue, or what records in its place
    std::atomic<bool> is_abandoned_{false};
    bool is_left_ = false;
    const driver::EventInterval interval_;
    std::mutex mutex_;
    std::condition_variable synchronized_;
    std::uint64_t open_batch_ = 0;
    unsigned open_operations_ = 0;
    std::size_t open_bytes_ = 0;  // their traffic
    Retained open_memory_;
    Things open_things_;
    std::deque<Batch> closed_;
};

}  // namespace tandem
