#include "core/transport/meter.hpp"

#include <chrono>

#include <fmt/format.h>

#include "tandem/error.hpp"

namespace tandem {
namespace {

// Often enough for a bar to move, seldom enough to cost nothing.
constexpr std::int64_t interval_ns = 20'000'000;

std::int64_t now_ns() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void Meter::check() const {
    if (!options_.stop.stop_requested()) return;
    throw Error(ErrorCode::cancelled, fmt::format("{}{}cancelled after {} of {} bytes", name_, name_.empty() ? "" : ": ",
                                                  done_bytes_.load(), total_bytes_));
}

void Meter::report() {
    if (!options_.progress) return;
    const std::uint64_t done = done_bytes_;
    const std::int64_t now = now_ns();
    if (done == reported_bytes_ || now - reported_at_ns_ < interval_ns) return;
    reported_bytes_ = done;
    reported_at_ns_ = now;
    options_.progress({done, total_bytes_});
}

void Meter::finish() {
    if (options_.progress) options_.progress({done_bytes_, total_bytes_});
}

}  // namespace tandem
