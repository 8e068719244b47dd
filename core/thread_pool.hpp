#pragma once
// The threads of the process: what the host backend runs on, and what touches large memory first.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem {

/// How many processors this process may run on.
unsigned available_processors() noexcept;

/// Threads that share loops. Own code, since the C++ library's parallel algorithms need a further library and OpenMP's runtime is
/// opaque to the thread sanitizer. Thread safe: loops of several queues run side by side.
class ThreadPool {
public:
    /// The process's pool, as many threads as processors that it may run on, the caller of `parallel` counted in.
    static ThreadPool& instance();

    explicit ThreadPool(unsigned threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    [[nodiscard]] unsigned threads() const noexcept { return static_cast<unsigned>(workers_.size()) + 1; }

    /// Calls `body(part)` for each part in [0, parts), on the caller's thread too; returns when all are done. `body` does not
    /// throw.
    void parallel(std::int64_t parts, const std::function<void(std::int64_t)>& body);

private:
    struct Loop {
        const std::function<void(std::int64_t)>* body;
        std::int64_t next;
        std::int64_t parts;
        std::int64_t running;
    };

    void work();
    void run_parts(Loop& loop, std::unique_lock<std::mutex>& lock);

    std::mutex mutex_;
    std::condition_variable wake_;  // a loop has parts to give out, or the pool ends
    std::condition_variable done_;  // a part has ended
    std::list<Loop*> loops_;        // those with parts left
    bool ending_ = false;
    std::vector<std::thread> workers_;
};

}  // namespace tandem
