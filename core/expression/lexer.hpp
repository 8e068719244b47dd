#pragma once
// The words of an expression's text.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tandem/error.hpp"

namespace tandem::expression {

/// Longer texts are refused.
inline constexpr std::size_t max_text_bytes = 8192;

enum class TokenKind : std::uint8_t { end, name, integer, real, imaginary, symbol };

struct Token {
    TokenKind kind = TokenKind::end;
    std::string_view text;     ///< of the expression
    std::size_t position = 0;  ///< its first byte's
};

/// Throws invalid_argument: "elementwise: column 9: expected an operand, found ')'". Columns count bytes, from 1.
[[noreturn]] void refuse_at(std::string_view operation, std::size_t position, const std::string& what);

/// "'+'" or "the end of the expression": how messages name what was found.
std::string describe(const Token& token);

/// Cuts a text into tokens. `operation` is what messages start with.
class Lexer {
public:
    /// Throws invalid_argument for a text that is too long.
    Lexer(std::string_view operation, std::string_view text);

    /// The next token; `end` for ever after the last. Throws invalid_argument for a character that starts none, and for a number
    /// that is none.
    Token next();

private:
    Token number();

    std::string_view operation_;
    std::string_view text_;
    std::size_t at_ = 0;
};

}  // namespace tandem::expression
