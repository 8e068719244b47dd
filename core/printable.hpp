#pragma once
// Text from outside (file names, file contents) as it may appear in a one-line message.

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

/// The bytes of the UTF-8 sequence that starts at `position`, 0 where there is no valid one (also for surrogates, overlong
/// forms and code points over U+10FFFF).
std::size_t utf8_sequence_bytes(std::string_view text, std::size_t position) noexcept;

/// `code_point` appended to `text` as UTF-8; it must not be a surrogate nor over U+10FFFF.
void append_utf8(std::string& text, char32_t code_point);

/// `text` with everything that could break or disguise a line escaped (`\n`, `\x1b`), cut behind `max_bytes` bytes of it.
std::string printable(std::string_view text, std::size_t max_bytes = std::string_view::npos);

/// The same for a short quotation of a file's content, in the quotes that it needs.
std::string in_quotes(std::string_view text);

}  // namespace tandem
