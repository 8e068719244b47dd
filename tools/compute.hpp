#pragma once
// What the commands that compute have in common.

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/inputs.hpp"

namespace tandem::command {

struct ComputeOptions {
    RawOptions raw;
    std::string device;  ///< empty: TANDEM_DEVICE, or the best there is
    MemoryKind memory = MemoryKind::device;
    bool streams = false;                     ///< --memory stream: chunk by chunk, instead of by `memory`
    std::optional<std::size_t> stream_bytes;  ///< for that
    bool strict = false;
    bool verbose = false;

    /// Where results are made: adopted memory is memory that exists, so theirs is the device's.
    [[nodiscard]] MemoryKind result_memory() const noexcept {
        return memory == MemoryKind::adopted ? MemoryKind::device : memory;
    }
};

/// Adds --device, --memory, --strict, --verbose and the raw options. `options` must outlive the parsing.
void add_compute_options(CLI::App& command, ComputeOptions& options);

/// The device that --device names, or the best there is; kept in mind for `device_in_use`. Throws UsageError for options that
/// contradict each other.
Device open_device(const ComputeOptions& options);

/// The device that was opened, such as "host:0"; empty before. For messages of what is not a tandem::Error and knows of none.
const std::string& device_in_use() noexcept;

/// Measures a job from its making on, and tells about it when it is done.
class Summary {
public:
    /// Runs `work`, which waits for what it starts, and keeps how long that took.
    void time(const std::function<void()>& work);

    /// Keeps how many bytes follow the data of `input`, which no strict mode refused, to be told by `print`; `fate` is what
    /// becomes of them. A stream is not read on for that.
    void note_trailing_bytes(const Input& input, const RawOptions& options, std::string_view fate);

    /// Keeps a line to be told by `print`.
    void note(std::string line) { notes_.push_back(std::move(line)); }

    /// Prints one line to standard error where standard output is a terminal, or with --verbose. `what` is what was done in
    /// words, `result` an array of the computation, and `inputs` are what it was made from, of which it tells where they were;
    /// `file_bytes` were read and written, `moved_bytes` by the operation alone. A line for each note comes before.
    void print(const ComputeOptions& options, const std::string& what, const Array& result,
               std::initializer_list<const Array*> inputs, std::uint64_t file_bytes, std::uint64_t moved_bytes) const;
    /// The same for a job that worked through `file_bytes`, read and written, chunk by chunk on `device`.
    void print(const ComputeOptions& options, const std::string& what, const Device& device, std::uint64_t file_bytes) const;

private:
    void print_line(const ComputeOptions& options, const std::string& line) const;

    using Clock = std::chrono::steady_clock;
    Clock::time_point start_ = Clock::now();
    double operation_seconds_ = 0;
    std::vector<std::string> notes_;
};

}  // namespace tandem::command
