#pragma once
// Threads that do one job together.

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace tandem {

/// The caller and further threads that run one function. They wait for files and devices, so they are not those of the thread
/// pool, which compute.
class ThreadGroup {
public:
    /// Runs `work` on `threads` threads, of which the caller is one; on fewer where the system gives no more. Returns when all
    /// have ended. The first failure is thrown; `has_failed` tells the others to end. All but the caller keep near `numa_node`.
    void run(unsigned threads, const std::function<void()>& work, int numa_node = -1);

    [[nodiscard]] bool has_failed() const noexcept { return has_failed_; }
    [[nodiscard]] bool is_caller() const noexcept { return std::this_thread::get_id() == caller_; }

private:
    void attempt(const std::function<void()>& work) noexcept;

    const std::thread::id caller_ = std::this_thread::get_id();
    std::atomic<bool> has_failed_{false};
    std::mutex mutex_;
    std::exception_ptr failure_;
};

}  // namespace tandem
