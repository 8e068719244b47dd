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

void Signaller::when_done(Event event, std::function<void(bool)> then) {
    std::list<Job> job;
    job.push_back({std::move(event), std::move(then)});
    {
        const std::lock_guard lock(mutex_);
        bool has_thread = idle_ > jobs_.size();
        try {
            if (!has_thread) threads_.push_back(start_quiet_thread([this] { work(); }));
            has_thread = true;
        } catch (const std::exception&) {
            // Those there are get to it, where there are any.
            has_thread = !threads_.empty();
        }
        if (has_thread) jobs_.splice(jobs_.end(), job);
    }
    if (job.empty()) {
        wake_.notify_one();
    } else {
        finish(job.front());
    }
}

void Signaller::work() noexcept {
    std::unique_lock lock(mutex_);
    while (true) {
        ++idle_;
        wake_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
        --idle_;
        if (jobs_.empty()) return;
        std::list<Job> job;
        job.splice(job.end(), jobs_, jobs_.begin());
        lock.unlock();
        finish(job.front());
        job.clear();
        lock.lock();
    }
}

}  // namespace tandem
