// tandem double A -o OUT | --in-place

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <tandem/tandem.hpp>

#include "core/adoption.hpp"
#include "core/transport/journal.hpp"
#include "tools/chunked.hpp"
#include "tools/commands.hpp"
#include "tools/compute.hpp"
#include "tools/loading.hpp"
#include "tools/outputs.hpp"
#include "tools/unfinished.hpp"

namespace tandem::command {
namespace {

struct Options : ComputeOptions {
    std::string input;
    std::optional<std::string> output;
    bool in_place = false;
};

void run_to_output(const Options& options, const Input& input) {
    const Output output = find_output(*options.output, {&input});
    check_is_whole(output);
    Summary summary;
    const Device device = open_device(options);
    const Array in = load(device, input, options.raw, options.strict, options.memory);
    summary.note_trailing_bytes(input, options.raw, "left out");
    Array out;
    naming(input.name, [&] {
        out = empty_like(in, options.result_memory());
        Queue queue(device);
        summary.time([&] {
            twice(queue, in, out);
            queue.synchronize();
        });
    });
    save(out, output);
    const std::uint64_t bytes = 2 * std::uint64_t{out.size_bytes()};
    summary.print(options, fmt::format("2 x {} -> {}", input.name, output.name), out, {&in}, bytes, bytes);
}

Shape shape_of(const Region& region) {
    return {static_cast<std::int64_t>(region.size_bytes)};
}

// Doubles the elements that `region` names among `bytes`, which are all that it spans, and waits; the elements.
Array double_elements(const Region& region, const Array& bytes, Summary& summary) {
    Array elements = bytes;
    if (bytes.count() != 0) {
        const auto first = static_cast<std::int64_t>(region.element_offset_bytes);
        const auto end = first + static_cast<std::int64_t>(region.element_bytes);
        elements = bytes.reshape({-1, static_cast<std::int64_t>(region.item_bytes)}).slice(1, first, end).view_as(region.dtype);
    }
    Queue queue(bytes.device());
    summary.time([&] {
        if (region.swapped) byteswap(queue, elements, elements);
        twice(queue, elements);
        if (region.swapped) byteswap(queue, elements, elements);
        queue.synchronize();
    });
    return elements;
}

// The region's bytes in the file itself, to be written to. Nothing where the device would not work on them in place for certain:
// `summary` then tells why.
std::optional<Array> map_region(const Device& device, const Input& input, const Region& region, Summary& summary) {
    std::string why_not = improper_reason(region.dtype, region.swapped);
    try {
        if (why_not.empty()) {
            Array bytes = raw::map(device, input.path, uint8, shape_of(region), region.offset_bytes, FileAccess::read_write,
                                   {.require_zero_copy = true});
            check_is_same(region.file);
            return bytes;
        }
    } catch (const Error& error) {
        if (error.code() != ErrorCode::unsupported) throw;
        why_not = error.what();
    }
    summary.note(fmt::format("{}: not written to, but replaced by a new file: {}", input.name, why_not));
    return {};
}

void refuse_times(const Input& input, const Region& region) {
    if (!region.is_time) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: its items are dates or durations and would stay such, but for NaT, which doubled is no NaT; "
                            "with -o their counts become a file of int64",
                            input.name));
}

void run_in_place(const Options& options, const Input& input) {
    Summary summary;
    const Device device = open_device(options);
    const Region region = find_region(input, options.raw, options.strict);
    const FileDescriptor lock = lock_file(region.file);
    check_is_whole(input);  // and stays so
    refuse_times(input, region);
    summary.note_trailing_bytes(input, options.raw, "kept");
    naming(input.name, [&] {
        std::optional<Array> mapped;
        if (options.memory == MemoryKind::adopted) mapped = map_region(device, input, region, summary);
        // Else as bytes, of which those that are doubled are a view: header, byte order, other fields and what follows the data
        // go back as they were.
        const Array bytes = mapped ? *mapped
                                   : raw::load(device, region.file, uint8, shape_of(region), region.offset_bytes,
                                               {.kind = options.result_memory()});
        const Array elements = double_elements(region, bytes, summary);
        if (mapped) {
            flush_to_storage(input.path);
        } else {
            replace_region(region, bytes);
        }
        summary.print(options, fmt::format("2 x {} in place", input.name), elements, {&bytes}, 2 * region.size_bytes,
                      2 * std::uint64_t{elements.size_bytes()});
    });
}

void run_streaming(const Options& options, const Input& input) {
    const StreamFunction function = [](Queue& queue, std::span<const Array> inputs, const Array& output) {
        twice(queue, inputs[0], output);
    };
    Summary summary;
    if (options.in_place) {
        refuse_times(input, find_region(input, options.raw, options.strict));
        const StreamInput in = open_chunked(input, options, FileAccess::read_write);
        summary.note_trailing_bytes(input, options.raw, "kept");
        const Device device = open_device(options);
        naming(input.name, [&] {
            stream_over(in, "double", function, options, device, fmt::format("2 x {} in place", input.name), summary);
        });
        return;
    }
    check_is_whole(input);
    const Output output = find_output(*options.output, {&input});
    check_is_whole(output);
    const std::vector<StreamInput> inputs{open_chunked(input, options)};
    summary.note_trailing_bytes(input, options.raw, "left out");
    const Device device = open_device(options);
    stream_to(output, inputs, function, options, device, fmt::format("2 x {} -> {}", input.name, output.name), summary);
}

// The new file takes the old one's place, which only files with a name have.
void check_place(const Input& input) {
    std::error_code ignored;
    if (input.is_stream || named_descriptor(input.path) || std::filesystem::is_block_file(input.path, ignored)) {
        throw UsageError(fmt::format("{}: only a file can be replaced in place, by its own name; use -o", input.name));
    }
}

void run(const Options& options) {
    if (options.in_place && options.output) throw UsageError("-o and --in-place exclude each other");
    if (!options.in_place && !options.output) throw UsageError("-o OUT or --in-place is needed");
    Input input = find_input(options.input);
    if (options.in_place) check_place(input);
    identify(input, options.raw);
    check_raw_options(options.raw, {&input});
    if (options.in_place && input.archive) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: a whole file can be replaced in place, an archive's member can't; use -o", input.name));
    }
    if (options.streams) {
        run_streaming(options, input);
        return;
    }
    check_is_whole(input);
    if (options.in_place) {
        run_in_place(options, input);
    } else {
        run_to_output(options, input);
    }
}

}  // namespace

void add_double(CLI::App& app, std::function<void()>& job) {
    CLI::App* command = app.add_subcommand("double", "Double a file's elements");
    const auto options = std::make_shared<Options>();
    command
        ->add_option("A", options->input,
                     "A .npy file, ARCHIVE.npz:MEMBER, FILE:FIELD, a raw file with --dtype, or - for standard input")
        ->type_name("")
        ->required();
    command->add_option("-o,--output", options->output, output_help)->type_name("OUT");
    command->add_flag(
        "--in-place", options->in_place,
        "Replace the file's elements; all else in it stays as it is. A new file takes the old one's place: other hard links "
        "to that keep the old data. With --memory adopted the file itself is written to where the device can, which is not "
        "atomic: an interrupted run leaves it partly doubled. With --memory stream it is written to chunk by chunk, and an "
        "interrupted run leaves a journal beside it, by which the same command finishes it");
    add_compute_options(*command, *options);
    command->callback([options, &job] { job = [options] { run(*options); }; });
}

}  // namespace tandem::command
