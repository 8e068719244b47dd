#include "tools/compute.hpp"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "core/printable.hpp"
#include "tools/loading.hpp"
#include "tools/outputs.hpp"
#include "tools/text.hpp"

namespace tandem::command {
namespace {

// The kinds have no list; their names end where the library knows no more.
std::vector<std::string_view> memory_kinds() {
    std::vector<std::string_view> names;
    for (std::uint8_t number = 0; to_string(static_cast<MemoryKind>(number)) != "?"; ++number)
        names.push_back(to_string(static_cast<MemoryKind>(number)));
    return names;
}

MemoryKind parse_memory_kind(const std::string& text) {
    const std::vector<std::string_view> names = memory_kinds();
    const auto found = std::find(names.begin(), names.end(), text);
    if (found != names.end()) return static_cast<MemoryKind>(found - names.begin());
    throw UsageError(fmt::format("--memory {}: there are {}, stream", in_quotes(text), fmt::join(names, ", ")));
}

std::string& opened_device() {
    static std::string spec;
    return spec;
}

}  // namespace

Device open_device(const ComputeOptions& options) {
    if (options.stream_bytes && !options.streams) throw UsageError("--stream-memory is for --memory stream");
    Device device = tandem::open_device(options.device);
    opened_device() = device.spec();
    return device;
}

const std::string& device_in_use() noexcept {
    return opened_device();
}

void add_compute_options(CLI::App& command, ComputeOptions& options) {
    command.add_option("--device", options.device, "cuda:0, opencl, opencl:NAME, host, ...; see 'tandem devices'")
        ->type_name("D");
    command
        .add_option_function<std::string>(
            "--memory",
            [&options](const std::string& text) {
                options.streams = text == "stream";
                if (!options.streams) options.memory = parse_memory_kind(text);
            },
            fmt::format("Where the data is while computing: {} (the files themselves, in place where the device can), or stream: "
                        "chunk by chunk, for files of any size",
                        fmt::join(memory_kinds(), ", ")))
        ->type_name("KIND");
    command
        .add_option("--stream-memory", options.stream_bytes,
                    "Bytes that --memory stream may take of the device and of pinned memory, such as 512MB; 1 GiB without")
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 62U))
        ->type_name("BYTES");
    command.add_flag("--strict", options.strict, "Refuse files with bytes behind their data");
    command.add_flag("-v,--verbose", options.verbose, "Tell what was done, where the data was, and how fast it went");
    add_raw_options(command, options.raw);
}

void Summary::time(const std::function<void()>& work) {
    const Clock::time_point start = Clock::now();
    work();
    operation_seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
}

void Summary::note_trailing_bytes(const Input& input, const RawOptions& options, std::string_view fate) {
    if (input.is_stream) return;
    const std::uint64_t count = count_trailing_bytes(input, options);
    if (count == 0) return;
    notes_.push_back(fmt::format("{}: {} byte{} behind the data, {}", input.name, grouped(count), count == 1 ? "" : "s", fate));
}

void Summary::print(const ComputeOptions& options, const std::string& what, const Array& result,
                    std::initializer_list<const Array*> inputs, std::uint64_t file_bytes, std::uint64_t moved_bytes) const {
    std::vector<std::string> places;
    for (const Array* input : inputs) {
        if (places.empty() || places.back() != input->residency()) places.push_back(input->residency());
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    print_line(options, fmt::format("{}: {} {} on {} ({}); {} in and out in {}, {}; the operation alone {}, {}", what,
                                    grouped(static_cast<std::uint64_t>(result.count())), to_string(result.dtype()),
                                    result.device().spec(), fmt::join(places, ") and ("), short_size_text(file_bytes),
                                    duration_text(seconds), rate_text(file_bytes, seconds), duration_text(operation_seconds_),
                                    rate_text(moved_bytes, operation_seconds_)));
}

void Summary::print(const ComputeOptions& options, const std::string& what, const Device& device,
                    std::uint64_t file_bytes) const {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    print_line(options, fmt::format("{}: chunk by chunk on {}; {} in and out in {}, {}", what, device.spec(),
                                    short_size_text(file_bytes), duration_text(seconds), rate_text(file_bytes, seconds)));
}

void Summary::print_line(const ComputeOptions& options, const std::string& line) const {
    if (!options.verbose && ::isatty(STDOUT_FILENO) == 0) return;
    for (const std::string& note : notes_)
        print_error(note);
    print_error(one_line(line));
}

}  // namespace tandem::command
