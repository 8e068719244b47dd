#include "core/thread_pool.hpp"

#include <sched.h>

#include <algorithm>
#include <system_error>

namespace tandem {

unsigned available_processors() noexcept {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1U, static_cast<unsigned>(CPU_COUNT(&set)));
    return std::max(1U, std::thread::hardware_concurrency());
}

ThreadPool& ThreadPool::instance() {
    // Never destroyed: queues in static storage may still have work for it.
    static auto* const pool = new ThreadPool(available_processors());
    return *pool;
}

ThreadPool::ThreadPool(unsigned threads) {
    try {
        for (unsigned i = 1; i < threads; ++i)
            workers_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
        // The system gives no more threads; those there are do the work.
    }
}

ThreadPool::~ThreadPool() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_)
        worker.join();
}

void ThreadPool::run_parts(Loop& loop, std::unique_lock<std::mutex>& lock) {
    while (loop.next < loop.parts) {
        const std::int64_t part = loop.next++;
        if (loop.next == loop.parts) loops_.remove(&loop);
        ++loop.running;
        lock.unlock();
        (*loop.body)(part);
        lock.lock();
        --loop.running;
    }
}

void ThreadPool::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        wake_.wait(lock, [&] { return ending_ || !loops_.empty(); });
        if (ending_) return;
        Loop& loop = *loops_.front();
        run_parts(loop, lock);
        // The loop's owner may be gone once `running` is seen as zero: `loop` is not touched again.
        done_.notify_all();
    }
}

void ThreadPool::parallel(std::int64_t parts, const std::function<void(std::int64_t)>& body) {
    if (parts <= 1 || workers_.empty()) {
        for (std::int64_t part = 0; part < parts; ++part)
            body(part);
        return;
    }
    Loop loop{&body, 0, parts, 0};
    std::unique_lock lock(mutex_);
    loops_.push_back(&loop);
    wake_.notify_all();
    run_parts(loop, lock);
    done_.wait(lock, [&] { return loop.running == 0; });
}

}  // namespace tandem
