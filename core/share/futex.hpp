#pragma once
// Waiting for a word of memory that other processes map too.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace tandem {

/// Blocks while `word` is `expected`, until it is woken or the deadline passes. May return early for no reason.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                const std::optional<std::chrono::steady_clock::time_point>& deadline) noexcept;

/// Wakes all who wait for `word`, in whatever process.
void futex_wake(const std::atomic<std::uint32_t>& word) noexcept;

}  // namespace tandem
