#pragma once
// Ratios between things measured in turns within one run. Google Benchmark measures one thing after another, so that what a
// shared machine does meanwhile falls on one of them alone; here the candidates alternate.

#include <functional>
#include <string>
#include <vector>

namespace tandem::bench {

/// One way to do a job. `run` does it, and its time counts; `settle`, where there is one, follows without counting.
struct Candidate {
    std::string name;
    std::function<void()> run;
    std::function<void()> settle{};
    std::vector<double> seconds{};      ///< of each round
    std::vector<double> cpu_seconds{};  ///< of all of the process's threads, in each round
    bool is_own = false;                ///< another way of the library's: it stands beside the first, which is held against none

    [[nodiscard]] double best() const;
    [[nodiscard]] double median() const;
};

/// Runs all candidates in turns, a round to warm up and then `rounds` that count. In each, a candidate runs twice, and its second
/// run is what counts.
void measure(std::vector<Candidate>& candidates, int rounds);

/// What a run of each candidate amounts to: bytes moved, floating point operations, or a number of calls.
struct Work {
    double bytes = 0;       ///< 0: not what counts
    double calls = 1;       ///< where neither bytes nor operations count, the time of one call is the result
    double operations = 0;  ///< 0: not what counts
};

/// One line of the result: the first candidate is the library, the others what it is held against, or ways of its own, which are
/// held against the same. `target` is in words. Also kept for `write_json`.
void report(const std::string& job, const std::string& device, const std::vector<Candidate>& candidates, Work work,
            const std::string& target);

/// Everything reported so far, as JSON.
void write_json(const std::string& path);

}  // namespace tandem::bench
