#pragma once
// What `tandem bench` has found out, and how it is told.

#include <cstdint>
#include <string>
#include <vector>

#include <tandem/device.hpp>

#include "tools/machine.hpp"
#include "tools/measurement.hpp"

namespace tandem::command {

/// What can be done without the library, measured by itself.
struct BenchLimit {
    std::string device;  ///< empty: of the machine
    std::string name;
    std::uint64_t size_bytes = 0;
    Measurement measured;
};

/// What the library does, and its limit, in turns with it.
struct BenchRow {
    std::string device;
    std::string job;
    std::uint64_t size_bytes = 0;
    Measurement measured;  ///< its note says why there is no figure of either
    std::string limit;     ///< empty where there is none to hold it against
    Measurement limit_measured;

    [[nodiscard]] bool is_measured() const noexcept { return measured.note.empty(); }
    [[nodiscard]] bool has_ratio() const noexcept { return is_measured() && !limit.empty(); }
    /// Only where `has_ratio`.
    [[nodiscard]] double ratio() const noexcept { return measured.bytes_per_second / limit_measured.bytes_per_second; }
};

struct BenchDevice {
    DeviceInfo info;
    std::string note;  ///< why it could not be opened; else empty
};

struct BenchReport {
    Machine machine;
    std::string folder;
    std::uint64_t file_bytes = 0;
    int rounds = 0;
    std::vector<BenchDevice> devices;
    std::vector<BenchLimit> limits;
    std::vector<BenchRow> rows;
};

/// "Xeon, 2 processors, 23.4 GiB of memory, Linux 6.1; files of 1.00 GiB in /tmp; medians of 3 rounds".
std::string conditions_text(const BenchReport& report);
/// Tables for a person.
std::string table_text(const BenchReport& report);
/// One object.
std::string json_text(const BenchReport& report);

}  // namespace tandem::command
