#pragma once
// Numbers as a person reads them.

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::command {

/// 1234567 as "1,234,567".
std::string grouped(std::uint64_t number);

/// "4,000,000 bytes (3.81 MiB)"; without the part in parentheses below 1 KiB.
std::string size_text(std::uint64_t size_bytes);

/// "3.81 MiB"; bytes below 1 KiB.
std::string short_size_text(std::uint64_t size_bytes);

/// "12 us", "3.4 ms", "1.27 s".
std::string duration_text(double seconds);

/// "0.86 GB/s": 10^9 bytes a second; smaller units where it is that slow. Empty where no time passed.
std::string rate_text(std::uint64_t size_bytes, double seconds);

/// `text` on one line that a terminal shows as it is: lines joined by "; ", other control characters escaped.
std::string one_line(std::string_view text);

}  // namespace tandem::command
