// tandem bench [--device D] [--json F] [--plot F.svg]

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <span>
#include <thread>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <tandem/tandem.hpp>

#include "core/output_file.hpp"
#include "core/posix_file.hpp"
#include "tools/bench_jobs.hpp"
#include "tools/bench_report.hpp"
#include "tools/chart.hpp"
#include "tools/commands.hpp"
#include "tools/outputs.hpp"
#include "tools/process.hpp"
#include "tools/text.hpp"

namespace tandem::command {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20U;
constexpr std::uint64_t min_bytes = 4096;
constexpr std::uint64_t max_bytes = std::uint64_t{1} << 62U;
constexpr std::uint64_t max_file_bytes = 1024 * mebibyte;
constexpr std::uint64_t max_write_bytes = 128 * mebibyte;  // what is flushed takes the storage's time
constexpr std::uint64_t max_gpu_array_bytes = 1024 * mebibyte;
constexpr std::uint64_t max_cpu_array_bytes = 256 * mebibyte;

struct Options {
    std::string device;  ///< empty: all there are
    std::string json, plot;
    std::filesystem::path folder;  ///< empty: the system's for temporary files
    std::optional<std::uint64_t> array_bytes, file_bytes;
    int rounds = Effort().rounds;
};

std::uint64_t whole_elements(std::uint64_t bytes) {
    return std::max(min_bytes, bytes / 4 * 4);
}

void check_size(const char* option, const std::optional<std::uint64_t>& bytes) {
    if (bytes && *bytes < min_bytes)
        throw UsageError(fmt::format("{} {}: at least {} bytes are needed", option, *bytes, min_bytes));
    if (bytes && *bytes > max_bytes) throw UsageError(fmt::format("{} {}: at most {} bytes", option, *bytes, max_bytes));
}

// What fits beside others: a host device holds the file's elements twice, and the page cache once more.
std::uint64_t choose_file_bytes(const Options& options, const std::filesystem::path& folder) {
    const std::uint64_t free = free_bytes(folder);
    const std::uint64_t bytes =
        whole_elements(options.file_bytes.value_or(std::min({max_file_bytes, available_memory_bytes() / 8, free / 8})));
    // The file that is read, and one that is written.
    const std::uint64_t needed = bytes + std::min(bytes, max_write_bytes);
    if (needed > free) {
        throw Error(ErrorCode::io, fmt::format("{}: {} bytes needed for files of {}, {} are free", printable_path(folder), needed,
                                               short_size_text(bytes), free));
    }
    return bytes;
}

std::uint64_t choose_array_bytes(const Options& options, const DeviceInfo& device) {
    const std::uint64_t most = device.type == DeviceType::cpu ? max_cpu_array_bytes : max_gpu_array_bytes;
    // Pinned memory is the host's.
    return whole_elements(options.array_bytes.value_or(std::min({most, device.memory_bytes / 8, available_memory_bytes() / 8})));
}

std::vector<DeviceInfo> chosen_devices(const Options& options) {
    if (!options.device.empty()) return {open_device(options.device).info()};
    std::vector<DeviceInfo> devices;
    for (const BackendInfo& backend : list_backends())
        devices.insert(devices.end(), backend.devices.begin(), backend.devices.end());
    return devices;
}

// What is being measured, on a terminal's line, which is empty again in the end.
class StatusLine {
public:
    StatusLine() = default;
    ~StatusLine() { show({}); }
    StatusLine(const StatusLine&) = delete;
    StatusLine& operator=(const StatusLine&) = delete;

