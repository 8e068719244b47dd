#include "core/npy/string.hpp"

#include <fmt/format.h>

#include "core/printable.hpp"

namespace tandem::npy {
namespace {

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

int digit_value(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
}

void append_character(const HeaderText& header, std::string* value, char c) {
    if (value == nullptr) {
        return;
    }
    if (header.latin1) {
        append_utf8(*value, static_cast<unsigned char>(c));
    } else {
        *value += c;
    }
}

void append_code_point(std::string* value, char32_t code_point) {
    if (value != nullptr) {
        append_utf8(*value, code_point);
    }
}

// Scans one literal; `position` moves on from its prefix to behind its last quote.
class StringScanner {
public:
    StringScanner(const HeaderText& header, std::size_t position, std::string* value)
        : header_(header), text_(header.text), start_(position), position_(position), value_(value) {}

    std::size_t scan() {
        scan_prefix();
        const std::string quote(1, text_[position_]);
        const bool triple = text_.substr(position_).starts_with(quote + quote + quote);
        const std::string closing = triple ? quote + quote + quote : quote;
        position_ += closing.size();
        for (;;) {
            const char c = current();
            if (c == closing[0] && text_.substr(position_).starts_with(closing)) {
                return position_ + closing.size();
            }
            if (c == '\0') {
                header_.fail(position_, "text without NUL bytes needed, one found in a string");
            }
            if ((c == '\n' || c == '\r') && !triple) {
                header_.fail(position_, "the string's closing quote needed, the end of the line found");
            }
            if (c == '\\') {
                scan_escape();
            } else {
                append_character(header_, value_, c);
                ++position_;
            }
        }
    }

private:
    char current() const {
        if (position_ >= text_.size()) {
            header_.fail(start_, "a string with a closing quote needed, the header's end found");
        }
        return text_[position_];
    }

    void scan_prefix() {
        while (is_letter(current())) {
            ++position_;
        }
        const std::string_view prefix = text_.substr(start_, position_ - start_);
        raw_ = prefix == "r" || prefix == "R";
        if (!prefix.empty() && !raw_ && prefix != "u" && prefix != "U") {
            header_.fail(start_, fmt::format("a plain string needed, one with the prefix {} found", in_quotes(prefix)));
        }
    }

    void scan_escape() {
        const std::size_t backslash = position_++;
        const char c = current();
        if (raw_ || c == '\0') {
            append_character(header_, value_, '\\');
            // In a raw string the backslash keeps a quote from ending it, and both stay.
            if (c != '\0' && c != '\n' && c != '\r') {
                append_character(header_, value_, c);
                ++position_;
            }
            return;
        }
        ++position_;
        switch (c) {
            case '\n':
                return;
            case '\r':
                if (position_ < text_.size() && text_[position_] == '\n') {
                    ++position_;
                }
                return;
            case '\\':
            case '\'':
            case '"':
                return append_code_point(value_, static_cast<unsigned char>(c));
            case 'a':
                return append_code_point(value_, 0x07);
            case 'b':
                return append_code_point(value_, 0x08);
            case 'f':
                return append_code_point(value_, 0x0c);
            case 'n':
                return append_code_point(value_, 0x0a);
            case 'r':
                return append_code_point(value_, 0x0d);
            case 't':
                return append_code_point(value_, 0x09);
            case 'v':
                return append_code_point(value_, 0x0b);
            case 'x':
                return scan_digits(backslash, 16, 2, 2);
            case 'u':
                return scan_digits(backslash, 16, 4, 4);
            case 'U':
                return scan_digits(backslash, 16, 8, 8);
            case 'N':
                header_.fail(backslash, "characters or numeric escapes needed, an escape by name (\\N) found");
            default:
                break;
        }
        if (digit_value(c) < 8) {
            --position_;
            return scan_digits(backslash, 8, 1, 3);
        }
        // Python keeps escapes that it does not know as they are.
        append_character(header_, value_, '\\');
        append_character(header_, value_, c);
    }

    void scan_digits(std::size_t backslash, int base, int least, int most) {
        char32_t code_point = 0;
        int count = 0;
        while (count < most && position_ < text_.size() && digit_value(text_[position_]) < base) {
            code_point = code_point * static_cast<char32_t>(base) + static_cast<char32_t>(digit_value(text_[position_]));
            ++position_;
            ++count;
        }
        const bool surrogate = code_point >= 0xd800 && code_point < 0xe000;
        if (count < least || surrogate || code_point > 0x10ffff) {
            header_.fail(backslash, fmt::format("an escape that stands for a character needed, {} found",
                                                in_quotes(text_.substr(backslash, position_ - backslash))));
        }
        append_code_point(value_, code_point);
    }

    const HeaderText& header_;
    std::string_view text_;
    std::size_t start_;
    std::size_t position_;
    std::string* value_;
    bool raw_ = false;
};

}  // namespace

bool starts_string(const HeaderText& header, std::size_t position) {
    // No prefix that Python knows has more than two letters.
    for (std::size_t letters = 0; letters <= 2 && position + letters < header.text.size(); ++letters) {
        const char c = header.text[position + letters];
        if (c == '\'' || c == '"') {
            return true;
        }
        if (!is_letter(c)) {
            return false;
        }
    }
    return false;
}

std::size_t scan_string(const HeaderText& header, std::size_t position, std::string* value) {
    return StringScanner(header, position, value).scan();
}

std::size_t skip_space(const HeaderText& header, std::size_t position) {
    const std::string_view text = header.text;
    while (position < text.size()) {
        const char c = text[position];
        const bool joined_line =
            c == '\\' && position + 1 < text.size() && (text[position + 1] == '\n' || text[position + 1] == '\r');
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r' && c != '\f' && !joined_line) {
            break;
        }
        ++position;
    }
    return position;
}

std::string to_utf8(const HeaderText& header, std::string_view text) {
    if (!header.latin1) {
        return std::string(text);
    }
    std::string utf8;
    utf8.reserve(text.size());
    for (const char c : text) {
        append_utf8(utf8, static_cast<unsigned char>(c));
    }
    return utf8;
}

}  // namespace tandem::npy
