#pragma once
// What the benchmark programs have in common: options, the ends of a run, and the loops around what is measured.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/harness.hpp"
#include "bench/peers.hpp"
#include "tandem/device.hpp"
#include "tandem/queue.hpp"

namespace tandem::bench {

/// --device, --rounds and --json.
struct CommonOptions {
    std::string device{};
    int rounds = 9;
    std::string json{};
};
void add_common_options(CLI::App& app, CommonOptions& options);
/// --bytes; 0, which it is without, stands for `array_bytes`.
void add_bytes_option(CLI::App& app, std::size_t& bytes);
/// 1 GiB on a GPU, 256 MiB else, where `bytes` is 0.
std::size_t array_bytes(const Device& device, std::size_t bytes);

/// Parses, does `work`, whose result is the program's, and writes what was reported to `json` where that is no empty name. An
/// exception's text goes to standard error, and the result is 1.
int run_program(CLI::App& app, int argc, char** argv, const std::string& json, const std::function<int()>& work);
/// The device by its name, which a line on standard output tells.
Device open_and_tell(const std::string& spec);

/// What is held against an elementwise job on a device: hand-written kernels on a GPU, OpenMP loops on a processor.
std::vector<Candidate> elementwise_peers(const DeviceInfo& info, Job job, bool float64, std::int64_t count, int repeats);
/// The driver's own launches of a small kernel, where the device has a driver.
std::vector<Candidate> raw_launch_peers(const DeviceInfo& info, int repeats);
/// The driver's own copies to the device, and from it; nothing where host and device are one.
std::vector<Candidate> link_peers(const DeviceInfo& info, std::size_t bytes);

/// Launches of which a driver queues as many without making the caller wait.
inline constexpr int unwaited_launches = 400;

/// `work` so many times, and waiting for it.
template <class Work>
Candidate done(std::string name, Queue& queue, int repeats, Work work) {
    return {std::move(name), [&queue, repeats, work] {
                for (int i = 0; i < repeats; ++i)
                    work();
                queue.synchronize();
            }};
}
/// The same, with the waiting left out of the time.
template <class Work>
Candidate issued(std::string name, Queue& queue, int repeats, Work work) {
    return {std::move(name),
            [repeats, work] {
                for (int i = 0; i < repeats; ++i)
                    work();
            },
            [&queue] { queue.synchronize(); }};
}
/// The candidate as another way of the library's own.
inline Candidate own(Candidate candidate) {
    candidate.is_own = true;
    return candidate;
}
/// Puts `more` behind `candidates`.
void append(std::vector<Candidate>& candidates, std::vector<Candidate> more);

}  // namespace tandem::bench
