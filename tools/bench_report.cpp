#include "tools/bench_report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/text.hpp"

namespace tandem::command {
namespace {

using Json = nlohmann::ordered_json;

Json number_or_null(double number, bool is_there) {
    return is_there ? Json(number) : Json();
}

Json text_or_null(const std::string& text) {
    return text.empty() ? Json() : Json(text);
}

Json to_json(const BenchDevice& device) {
    return {{"spec", device.info.spec},
            {"name", device.info.name},
            {"type", to_string(device.info.type)},
            {"driver", device.info.driver},
            {"memory_bytes", device.info.memory_bytes},
            {"shares_host_memory", device.info.shares_host_memory},
            {"note", text_or_null(device.note)}};
}

Json to_json(const BenchLimit& limit) {
    const bool is_measured = limit.measured.note.empty();
    return {{"device", text_or_null(limit.device)},
            {"name", limit.name},
            {"bytes", limit.size_bytes},
            {"bytes_per_second", number_or_null(limit.measured.bytes_per_second, is_measured)},
            {"cpu_seconds_per_gb", number_or_null(limit.measured.cpu_seconds_per_gb, is_measured)},
            {"note", text_or_null(limit.measured.note)}};
}

Json to_json(const BenchRow& row) {
    return {{"device", row.device},
            {"job", row.job},
            {"bytes", row.size_bytes},
            {"bytes_per_second", number_or_null(row.measured.bytes_per_second, row.is_measured())},
            {"cpu_seconds_per_gb", number_or_null(row.measured.cpu_seconds_per_gb, row.is_measured())},
            {"limit", text_or_null(row.limit)},
            {"limit_bytes_per_second", number_or_null(row.limit_measured.bytes_per_second, row.has_ratio())},
            {"limit_cpu_seconds_per_gb", number_or_null(row.limit_measured.cpu_seconds_per_gb, row.has_ratio())},
            {"ratio", number_or_null(row.has_ratio() ? row.ratio() : 0, row.has_ratio())},
            {"note", text_or_null(row.measured.note)}};
}

template <class Item>
Json list_of(const std::vector<Item>& items) {
    Json list = Json::array();
    for (const Item& item : items)
        list.push_back(to_json(item));
    return list;
}

std::string figures(const Measurement& measured) {
    return fmt::format("{:10.2f} {:8.3f}", measured.bytes_per_second / 1e9, measured.cpu_seconds_per_gb);
}

std::string line_of(const BenchLimit& limit) {
    const std::string& note = limit.measured.note;
    return fmt::format("  {:<32}{}\n", limit.name, note.empty() ? figures(limit.measured) : "  " + one_line(note));
}

std::string line_of(const BenchRow& row) {
    if (!row.is_measured()) return fmt::format("  {:<32}  {}\n", row.job, one_line(row.measured.note));
    if (!row.has_ratio()) return fmt::format("  {:<32}{}\n", row.job, figures(row.measured));
    return fmt::format("  {:<32}{}   {:5.2f} of {}, {}\n", row.job, figures(row.measured), row.ratio(),
                       figures(row.limit_measured), row.limit);
}

std::string limit_lines(const BenchReport& report, const std::string& device) {
    std::string text;
    for (const BenchLimit& limit : report.limits) {
        if (limit.device == device) text += line_of(limit);
    }
    return text;
}

}  // namespace

std::string conditions_text(const BenchReport& report) {
    const Machine& machine = report.machine;
    return fmt::format("{}, {} processor{}, {} of memory, {}; files of {} in {}; medians of {} round{}", one_line(machine.cpu),
                       machine.processors, machine.processors == 1 ? "" : "s", short_size_text(machine.memory_bytes),
                       one_line(machine.kernel), short_size_text(report.file_bytes), one_line(report.folder), report.rounds,
                       report.rounds == 1 ? "" : "s");
}

std::string table_text(const BenchReport& report) {
    std::string text =
        fmt::format("{}\n\n{:<34}{:>10} {:>8}\n", conditions_text(report), "limits of this machine", "GB/s", "CPU s/GB");
    text += limit_lines(report, "");
    for (const BenchDevice& device : report.devices) {
        const std::string name = fmt::format("{}  {}", device.info.spec, one_line(device.info.name));
        if (!device.note.empty()) {
            text += fmt::format("\n{}: {}\n", name, one_line(device.note));
            continue;
        }
        text += fmt::format("\n{}\n", name);
        if (const std::string lines = limit_lines(report, device.info.spec); !lines.empty()) {
            text += fmt::format("{:<34}{:>10} {:>8}\n{}", "  its limits", "GB/s", "CPU s/GB", lines);
        }
        text += fmt::format("{:<34}{:>10} {:>8}   {:<8} {:>10} {:>8}  limit, in turns\n", "  the library", "GB/s", "CPU s/GB",
                            "reaches", "GB/s", "CPU s/GB");
        for (const BenchRow& row : report.rows) {
            if (row.device == device.info.spec) text += line_of(row);
        }
    }
    return text;
}

std::string json_text(const BenchReport& report) {
    const Json object{{"version", TANDEM_VERSION},
                      {"machine",
                       {{"cpu", report.machine.cpu},
                        {"processors", report.machine.processors},
                        {"memory_bytes", report.machine.memory_bytes},
                        {"kernel", report.machine.kernel}}},
                      {"folder", report.folder},
                      {"file_bytes", report.file_bytes},
                      {"rounds", report.rounds},
                      {"devices", list_of(report.devices)},
                      {"limits", list_of(report.limits)},
                      {"rows", list_of(report.rows)}};
    // Drivers' names and paths are bytes, and not always UTF-8.
    return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tandem::command
