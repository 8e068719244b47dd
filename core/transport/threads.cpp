#include "core/transport/threads.hpp"

#include <system_error>
#include <vector>

#include "core/numa.hpp"

namespace tandem {

void ThreadGroup::attempt(const std::function<void()>& work) noexcept {
    try {
        work();
    } catch (...) {
        const std::lock_guard lock(mutex_);
        if (failure_ == nullptr) failure_ = std::current_exception();
        has_failed_ = true;
    }
}

void ThreadGroup::run(unsigned threads, const std::function<void()>& work, int numa_node) {
    std::vector<std::thread> others;
    try {
        others.reserve(threads);
        while (others.size() + 1 < threads)
            others.emplace_back([this, &work, numa_node] {
                stay_near_node(numa_node);
                attempt(work);
            });
    } catch (const std::exception&) {
        // As many as there are.
    }
    attempt(work);
    for (std::thread& other : others)
        other.join();
    if (failure_ != nullptr) std::rethrow_exception(failure_);
}

}  // namespace tandem
