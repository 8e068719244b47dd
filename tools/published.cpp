#include "tools/published.hpp"

#include <fmt/format.h>

#include "core/printable.hpp"
#include "tools/text.hpp"

namespace tandem::command {

std::string line_of(const PublishedInfo& info) {
    if (!info.is_answering) {
        const std::string process = info.pid == 0 ? std::string("its process") : fmt::format("process {}", info.pid);
        return fmt::format("{}: {} does not answer", printable(info.name), process);
    }
    return fmt::format("{}: {} {}, {} of {}{}, process {}{}{}", printable(info.name), to_string(info.dtype),
                       to_string(info.shape), size_text(info.size_bytes), to_string(info.method),
                       info.device.empty() ? "" : " on " + info.device, info.pid, info.is_writable ? "" : ", to be read only",
                       info.has_fence ? ", with a fence" : "");
}

nlohmann::ordered_json json_of(const PublishedInfo& info) {
    if (!info.is_answering) return {{"name", info.name}, {"answers", false}, {"pid", info.pid}, {"user", info.user}};
    const std::int64_t count = element_count(info.shape, size_bytes(info.dtype));
    return {{"name", info.name},
            {"answers", true},
            {"dtype", to_string(info.dtype)},
            {"shape", info.shape},
            {"nbytes", static_cast<std::uint64_t>(count) * size_bytes(info.dtype)},
            {"shared_bytes", info.size_bytes},
            {"method", to_string(info.method)},
            {"memory", to_string(info.kind)},
            {"device", info.device.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(info.device)},
            {"writable", info.is_writable},
            {"fence", info.has_fence},
            {"pid", info.pid},
            {"user", info.user}};
}

}  // namespace tandem::command
