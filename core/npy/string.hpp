#pragma once
// Python's string literals.

#include <cstddef>
#include <string>

#include "core/npy/literal.hpp"

namespace tandem::npy {

/// Whether a string literal starts at `position`: a quote, perhaps behind a prefix such as `u`.
bool starts_string(const HeaderText& header, std::size_t position);

/// The position behind the string literal at `position`, where `starts_string` holds. Its value is appended to `*value` as UTF-8,
/// unless that is null. Throws bad_file for strings that do not end, bytes and formatted strings, and escapes that Python
/// refuses.
std::size_t scan_string(const HeaderText& header, std::size_t position, std::string* value);

/// The position of the next character at or behind `position` that is not white space.
std::size_t skip_space(const HeaderText& header, std::size_t position);

/// `text`, in the header's encoding, as UTF-8.
std::string to_utf8(const HeaderText& header, std::string_view text);

}  // namespace tandem::npy
