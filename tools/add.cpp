// tandem add A B -o OUT

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <tandem/tandem.hpp>

#include "tools/chunked.hpp"
#include "tools/commands.hpp"
#include "tools/compute.hpp"
#include "tools/loading.hpp"
#include "tools/outputs.hpp"
#include "tools/unfinished.hpp"

namespace tandem::command {
namespace {

struct Options : ComputeOptions {
    std::string left;
    std::string right;
    std::string output;
};

// Where both differ in something that must be equal, the second file is the one to blame, by the first's measure.
template <class Elements>
void check_pair(const Input& left, const Elements& a, const Input& right, const Elements& b) {
    const bool dtypes_differ = a.dtype() != b.dtype();
    if (!dtypes_differ && a.shape() == b.shape()) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} {} can't be added to {}, which is {} {}: {} must be equal", right.name, to_string(b.dtype()),
                            to_string(b.shape()), left.name, to_string(a.dtype()), to_string(a.shape()),
                            dtypes_differ ? "dtypes" : "shapes"));
}

void run(const Options& options) {
    Input left = find_input(options.left);
    Input right = find_input(options.right);
    if (left.is_stream && right.is_stream && left.identity == right.identity) {
        throw UsageError(fmt::format("{}: a stream can be read only once, so it can be only one of the inputs", right.name));
    }
    identify(left, options.raw);
    identify(right, options.raw);
    check_raw_options(options.raw, {&left, &right});
    const Output output = find_output(options.output, {&left, &right});

    check_is_whole(left);
    check_is_whole(right);
    check_is_whole(output);
    Summary summary;
    if (options.streams) {
        const std::vector<StreamInput> inputs{open_chunked(left, options), open_chunked(right, options)};
        check_pair(left, inputs[0], right, inputs[1]);
        for (const Input* input : {&left, &right})
            summary.note_trailing_bytes(*input, options.raw, "left out");
        stream_to(
            output, inputs, [](Queue& queue, std::span<const Array> in, const Array& out) { add(queue, in[0], in[1], out); },
            options, open_device(options), fmt::format("{} + {} -> {}", left.name, right.name, output.name), summary);
        return;
    }
    const Device device = open_device(options);
    const Array a = load(device, left, options.raw, options.strict, options.memory);
    const Array b = load(device, right, options.raw, options.strict, options.memory);
    check_pair(left, a, right, b);
    for (const Input* input : {&left, &right})
        summary.note_trailing_bytes(*input, options.raw, "left out");
    // Fortran order stays where both have it, as in NumPy.
    const bool fortran = !a.is_dense(Order::c) && a.is_dense(Order::fortran) && b.is_dense(Order::fortran);
    Array sum;
    naming(left.name, [&] {
        sum = empty(device, a.dtype(), a.shape(), options.result_memory(), fortran ? Order::fortran : Order::c);
        Queue queue(device);
        summary.time([&] {
            add(queue, a, b, sum);
            queue.synchronize();
        });
    });
    save(sum, output);
    const std::uint64_t bytes = 3 * std::uint64_t{sum.size_bytes()};
    summary.print(options, fmt::format("{} + {} -> {}", left.name, right.name, output.name), sum, {&a, &b}, bytes, bytes);
}

}  // namespace

void add_add(CLI::App& app, std::function<void()>& job) {
    CLI::App* command = app.add_subcommand("add", "Add two files, element by element");
    const auto options = std::make_shared<Options>();
    command
        ->add_option("A", options->left,
                     "A .npy file, ARCHIVE.npz:MEMBER, FILE:FIELD, a raw file with --dtype, or - for standard input")
        ->type_name("")
        ->required();
    command->add_option("B", options->right, "The same; dtype and shape must be A's")->type_name("")->required();
    command->add_option("-o,--output", options->output, output_help)->type_name("OUT")->required();
    add_compute_options(*command, *options);
    command->callback([options, &job] { job = [options] { run(*options); }; });
}

}  // namespace tandem::command
