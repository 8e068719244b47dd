#include "tools/measurement.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include <tandem/error.hpp>

#include "tools/process.hpp"

namespace tandem::command {
namespace {

using Clock = std::chrono::steady_clock;

// Where the first run of two costs more than this, what it paid for does not show in it.
constexpr double short_run_seconds = 0.1;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

double cpu_seconds_so_far() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

struct Times {
    std::vector<double> seconds;
    std::vector<double> cpu_seconds;
};

// One run; why there was none, or empty.
std::string run_once(const Contender& contender, Times& times) {
    check_interrupt();
    if (contender.prepare) {
        if (std::string reason = contender.prepare(); !reason.empty()) return reason;
    }
    const double cpu_before = cpu_seconds_so_far();
    const Clock::time_point start = Clock::now();
    contender.run();
    times.seconds.push_back(seconds_since(start));
    times.cpu_seconds.push_back(cpu_seconds_so_far() - cpu_before);
    if (contender.settle) contender.settle();
    return {};
}

// One turn of a contender, whose last run is its result.
std::string take_turn(const Contender& contender, Times& times) {
    std::string reason = run_once(contender, times);
    if (!reason.empty() || times.seconds.back() > short_run_seconds) return reason;
    times.seconds.pop_back();
    times.cpu_seconds.pop_back();
    return run_once(contender, times);
}

bool is_of_the_device(ErrorCode code) {
    return code == ErrorCode::out_of_memory || code == ErrorCode::unsupported || code == ErrorCode::unavailable ||
           code == ErrorCode::invalid_argument;
}

}  // namespace

std::vector<Measurement> measure(std::span<const Contender> contenders, const Effort& effort) {
    std::vector<Measurement> measurements(contenders.size());
    std::vector<Times> times(contenders.size());
    const Clock::time_point start = Clock::now();
    for (int round = -1; round < effort.rounds; ++round) {
        if (round > 0 && seconds_since(start) > effort.seconds) break;
        for (std::size_t i = 0; i < contenders.size(); ++i) {
            try {
                measurements[i].note = take_turn(contenders[i], times[i]);
            } catch (const Error& error) {
                if (!is_of_the_device(error.code())) throw;
                measurements[i].note = error.what();
            }
            if (!measurements[i].note.empty()) return measurements;
        }
        if (round < 0) times.assign(contenders.size(), {});
    }
    for (std::size_t i = 0; i < contenders.size(); ++i) {
        const auto size_bytes = static_cast<double>(contenders[i].size_bytes);
        // A clock that did not move is as short as it can tell.
        measurements[i].bytes_per_second = size_bytes / std::max(median(times[i].seconds), 1e-9);
        measurements[i].cpu_seconds_per_gb = median(times[i].cpu_seconds) * 1e9 / size_bytes;
    }
    return measurements;
}

}  // namespace tandem::command
