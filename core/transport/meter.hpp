#pragma once
// How far a transfer has come, told to whoever asked for it.

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include <tandem/transfer.hpp>

namespace tandem {

/// Counts a transfer's bytes and heeds its caller's wish to end it. Thread safe but for `report`.
class Meter {
public:
    /// `options` outlives the meter. `name` is what messages call the file; without one, they say nothing of it.
    Meter(const TransferOptions& options, std::uint64_t total_bytes, std::string name = {})
        : options_(options), total_bytes_(total_bytes), name_(std::move(name)) {}

    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    void add(std::uint64_t bytes) noexcept { done_bytes_ += bytes; }

    /// Throws `cancelled` where the caller has asked for the end.
    void check() const;
    /// Calls the caller's function, where bytes have moved since the last time and that is some while ago. On the caller's
    /// thread.
    void report();
    /// Calls it once more, at the end. On the caller's thread.
    void finish();

private:
    const TransferOptions& options_;
    const std::uint64_t total_bytes_;
    const std::string name_;
    std::atomic<std::uint64_t> done_bytes_{0};
    std::uint64_t reported_bytes_ = 0;
    std::int64_t reported_at_ns_ = 0;
};

}  // namespace tandem
