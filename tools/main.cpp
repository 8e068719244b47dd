// The tandem command: reads the command line, does one job, and turns what went wrong into an exit status and one line.

#include <algorithm>
#include <exception>
#include <new>
#include <sstream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <tandem/error.hpp>

#include "core/printable.hpp"
#include "tools/commands.hpp"
#include "tools/compute.hpp"
#include "tools/outputs.hpp"
#include "tools/process.hpp"
#include "tools/text.hpp"

namespace {

using namespace tandem::command;

constexpr int failed = 1;
constexpr int bad_usage = 2;

// CLI11 says of a word that is no command only that a command is missing.
std::string missing_command(const CLI::App& app) {
    std::string known;
    for (const CLI::App* command : app.get_subcommands(nullptr))
        known += (known.empty() ? "" : ", ") + command->get_name();
    const std::vector<std::string> words = app.remaining();
    return words.empty() ? fmt::format("a command is needed: {}", known)
                         : fmt::format("there is no command {}; there are {}", tandem::in_quotes(words.front()), known);
}

int report_usage(const CLI::App& app, std::string_view message) {
    const auto chosen = app.get_subcommands();
    const std::string command = chosen.empty() ? "tandem" : "tandem " + chosen.front()->get_name();
    print_error(fmt::format("tandem: {}\nTry '{} --help'.", one_line(message), command));
    return bad_usage;
}

bool is_option(const std::string& word) {
    return word.size() > 1 && word.front() == '-';
}

// CLI11 reports what is missing before what is too much, though the latter may have been meant for the former.
std::string usage_problem(const CLI::App& app, const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    if (chosen.empty()) return missing_command(app);
    const std::vector<std::string> words = chosen.front()->remaining();
    const auto unknown = std::find_if(words.begin(), words.end(), is_option);
    if (unknown == words.end()) return error.what();
    const std::string text = fmt::format("there is no option {}", tandem::in_quotes(*unknown));
    return unknown->starts_with("-:")
               ? fmt::format("{}; a field of standard input is named /dev/stdin{}", text, unknown->substr(1))
               : text;
}

// "double a.npy on host:0": what a message that says nothing of it was about.
std::string job_text(const CLI::App& app) {
    std::string text;
    for (const CLI::App* command : app.get_subcommands()) {
        text += command->get_name();
        for (const CLI::Option* option : command->get_options()) {
            if (!option->get_positional()) continue;
            for (const std::string& word : option->results())
                text += " " + word;
        }
    }
    return device_in_use().empty() ? text : text + " on " + device_in_use();
}

void report_failure(const CLI::App& app, std::string_view what) {
    const std::string job = job_text(app);
    print_error(fmt::format("tandem: {}{}{}", one_line(job), job.empty() ? "" : ": ", one_line(what)));
}

int run(int argc, char** argv) {
    CLI::App app("Arrays in files, computed on CUDA, OpenCL or this CPU.", "tandem");
    app.require_subcommand(1);
    app.set_version_flag("--version", "tandem " TANDEM_VERSION);
    std::function<void()> job;
    add_devices(app, job);
    add_info(app, job);
    add_add(app, job);
    add_double(app, job);
    add_share(app, job);
    add_attach(app, job);
    add_forget(app, job);
    add_bench(app, job);
    try {
        app.parse(argc, argv);
        guard_mapped_files(job_text(app));
        job();
    } catch (const CLI::Success& request) {
        std::ostringstream text;
        app.exit(request, text, text);
        print(text.str());
    } catch (const CLI::ParseError& error) {
        return report_usage(app, usage_problem(app, error));
    } catch (const UsageError& error) {
        return report_usage(app, error.what());
    } catch (const tandem::Error&) {
        throw;
    } catch (const std::bad_alloc&) {
        report_failure(app, "not enough host memory");
        return failed;
    } catch (const std::exception& error) {
        report_failure(app, error.what());
        return failed;
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    prepare_process();
    try {
        return run(argc, argv);
    } catch (const std::bad_alloc&) {
        print_error("tandem: host memory: not enough of it");
    } catch (const std::exception& error) {
        print_error(fmt::format("tandem: {}", one_line(error.what())));
    }
    return failed;
}
