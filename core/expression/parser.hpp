#pragma once
// From text to syntax tree.

#include <string_view>

#include "core/expression/syntax_tree.hpp"

namespace tandem::expression {

/// Each pair of parentheses, call, ?: and ** counts two, a unary operator one: text can't overflow the stack.
inline constexpr int max_nesting = 128;
inline constexpr std::size_t max_nodes = 1024;

/// The tree of `text`: statements "name = expression" separated by ';'. Operators bind as in Python, from loosest to tightest:
///     ?:    ||    &&    < <= > >= == !=    |    ^    &    << >>    + -    * / // %    unary - + ~ !    **
/// Comparisons don't chain; ?: and ** group to the right. Throws invalid_argument naming the column, what was expected and what
/// was found; `operation` is what messages start with.
SyntaxTree parse(std::string_view operation, std::string_view text);

/// True for what may be an operand's name: letters, digits and '_', not starting with a digit, and neither `true` nor `false`.
bool is_operand_name(std::string_view name) noexcept;

}  // namespace tandem::expression
