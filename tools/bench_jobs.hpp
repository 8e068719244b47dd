#pragma once
// What `tandem bench` has the library do.

#include <functional>
#include <string>
#include <vector>

#include <tandem/device.hpp>

#include "tools/bench_report.hpp"
#include "tools/limits.hpp"
#include "tools/scratch.hpp"

namespace tandem::command {

/// How much of everything.
struct BenchPlan {
    std::uint64_t array_bytes = 0;  ///< of arrays in memory; a multiple of 4
    std::uint64_t write_bytes = 0;  ///< of files that are written; a multiple of 4, no more than the file that is read
    unsigned threads = 1;           ///< that share the work of a limit
    Effort effort;
    std::function<void(const std::string& what)> announce;  ///< called before each row
};

/// A limit that jobs are held against.
struct MeasuredLimit {
    Contender contender;
    Measurement measured;
};

/// The limits of the machine, which those of a device with memory of its own join.
struct Limits {
    MeasuredLimit memory_copy, warm_read, cold_read, write, flushed_write;
};

/// Measures the machine's limits with files in `folder`; they are appended to `report`. `file` and `folder` must outlive them.
Limits measure_limits(const ScratchFolder& folder, const ScratchFile& file, const BenchPlan& plan, BenchReport& report);

/// Measures `device`'s limits and what the library reaches there; both are appended to `report`. Each job is held against the
/// slowest of the limits that it is under. Throws io, and internal where a job's result is wrong.
void measure_device(const Device& device, const Limits& limits, const ScratchFolder& folder, const ScratchFile& file,
                    const BenchPlan& plan, BenchReport& report);

}  // namespace tandem::command