    static void show(const std::string& what) {
        if (::isatty(STDERR_FILENO) == 0) return;
        const std::string line = "\r" + what + "\x1b[K";
        static_cast<void>(::write(STDERR_FILENO, line.data(), line.size()) < 0);
    }
};

void measure_devices(BenchReport& report, const Options& options, const ScratchFolder& folder, const ScratchFile& file,
                     BenchPlan& plan) {
    DeviceInfo host;
    host.memory_bytes = report.machine.memory_bytes;
    plan.array_bytes = choose_array_bytes(options, host);
    const Limits limits = measure_limits(folder, file, plan, report);
    for (BenchDevice& device : report.devices) {
        plan.array_bytes = choose_array_bytes(options, device.info);
        std::optional<Device> opened;
        try {
            opened = tandem::open_device(device.info.spec);
        } catch (const Error& error) {
            if (!options.device.empty()) throw;
            device.note = error.what();
            continue;
        }
        measure_device(*opened, limits, folder, file, plan, report);
    }
}

BenchReport measure_all(const Options& options, const std::filesystem::path& parent) {
    BenchReport report;
    report.machine = this_machine();
    report.rounds = options.rounds;
    for (DeviceInfo& info : chosen_devices(options))
        report.devices.push_back({std::move(info), {}});
    report.folder = parent.native();

    const ScratchFolder folder(parent);
    report.file_bytes = choose_file_bytes(options, folder.path());
    const StatusLine status;
    StatusLine::show("making a file");
    const ScratchFile file(folder.path() / "elements.npy", static_cast<std::int64_t>(report.file_bytes / 4));
    BenchPlan plan;
    plan.write_bytes = std::min(file.size_bytes(), max_write_bytes);
    plan.threads = report.machine.processors;
    plan.effort.rounds = options.rounds;
    plan.announce = StatusLine::show;
    measure_devices(report, options, folder, file, plan);
    return report;
}

Chart chart_of(const BenchReport& report) {
    Chart chart;
    chart.title = "tandem " TANDEM_VERSION ": what the library reaches of this machine's limits";
    chart.description = conditions_text(report) + "; gray: the limit, in turns with it";
    for (const BenchDevice& device : report.devices) {
        BarGroup group{one_line(fmt::format("{}  {}", device.info.spec, device.info.name)), {}};
        if (!device.note.empty()) group.bars.push_back({"", one_line(device.note), -1, false});
        for (const BenchRow& row : report.rows) {
            if (row.device != device.info.spec) continue;
            Bar bar{row.job, one_line(row.measured.note), -1, false};
            const std::string rate = fmt::format("{:.2f} GB/s", row.measured.bytes_per_second / 1e9);
            if (row.has_ratio()) {
                bar = {row.job,
                       fmt::format("{}, {:.2f} of {:.2f} GB/s ({})", rate, row.ratio(), row.limit_measured.bytes_per_second / 1e9,
                                   row.limit),
                       row.ratio(), true};
            } else if (row.is_measured()) {
                bar = {row.job, rate + ", no limit measured", 0, false};
            }
            group.bars.push_back(std::move(bar));
        }
        chart.groups.push_back(std::move(group));
    }
    return chart;
}

void write_whole(std::optional<OutputFile>& file, const std::string& text) {
    if (!file) return;
    file->write(std::as_bytes(std::span(text)));
    file->commit();
}

BenchReport measure_and_write(const Options& options) {
    const std::filesystem::path parent = options.folder.empty() ? std::filesystem::temp_directory_path() : options.folder;
    // An interrupt waits until the files are gone again.
    const WritingGuard guard(parent / "tandem-bench-XXXXXX");
    // Before the work, which would be lost where they can't be written.
    std::optional<OutputFile> json, plot;
    if (!options.json.empty()) json.emplace(options.json);
    if (!options.plot.empty()) plot.emplace(options.plot);
    BenchReport report = measure_all(options, parent);
    write_whole(json, json_text(report));
    write_whole(plot, svg_text(chart_of(report)));
    return report;
}

void run(const Options& options) {
    check_size("--size", options.array_bytes);
    check_size("--file-size", options.file_bytes);
    if (options.rounds < 1) throw UsageError(fmt::format("--rounds {}: at least 1 is needed", options.rounds));
    print(table_text(measure_and_write(options)));
}

}  // namespace

void add_bench(CLI::App& app, std::function<void()>& job) {
    CLI::App* command = app.add_subcommand("bench", "Measure this machine's limits and what the library reaches of each");
    const auto options = std::make_shared<Options>();
    command->add_option("--device", options->device, "cuda:0, opencl, opencl:NAME, host, ...; all there are without")
        ->type_name("D");
    command->add_option("--json", options->json, "File for the figures as one JSON object")->type_name("F");
    command->add_option("--plot", options->plot, "File for a bar chart (SVG)")->type_name("F.svg");
    command
        ->add_option("--size", options->array_bytes,
                     "Bytes of an array in memory, such as 512MB; as the memory allows without, 1 GiB at most")
        ->transform(CLI::AsSizeValue(false))
        ->type_name("BYTES");
    command
        ->add_option("--file-size", options->file_bytes,
                     "Bytes of the file that is read; as memory and storage allow without, 1 GiB at most")
        ->transform(CLI::AsSizeValue(false))
        ->type_name("BYTES");
    command->add_option("--folder", options->folder, "Where files are made for the time being; the folder for such without")
        ->type_name("PATH");
    command->add_option("--rounds", options->rounds, "How often each thing is measured at most; the median counts")
        ->type_name("N");
    command->callback([options, &job] { job = [options] { run(*options); }; });
}

}  // namespace tandem::command
