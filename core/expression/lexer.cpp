#include "core/expression/lexer.hpp"

#include <fmt/format.h>

#include <array>

#include "core/printable.hpp"

namespace tandem::expression {
namespace {

// <cctype> asks the locale, and is undefined for negative characters.
bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}
bool is_hexadecimal(char c) noexcept {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool is_name_start(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_name(char c) noexcept {
    return is_name_start(c) || is_digit(c);
}

// Longer ones first.
constexpr std::array<std::string_view, 30> symbols{"**", "//", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||",
                                                   "+",  "-",  "*",  "/",  "%",  "<",  ">",  "=",  "&",  "|",
                                                   "^",  "~",  "!",  "?",  ":",  "(",  ")",  ",",  ";",  "."};

}  // namespace

void refuse_at(std::string_view operation, std::size_t position, const std::string& what) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: column {}: {}", operation, position + 1, what));
}

std::string describe(const Token& token) {
    if (token.kind == TokenKind::end) return "the end of the expression";
    return fmt::format("'{}'", printable(token.text));
}

Lexer::Lexer(std::string_view operation, std::string_view text) : operation_(operation), text_(text) {
    if (text.size() <= max_text_bytes) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: the expression has {} bytes, at most {} are taken", operation, text.size(), max_text_bytes));
}

Token Lexer::next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
        ++at_;
    if (at_ == text_.size()) return {TokenKind::end, {}, at_};
    const std::size_t start = at_;
    const char first = text_[at_];
    if (is_digit(first) || (first == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))) return number();
    if (is_name_start(first)) {
        while (at_ < text_.size() && is_name(text_[at_]))
            ++at_;
        return {TokenKind::name, text_.substr(start, at_ - start), start};
    }
    for (const std::string_view symbol : symbols) {
        if (!text_.substr(at_).starts_with(symbol)) continue;
        at_ += symbol.size();
        return {TokenKind::symbol, text_.substr(start, symbol.size()), start};
    }
    refuse_at(operation_, start, fmt::format("'{}' starts nothing that an expression has", printable(text_.substr(start, 1))));
}

Token Lexer::number() {
    const std::size_t start = at_;
    TokenKind kind = TokenKind::integer;
    const auto digits = [&](auto&& is) {
        const std::size_t before = at_;
        while (at_ < text_.size() && is(text_[at_]))
            ++at_;
        return at_ != before;
    };
    const auto malformed = [&] {
        while (at_ < text_.size() && is_name(text_[at_]))
            ++at_;
        refuse_at(operation_, start, fmt::format("'{}' is not a number", printable(text_.substr(start, at_ - start))));
    };
    if (text_.substr(at_).starts_with("0x") || text_.substr(at_).starts_with("0X")) {
        at_ += 2;
        if (!digits(is_hexadecimal)) malformed();
    } else {
        digits(is_digit);
        if (at_ < text_.size() && text_[at_] == '.') {
            kind = TokenKind::real;
            ++at_;
            digits(is_digit);
        }
        if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
            kind = TokenKind::real;
            ++at_;
            if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
            if (!digits(is_digit)) malformed();
        }
        if (at_ < text_.size() && text_[at_] == 'j') {
            kind = TokenKind::imaginary;
            ++at_;
        }
    }
    if (at_ < text_.size() && is_name(text_[at_])) malformed();
    return {kind, text_.substr(start, at_ - start), start};
}

}  // namespace tandem::expression
