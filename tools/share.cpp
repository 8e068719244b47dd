// tandem share FILE --name N

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <tandem/tandem.hpp>

#include "tools/commands.hpp"
#include "tools/compute.hpp"
#include "tools/loading.hpp"
#include "tools/outputs.hpp"
#include "tools/process.hpp"
#include "tools/published.hpp"
#include "tools/unfinished.hpp"

namespace tandem::command {
namespace {

struct Options : ComputeOptions {
    std::string input;
    std::string name;
    bool read_only = false;
    bool json = false;
};

void run(const Options& options) {
    if (options.streams || options.memory == MemoryKind::adopted) {
        throw UsageError("--memory adopted and stream: only memory that the file was loaded to can be shared");
    }
    Input input = find_input(options.input);
    identify(input, options.raw);
    check_raw_options(options.raw, {&input});
    check_is_whole(input);
    // Loading may take long: a name that can't be had shows at once. An interrupt ends the loading, with no socket to be left.
    static_cast<void>(Publisher(options.name));
    const Device device = open_device(options);
    const Array array = load_shareable(device, input, options.raw, options.strict, options.memory);
    const InterruptWait interrupt;
    Publisher publisher(options.name);
    naming(input.name, [&] { publisher.add(array, "", {.is_writable = !options.read_only}); });
    const PublishedInfo info = published(options.name).at(0);
    print((options.json ? json_of(info).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) : line_of(info)) +
          "\n");
    if (options.verbose) print_error(fmt::format("{}: {}; {}", input.name, array.residency(), publisher.path().native()));
    interrupt.wait();
}

}  // namespace

void add_share(CLI::App& app, std::function<void()>& job) {
    CLI::App* command = app.add_subcommand(
        "share", "Load a file once, for other processes to attach its elements by a name, until an interrupt (SIGINT, SIGTERM)");
    const auto options = std::make_shared<Options>();
    command
        ->add_option("FILE", options->input,
                     "A .npy file, ARCHIVE.npz:MEMBER, FILE:FIELD, a raw file with --dtype, or - for standard input")
        ->type_name("")
        ->required();
    command
        ->add_option("--name", options->name,
                     "What 'tandem attach' takes. The socket is $XDG_RUNTIME_DIR/tandem/NAME.sock; one line is printed when it "
                     "answers")
        ->type_name("NAME")
        ->required();
    command->add_flag("--read-only", options->read_only, "Others may read the elements, not change them");
    command->add_flag("--json", options->json, "The line is a JSON object");
    add_compute_options(*command, *options);
    command->callback([options, &job] { job = [options] { run(*options); }; });
}

}  // namespace tandem::command
