// tandem forget: a file that an interrupted run in place has left, taken as it is.

#include <memory>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <tandem/tandem.hpp>

#include "core/printable.hpp"
#include "tools/commands.hpp"
#include "tools/inputs.hpp"
#include "tools/outputs.hpp"

namespace tandem::command {

void add_forget(CLI::App& app, std::function<void()>& job) {
    CLI::App* command =
        app.add_subcommand("forget",
                           "Take a file as it is that an interrupted run of double --in-place --memory stream has left: where "
                           "its old contents were put back, or new ones written to it. Removes the run's journal, "
                           "after which nothing tells how far the run had come");
    const auto file = std::make_shared<std::string>();
    command->add_option("FILE", *file, "A file that is said to be partly changed")->type_name("")->required();
    command->callback([file, &job] {
        job = [file] {
            const Input input = find_input(*file);
            naming(input, [&] {
                const bool was_there = forget_interrupted_run(MappedFile::open(input.path, {.may_stay_unmapped = true}));
                print(fmt::format("{}: {}\n", input.name,
                                  was_there ? "the interrupted run is forgotten" : "no run was interrupted"));
            });
        };
    });
}

}  // namespace tandem::command
