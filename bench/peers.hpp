#pragma once
// What the library is held against on each kind of device: code written by hand for the one case, without the library.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness.hpp"

namespace tandem::bench {

enum class Job : std::uint8_t { add, twice };

/// Hand-written ways to do one job on arrays of `count` float32 or float64, each repeated `repeats` times a run; they own their
/// arrays. The last of the device ones is a copy within the device of as many bytes as the job moves.
std::vector<Candidate> openmp_peers(Job job, bool float64, std::int64_t count, int repeats);
std::vector<Candidate> cuda_peers(Job job, bool float64, std::int64_t count, int repeats);
/// `platform` and `name` are DeviceInfo's.
std::vector<Candidate> opencl_peers(const std::string& platform, const std::string& name, Job job, bool float64,
                                    std::int64_t count, int repeats);

/// Launches of a small kernel through the driver itself, `repeats` of them a run.
Candidate cuda_raw_launch(int repeats);
Candidate opencl_raw_launch(const std::string& platform, const std::string& name, int repeats);

}  // namespace tandem::bench
