#include "core/share/signaller.hpp"

#include <system_error>
#include <utility>

#include "core/share/quiet_thread.hpp"

namespace tandem {

Signaller::~Signaller() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_)
        thread.join();
}

void Signaller::finish(const Job& job) noexcept {
    bool is_done = true;
    try {
        job.event.wait();
    } catch (...) {
        is_done = false;  // who waits for the queue gets the error itself
    }
    job.then(is_done);
}

void Signaller::when_done(const Queue& queue, Event event, std::function<void(bool)> then) {
    Job job{.event = std::move(event), .then = std::move(then)};
    const void* key = &queue.state();
    {
        const std::lock_guard lock(mutex_);
        for (std::list<Lane>* lanes : {&taken_, &waiting_}) {
            for (Lane& lane : *lanes) {
                if (lane.queue != key) continue;
                lane.jobs.push_back(std::move(job));
                return;
            }
        }
        bool has_thread = idle_ > waiting_.size();
        try {
            if (!has_thread) threads_.push_back(start_quiet_thread([this] { work(); }));
            has_thread = true;
        } catch (const std::exception&) {
            // Those there are get to it, where there are any.
            has_thread = !threads_.empty();
        }
        if (has_thread) {
            waiting_.push_back({.queue = key, .jobs = {}});
            waiting_.back().jobs.push_back(std::move(job));
            wake_.notify_one();
            return;
        }
    }
    finish(job);
}

void Signaller::work() noexcept {
    std::unique_lock lock(mutex_);
    while (true) {
        ++idle_;
        wake_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
        --idle_;
        if (waiting_.empty()) return;
        const auto lane = waiting_.begin();
        taken_.splice(taken_.end(), waiting_, lane);
        while (!lane->jobs.empty()) {
            {
                const Job job = std::move(lane->jobs.front());
                lane->jobs.pop_front();
                lock.unlock();
                finish(job);
            }
            lock.lock();
        }
        taken_.erase(lane);
    }
}

}  // namespace tandem
