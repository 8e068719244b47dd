// tandem attach [NAME [--sum] [--min] [--max] [--double] [--save OUT]]

#include <chrono>
#include <cmath>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <tandem/tandem.hpp>

#include "core/printable.hpp"
#include "tools/commands.hpp"
#include "tools/compute.hpp"
#include "tools/outputs.hpp"
#include "tools/process.hpp"
#include "tools/published.hpp"
#include "tools/text.hpp"
#include "tools/unfinished.hpp"

namespace tandem::command {
namespace {

using Json = nlohmann::ordered_json;

struct Options : ComputeOptions {
    std::string name;
    std::optional<std::string> output;
    bool sum = false;
    bool min = false;
    bool max = false;
    bool doubles = false;
    bool json = false;

    [[nodiscard]] bool has_work() const { return sum || min || max || doubles || output; }
};

// An element as Python's json module writes it, which has words for infinities and NaN.
template <class T>
std::string value_text(T value) {
    if constexpr (std::is_same_v<T, bool>) {
        return value ? "true" : "false";
    } else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
        return value_text(static_cast<float>(value));
    } else if constexpr (std::is_floating_point_v<T>) {
        if (std::isnan(value)) return "NaN";
        if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
        return fmt::format("{}", value);
    } else if constexpr (std::is_integral_v<T>) {
        return fmt::format("{}", value);
    } else {
        return fmt::format("[{}, {}]", value_text(value.real()), value_text(value.imag()));
    }
}

std::string item_text(Queue& queue, const Array& array) {
    switch (array.dtype()) {
#define TANDEM_X(name, type, code) \
    case DType::name:              \
        return value_text(item<type>(queue, array));
        TANDEM_FOR_EACH_DTYPE(TANDEM_X)
#undef TANDEM_X
    }
    return {};
}

std::string json_text(const std::vector<PublishedInfo>& infos) {
    Json list = Json::array();
    for (const PublishedInfo& info : infos)
        list.push_back(json_of(info));
    return list.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void list(const std::vector<PublishedInfo>& infos, bool as_json) {
    std::string text = as_json ? json_text(infos) : std::string();
    for (const PublishedInfo& info : infos) {
        if (!as_json) text += line_of(info) + "\n";
    }
    print(text);
}

void describe(const PublishedInfo& info, const Array& array, bool as_json) {
    if (as_json) {
        Json object = json_of(info);
        object["attached"] = {{"device", array.device().spec()},
                              {"strides", array.strides_bytes()},
                              {"zero_copy", to_string(array.zero_copy())},
                              {"residency", array.residency()}};
        print(object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
        return;
    }
    std::string text;
    const auto line = [&text](std::string_view label, const std::string& value) {
        text += fmt::format("{:<16}{}\n", label, value);
    };
    line("name", printable(info.name));
    line("items", std::string(to_string(info.dtype)));
    line("shape", to_string(info.shape));
    line("shared", fmt::format("{} of {}{}", size_text(info.size_bytes), to_string(info.method),
                               info.is_writable ? "" : ", to be read only"));
    line("publisher",
         fmt::format("process {} of user {}{}", info.pid, info.user,
                     info.device.empty() ? std::string() : fmt::format(", {} memory of {}", to_string(info.kind), info.device)));
    if (info.has_fence) line("fence", "yes");
    line("attached", fmt::format("on {}, zero copy: {}; {}", array.device().spec(), to_string(array.zero_copy()),
                                 one_line(array.residency())));
    print(text);
}

// Runs parts of a job that don't depend on each other: what fails keeps none of the others from their results.
class Parts {
public:
    template <class Work>
    void attempt(Work&& work) {
        try {
            work();
        } catch (const Error& error) {
            if (code_) messages_ += "; ";
            messages_ += error.what();
            if (!code_) code_ = error.code();
        }
    }
    [[nodiscard]] bool has_failed() const { return code_.has_value(); }
    /// Throws what has failed, as one error with the first one's code.
    void check() const {
        if (code_) throw Error(*code_, messages_);
    }

private:
    std::optional<ErrorCode> code_;
    std::string messages_;
};

void work(const Options& options, const Array& array) {
    const std::string name = in_quotes(options.name);
    std::optional<OpenOutput> output;
    if (options.output) {
        const Input source;
        const Output found = find_output(*options.output, {&source});
        naming(found.name, [&] { output.emplace(found); });
        if (options.doubles) naming(found.name, [&] { output->take_space_for(array); });
    }
    Queue queue(array.device());
    if (options.doubles) {
        naming(name, [&] {
            twice(queue, array);
            queue.synchronize();
        });
    }
    Parts parts;
    std::vector<std::string> results;
    const auto tell = [&](std::string_view label, bool is_wanted, Array (*compute)(Queue&, const Array&)) {
        if (!is_wanted) return;
        check_interrupt();
        parts.attempt([&] {
            naming(name, [&] {
                const std::string text = item_text(queue, compute(queue, array));
                results.push_back(fmt::format("{0}{1}{0}: {2}", options.json ? "\"" : "", label, text));
            });
        });
    };
    tell("sum", options.sum, [](Queue& on, const Array& of) { return sum(on, of); });
    tell("min", options.min, [](Queue& on, const Array& of) { return min(on, of); });
    tell("max", options.max, [](Queue& on, const Array& of) { return max(on, of); });
    if (output) parts.attempt([&] { output->save(array); });
    const std::string text =
        options.json ? fmt::format("{{{}}}", fmt::join(results, ", ")) : fmt::format("{}", fmt::join(results, "\n"));
    if (!results.empty() || (options.json && !parts.has_failed())) {
        if (output && output->is_standard_output()) {
            print_error(text);  // what lies between a file's bytes is no text any more
        } else {
            parts.attempt([&] { print(text + "\n"); });
        }
    }
    parts.check();
}

void run(const Options& options) {
    if (options.name.empty()) {
        if (options.has_work()) throw UsageError("--sum, --min, --max, --double and --save need the NAME of an array");
        // A publisher that lives answers within milliseconds.
        list(published({.timeout = std::chrono::seconds(2)}), options.json);
        return;
    }
    if (options.output) check_is_whole(find_output(*options.output, {}));
    const std::vector<PublishedInfo> infos = published(options.name);
    const bool is_one = !infos.empty() && infos[0].name == options.name;
    if (!is_one && !options.has_work()) {
        list(infos, options.json);
        return;
    }
    const Device device = open_device(options);
    const Array array = attach(device, options.name);
    if (options.has_work()) {
        work(options, array);
    } else {
        describe(infos[0], array, options.json);
    }
}

}  // namespace

void add_attach(CLI::App& app, std::function<void()>& job) {
    CLI::App* command = app.add_subcommand(
        "attach", "Work on an array that 'tandem share', or another program, has published; without a NAME, list what there is");
    const auto options = std::make_shared<Options>();
    command->add_option("NAME", options->name, "What is attached: NAME, or NAME/KEY of a program that publishes several arrays")
        ->type_name("");
    command->add_option("--device", options->device, "cuda:0, opencl, opencl:NAME, host, ...; see 'tandem devices'")
        ->type_name("D");
    command->add_flag("--double", options->doubles,
                      "Double the elements first, in the shared memory itself: all who have it see that, and nothing orders it "
                      "against what they do meanwhile");
    command->add_flag("--sum", options->sum, "Print the sum of all elements");
    command->add_flag("--min", options->min, "Print the smallest element");
    command->add_flag("--max", options->max, "Print the largest element");
    command
        ->add_option("--save", options->output,
                     std::string(output_help) +
                         ". It is opened before anything is changed; where it is standard output, results go "
                         "to standard error")
        ->type_name("OUT");
    command->add_flag("--json", options->json, "JSON: one object, or an array of them for a list");
    command->callback([options, &job] { job = [options] { run(*options); }; });
}

}  // namespace tandem::command
