#pragma once
// Raises fences when work on devices is done.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include <tandem/queue.hpp>

namespace tandem {

/// Threads that wait for events, as many as there are events waited for at once: no queue's signal comes later because of another
/// queue's work. Thread safe.
class Signaller {
public:
    Signaller() = default;
    /// Waits for all that was asked for.
    ~Signaller();
    Signaller(const Signaller&) = delete;
    Signaller& operator=(const Signaller&) = delete;

    /// Calls `then(true)` when `event` is done, and `then(false)` when its work failed, from another thread; from this one, which
    /// then waits, where the system gives none. `then` must not throw.
    void when_done(Event event, std::function<void(bool is_done)> then);

private:
    struct Job {
        Event event;
        std::function<void(bool)> then;
    };

    static void finish(const Job& job) noexcept;
    void work() noexcept;

    std::mutex mutex_;
    std::condition_variable wake_;
    std::list<Job> jobs_;
    std::size_t idle_ = 0;
    bool ending_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace tandem
