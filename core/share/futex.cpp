#include "core/share/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace tandem {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) && std::atomic<std::uint32_t>::is_always_lock_free);

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                const std::optional<std::chrono::steady_clock::time_point>& deadline) noexcept {
    // FUTEX_WAIT_BITSET takes the deadline itself, by the monotonic clock, which is what steady_clock reads.
    timespec until{};
    if (deadline) {
        const auto since_start = deadline->time_since_epoch();
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_start);
        until.tv_sec = seconds.count();
        until.tv_nsec = std::chrono::duration_cast<std::chrono::nanoseconds>(since_start - seconds).count();
    }
    ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, expected, deadline ? &until : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void futex_wake(const std::atomic<std::uint32_t>& word) noexcept {
    ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace tandem
