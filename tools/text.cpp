#include "tools/text.hpp"

#include <array>

#include <fmt/format.h>

#include "core/printable.hpp"

namespace tandem::command {

std::string grouped(std::uint64_t number) {
    std::string text = fmt::format("{}", number);
    for (std::size_t left = text.size(); left > 3; left -= 3)
        text.insert(left - 3, 1, ',');
    return text;
}

std::string size_text(std::uint64_t size_bytes) {
    std::string exact = fmt::format("{} byte{}", grouped(size_bytes), size_bytes == 1 ? "" : "s");
    return size_bytes < 1024 ? exact : fmt::format("{} ({})", exact, short_size_text(size_bytes));
}

std::string short_size_text(std::uint64_t size_bytes) {
    static constexpr std::array units{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (size_bytes < 1024) return fmt::format("{} byte{}", size_bytes, size_bytes == 1 ? "" : "s");
    double value = static_cast<double>(size_bytes) / 1024;
    std::size_t unit = 0;
    // What would round to 1024 of a unit is 1 of the next.
    while (value >= 1023.95 && unit + 1 < units.size()) {
        value /= 1024;
        ++unit;
    }
    return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : 1, units.at(unit));
}

std::string duration_text(double seconds) {
    if (seconds < 0.9995e-3) return fmt::format("{:.0f} us", seconds * 1e6);
    if (seconds < 0.9995) return fmt::format("{:.3g} ms", seconds * 1e3);
    return fmt::format("{:.2f} s", seconds);
}

std::string rate_text(std::uint64_t size_bytes, double seconds) {
    if (seconds <= 0) return {};
    const double rate = static_cast<double>(size_bytes) / seconds;
    if (rate < 1e5) return fmt::format("{:.3g} kB/s", rate / 1e3);
    if (rate < 1e8) return fmt::format("{:.3g} MB/s", rate / 1e6);
    return fmt::format("{:.3g} GB/s", rate / 1e9);
}

std::string one_line(std::string_view text) {
    std::string joined;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        const std::string_view line = text.substr(0, end);
        if (!line.empty()) joined += (joined.empty() ? "" : "; ") + printable(line);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return joined;
}

}  // namespace tandem::command
