// Which backends and devices there are, and opening them.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>

#include "core/at_exit.hpp"
#include "core/device_state.hpp"
#include "core/driver.hpp"
#include "core/environment.hpp"
#include "tandem/device.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

struct OpenDevices {
    std::mutex mutex;
    std::map<std::string, std::weak_ptr<DeviceState>> by_spec;
};

// Never destroyed: it is asked when the process ends.
OpenDevices& open_devices() {
    static auto* const devices = new OpenDevices;
    return *devices;
}

BackendInfo describe(const driver::Registration& registration) {
    BackendInfo info;
    info.name = registration.name;
    if (registration.backend == nullptr) {
        info.reason = registration.absent_reason;
        return info;
    }
    try {
        info.devices = registration.backend().devices();
        if (info.devices.empty()) info.reason = "0 devices";
    } catch (const Error& error) {
        info.reason = error.what();
    }
    for (std::size_t i = 0; i < info.devices.size(); ++i) {
        info.devices[i].backend = info.name;
        info.devices[i].index = static_cast<int>(i);
        info.devices[i].spec = fmt::format("{}:{}", info.name, i);
    }
    return info;
}

std::string lower(std::string_view text) {
    std::string result(text);
    std::transform(result.begin(), result.end(), result.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return result;
}

std::string known_backends() {
    std::string names;
    for (const auto& registration : driver::registrations())
        names += fmt::format("{}{}", names.empty() ? "" : ", ", registration.name);
    return names;
}

// The device that `selector`, the part after the colon, names among those of `backend`.
const DeviceInfo& select(const BackendInfo& backend, std::string_view spec, std::string_view selector) {
    if (backend.devices.empty()) throw Error(ErrorCode::unavailable, fmt::format("{}: not available: {}", spec, backend.reason));
    std::size_t index = 0;
    const auto [end, status] = std::from_chars(selector.data(), selector.data() + selector.size(), index);
    if (selector.empty() || (status == std::errc() && end == selector.data() + selector.size())) {
        if (index < backend.devices.size()) return backend.devices[index];
        throw Error(ErrorCode::unavailable, fmt::format("{}: no such device: {} has {} (0 to {})", spec, backend.name,
                                                        backend.devices.size(), backend.devices.size() - 1));
    }
    const std::string wanted = lower(selector);
    for (const DeviceInfo& device : backend.devices) {
        if (lower(device.name).find(wanted) != std::string::npos || lower(device.platform).find(wanted) != std::string::npos)
            return device;
    }
    throw Error(ErrorCode::unavailable,
                fmt::format("{}: no device or platform of {} has \"{}\" in its name", spec, backend.name, selector));
}

DeviceInfo find_named(std::string_view spec) {
    const std::size_t colon = spec.find(':');
    const std::string_view name = spec.substr(0, colon);
    const std::string_view selector = colon == std::string_view::npos ? std::string_view() : spec.substr(colon + 1);
    if (colon != std::string_view::npos && selector.empty()) {
        throw Error(ErrorCode::invalid_argument, fmt::format("device \"{}\": an index or a name must follow the colon", spec));
    }
    for (const auto& registration : driver::registrations()) {
        if (name == registration.name) return select(describe(registration), spec, selector);
    }
    throw Error(ErrorCode::invalid_argument, fmt::format("device \"{}\": unknown backend; there are {}", spec, known_backends()));
}

DeviceInfo find_best() {
    std::vector<DeviceInfo> processors;
    for (const auto& registration : driver::registrations()) {
        for (DeviceInfo& device : describe(registration).devices) {
            if (device.type == DeviceType::gpu) return device;
            processors.push_back(std::move(device));
        }
    }
    // Accelerators and CPUs in the backends' order of preference; "host" is last and always there.
    return processors.front();
}

driver::Backend& backend_of(const DeviceInfo& info) {
    for (const auto& registration : driver::registrations()) {
        if (info.backend == registration.name && registration.backend != nullptr) return registration.backend();
    }
    throw Error(ErrorCode::internal, fmt::format("{}: its backend is not registered", info.spec));
}

}  // namespace

std::string_view to_string(DeviceType type) noexcept {
    switch (type) {
        case DeviceType::gpu:
            return "gpu";
        case DeviceType::accelerator:
            return "accelerator";
        case DeviceType::cpu:
            return "cpu";
    }
    return "?";
}

std::vector<BackendInfo> list_backends() {
    std::vector<BackendInfo> all;
    for (const auto& registration : driver::registrations())
        all.push_back(describe(registration));
    return all;
}

const DeviceInfo& Device::info() const noexcept {
    if (state_ != nullptr) return state_->native->info();
    static const auto& none = *new DeviceInfo;  // never destroyed: devices in static storage may outlive it
    return none;
}

void Device::throw_moved_from() {
    throw Error(ErrorCode::invalid_argument, "this device was moved from");
}

void finish_work_at_exit() noexcept {
    static const pid_t process = ::getpid();
    std::atexit([] {
        if (::getpid() != process) return;  // a fork's child has none of the threads that the work is waiting for
        std::vector<std::shared_ptr<DeviceState>> states;
        {
            OpenDevices& open = open_devices();
            const std::lock_guard lock(open.mutex);
            for (const auto& [spec, entry] : open.by_spec) {
                if (auto state = entry.lock()) states.push_back(std::move(state));
            }
        }
        for (const auto& state : states)
            state->finish();
    });
}

Device open_device(std::string_view spec) {
    const std::string preferred = spec.empty() ? environment::device() : std::string(spec);
    DeviceInfo info = preferred.empty() ? find_best() : find_named(preferred);

    OpenDevices& open = open_devices();
    const std::lock_guard lock(open.mutex);
    std::weak_ptr<DeviceState>& entry = open.by_spec[info.spec];
    if (auto state = entry.lock(); state != nullptr && !state->is_lost()) return Device(std::move(state));
    auto state = std::make_shared<DeviceState>(backend_of(info).open(info));
    entry = state;
    return Device(std::move(state));
}

}  // namespace tandem
