// tandem devices [--json]

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <tandem/tandem.hpp>

#include "tools/commands.hpp"
#include "tools/outputs.hpp"
#include "tools/text.hpp"

namespace tandem::command {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const DeviceInfo& device) {
    return {
        {"spec", device.spec},
        {"index", device.index},
        {"type", to_string(device.type)},
        {"name", device.name},
        {"platform", device.platform},
        {"driver", device.driver},
        {"uuid", device.uuid.empty() ? Json() : Json(device.uuid)},
        {"memory_bytes", device.memory_bytes},
        {"max_window_bytes", device.max_window_bytes},
        {"compute_units", device.compute_units},
        {"has_float64", device.has_float64},
        {"shares_host_memory", device.shares_host_memory},
    };
}

std::string json_text(const std::vector<BackendInfo>& backends) {
    Json list = Json::array();
    for (const BackendInfo& backend : backends) {
        Json devices = Json::array();
        for (const DeviceInfo& device : backend.devices)
            devices.push_back(to_json(device));
        list.push_back({{"name", backend.name},
                        {"available", !backend.devices.empty()},
                        {"reason", backend.devices.empty() ? Json(backend.reason) : Json()},
                        {"devices", std::move(devices)}});
    }
    // Drivers' names are bytes, and not always UTF-8.
    return list.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string plain_text(const std::vector<BackendInfo>& backends) {
    std::string text;
    const auto line = [&text](std::string_view label, const std::string& value) {
        if (!value.empty()) text += fmt::format("    {:<20}{}\n", label, one_line(value));
    };
    for (const BackendInfo& backend : backends) {
        text += text.empty() ? "" : "\n";
        if (backend.devices.empty()) {
            text += fmt::format("{}: not available: {}\n", backend.name, one_line(backend.reason));
            continue;
        }
        const std::size_t count = backend.devices.size();
        text += fmt::format("{}: {} device{}\n", backend.name, count, count == 1 ? "" : "s");
        for (const DeviceInfo& device : backend.devices) {
            text += fmt::format("  {}  {}\n", device.spec, one_line(device.name));
            line("type", std::string(to_string(device.type)));
            line("platform", device.platform);
            line("driver", device.driver);
            line("memory", size_text(device.memory_bytes));
            line("largest allocation", size_text(device.max_window_bytes));
            line("compute units", grouped(device.compute_units));
            line("float64", device.has_float64 ? "yes" : "no");
            line("shares host memory", device.shares_host_memory ? "yes" : "no");
            line("uuid", device.uuid);
        }
    }
    return text;
}

}  // namespace

void add_devices(CLI::App& app, std::function<void()>& job) {
    CLI::App* command = app.add_subcommand("devices", "Show every backend and device, or why there is none");
    const auto as_json = std::make_shared<bool>(false);
    command->add_flag("--json", *as_json, "One JSON array of backends, each with its devices");
    command->callback([as_json, &job] {
        job = [as_json] {
            const std::vector<BackendInfo> backends = list_backends();
            print(*as_json ? json_text(backends) : plain_text(backends));
        };
    });
}

}  // namespace tandem::command
