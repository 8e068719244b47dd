#pragma once
// Rates of things done in turns, so that what a shared machine does meanwhile falls on all of them alike.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tandem::command {

/// One way to move bytes.
struct Contender {
    std::string name;
    std::uint64_t size_bytes = 0;  ///< what a run moves
    std::function<void()> run;     ///< what is timed
    /// Goes before each run, untimed: brings about what the figure is about, and says in words what it could not; else empty.
    std::function<std::string()> prepare{};
    std::function<void()> settle{};  ///< follows each run, untimed
};

/// What came of one.
struct Measurement {
    double bytes_per_second = 0;
    double cpu_seconds_per_gb = 0;  ///< of all of the process's threads, for 10^9 bytes
    std::string note;               ///< why there is no figure; empty where there is one
};

/// How long to measure.
struct Effort {
    int rounds = 3;
    double seconds = 5;  ///< no further round is begun after so long; one is always measured
};

/// The medians of all contenders, which run in turns: a round to warm up, then those that count. One whose runs are short runs
/// twice each time, and the second run counts, since the first pays for what changed with the other contender's: a GPU's context,
/// the caches.
/// Where one can't be prepared, or fails with out_of_memory, unsupported, unavailable or invalid_argument, there is no figure of
/// any, and its note says why. Throws what else the contenders throw, and io where an interrupt was held back by a
/// `WritingGuard`.
std::vector<Measurement> measure(std::span<const Contender> contenders, const Effort& effort);

}  // namespace tandem::command
