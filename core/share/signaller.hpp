#pragma once
// Raises fences when work on devices is done.

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include <tandem/queue.hpp>

namespace tandem {

/// Threads that wait for events, one for each queue that has signals to come: no queue's signal comes later because of another
/// queue's work. Thread safe.
class Signaller {
public:
    Signaller() = default;
    /// Waits for all that was asked for.
    ~Signaller();
    Signaller(const Signaller&) = delete;
    Signaller& operator=(const Signaller&) = delete;

    /// Calls `then(true)` when `event`, the latest one of `queue`, is done, and `then(false)` when its work failed, from another
    /// thread; from this one, which then waits, where the system gives none. `then` must not throw.
    void when_done(const Queue& queue, Event event, std::function<void(bool is_done)> then);

private:
    struct Job {
        Event event;
        std::function<void(bool)> then;
    };
    // One queue's, in its order.
    struct Lane {
        const void* queue;
        std::deque<Job> jobs;
    };

    static void finish(const Job& job) noexcept;
    void work() noexcept;

    std::mutex mutex_;
    std::condition_variable wake_;
    std::list<Lane> waiting_;  // for a thread
    std::list<Lane> taken_;    // each by a thread, until it is empty
    std::size_t idle_ = 0;
    bool ending_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace tandem
