#include "core/printable.hpp"

#include <iterator>

#include <fmt/format.h>

namespace tandem {
namespace {

constexpr std::size_t max_quoted_bytes = 48;

unsigned char byte_at(std::string_view text, std::size_t position) {
    return static_cast<unsigned char>(text[position]);
}

char32_t decode(std::string_view sequence) {
    char32_t code_point = byte_at(sequence, 0) & (0xffU >> (sequence.size() == 1 ? 1U : sequence.size() + 1U));
    for (std::size_t i = 1; i < sequence.size(); ++i) {
        code_point = (code_point << 6U) | (byte_at(sequence, i) & 0x3fU);
    }
    return code_point;
}

// Control characters, and those that reorder or hide what stands beside them.
bool is_deceptive(char32_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff0 && c <= 0xffff) ||
           c >= 0xe0000;
}

void append_escaped(std::string& out, unsigned char byte) {
    switch (byte) {
        case '\n':
            out += "\\n";
            break;
        case '\r':
            out += "\\r";
            break;
        case '\t':
            out += "\\t";
            break;
        default:
            fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
    }
}

}  // namespace

std::size_t utf8_sequence_bytes(std::string_view text, std::size_t position) noexcept {
    const unsigned char lead = byte_at(text, position);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    if (length == 0 || text.size() - position < length) {
        return 0;
    }
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte_at(text, position + i) & 0xc0U) != 0x80U) {
            return 0;
        }
    }
    const char32_t code_point = decode(text.substr(position, length));
    const bool overlong = (length == 3 && code_point < 0x800) || (length == 4 && code_point < 0x10000);
    const bool surrogate = code_point >= 0xd800 && code_point < 0xe000;
    return overlong || surrogate || code_point > 0x10ffff ? 0 : length;
}

void append_utf8(std::string& text, char32_t code_point) {
    const auto put = [&text](char32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
    const auto put_tail = [&put, code_point](unsigned shift) { put(0x80U | ((code_point >> shift) & 0x3fU)); };
    if (code_point < 0x80) {
        put(code_point);
    } else if (code_point < 0x800) {
        put(0xc0U | (code_point >> 6U));
        put_tail(0);
    } else if (code_point < 0x10000) {
        put(0xe0U | (code_point >> 12U));
        put_tail(6);
        put_tail(0);
    } else {
        put(0xf0U | (code_point >> 18U));
        put_tail(12);
        put_tail(6);
        put_tail(0);
    }
}

std::string printable(std::string_view text, std::size_t max_bytes) {
    std::string out;
    std::size_t position = 0;
    while (position < text.size()) {
        const std::size_t length = utf8_sequence_bytes(text, position);
        if (position + (length == 0 ? 1 : length) > max_bytes) {
            out += "...";
            break;
        }
        if (length == 0) {
            append_escaped(out, byte_at(text, position++));
            continue;
        }
        const std::string_view sequence = text.substr(position, length);
        if (is_deceptive(decode(sequence))) {
            for (const char byte : sequence) {
                append_escaped(out, static_cast<unsigned char>(byte));
            }
        } else {
            out += sequence;
        }
        position += length;
    }
    return out;
}

std::string in_quotes(std::string_view text) {
    const char quote = text.find('\'') == std::string_view::npos ? '\'' : '"';
    return fmt::format("{0}{1}{0}", quote, printable(text, max_quoted_bytes));
}

}  // namespace tandem
