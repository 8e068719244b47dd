#include "tools/chunked.hpp"

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "core/posix_file.hpp"
#include "tools/loading.hpp"
#include "tools/process.hpp"
#include "tools/progress.hpp"
#include "tools/text.hpp"

namespace tandem::command {
namespace {

StreamOptions stream_options(const ComputeOptions& options, const std::string& what) {
    StreamOptions stream;
    stream.memory_bytes = options.stream_bytes.value_or(stream.memory_bytes);
    stream.transfer = show_progress(what);
    return stream;
}

std::uint64_t bytes_of(const StreamInput& input) {
    return static_cast<std::uint64_t>(element_count(input.shape(), size_bytes(input.dtype()))) * size_bytes(input.dtype());
}

}  // namespace

StreamInput open_chunked(const Input& input, const ComputeOptions& options, FileAccess access) {
    if (input.is_stream) {
        throw UsageError(fmt::format("{}: --memory stream takes files alone; a pipe is read into memory first", input.name));
    }
    if (!input.field.empty()) {
        throw UsageError(fmt::format("{}: --memory stream does not take fields of structured files", input.name));
    }
    if (input.archive && input.member && input.archive->find(*input.member).compressed) {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("{}: it is compressed, and would be inflated into memory as a whole; --memory stream takes stored "
                        "members, another --memory takes this one",
                        input.name));
    }
    // For its checks, whose errors say how to go on.
    const Region region = find_region(input, options.raw, options.strict);
    if (input.is_raw) {
        return StreamInput::raw(MappedFile::open(input.path, {.access = access, .may_stay_unmapped = true}), region.dtype,
                                options.raw.shape, options.raw.offset_bytes.value_or(0));
    }
    const bool is_read = access == FileAccess::read;
    return {is_read ? open_npy(input, options.strict)
                    : npy::File::open(input.path, options.strict, {.access = access, .may_stay_unmapped = true}),
            options.raw.dtype};
}

void stream_to(const Output& output, const std::vector<StreamInput>& inputs, const StreamFunction& function,
               const ComputeOptions& options, const Device& device, const std::string& what, const Summary& summary) {
    if (output.member) {
        throw UsageError(
            fmt::format("{}: --memory stream writes .npy and raw files; an archive takes another --memory", output.name));
    }
    if (output.is_raw && inputs[0].order() == Order::fortran && inputs[0].shape().size() > 1) {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("{}: elements in Fortran order can't be streamed into a raw file, which has them in C order; use a "
                        ".npy file or another --memory",
                        output.name));
    }
    Queue queue(device);
    std::uint64_t bytes = bytes_of(inputs[0]);
    for (const StreamInput& input : inputs)
        bytes += bytes_of(input);
    WritingGuard guard(output.path);
    const DType dtype = inputs[0].dtype();
    stream(queue, inputs, output.is_raw ? StreamOutput::raw(output.path, dtype) : StreamOutput(output.path, dtype), function,
           stream_options(options, what));
    guard.set_done(output.name);
    summary.print(options, what, device, bytes);
}

void stream_over(const StreamInput& input, const std::string& operation, const StreamFunction& function,
                 const ComputeOptions& options, const Device& device, const std::string& what, Summary& summary) {
    const MappedFile& file = input.file();
    const std::optional<std::filesystem::path> earlier = interrupted_run(file);
    if (earlier && !is_run_under_way(*earlier))
        summary.note(fmt::format("{}: an interrupted run is finished", printable_path(file.path())));
    Queue queue(device);
    WritingGuard guard(file.path());
    try {
        stream_in_place(queue, input, operation, function, stream_options(options, what));
        guard.set_done(printable_path(file.path()));
    } catch (const Error& error) {
        // Not where there was a reason to leave the journal of another run alone.
        const std::optional<std::filesystem::path> journal = interrupted_run(file);
        const bool is_busy = error.native_code() == EWOULDBLOCK || (journal && is_run_under_way(*journal));
        if (error.code() == ErrorCode::bad_file || !journal || is_busy) throw;
        const std::string text = fmt::format("{}; the file is partly changed, and the same command finishes that", error.what());
        // The guard's end is the process's then.
        if (is_interrupted()) print_error(fmt::format("tandem: {}: {}", printable_path(file.path()), text));
        throw Error(error.code(), text, error.native_code());
    }
    summary.print(options, what, device, 2 * bytes_of(input));
}

}  // namespace tandem::command
