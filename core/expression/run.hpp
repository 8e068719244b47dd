#pragma once
// From a call of `elementwise` to launches.

#include <span>
#include <string_view>

#include "tandem/expression.hpp"

namespace tandem {

/// As `elementwise`; messages start with `operation`.
void run_expression(Queue& queue, std::string_view operation, std::string_view text, std::span<const NamedOperand> operands);
inline void run_expression(Queue& queue, std::string_view operation, std::string_view text,
                           std::initializer_list<NamedOperand> operands) {
    run_expression(queue, operation, text, std::span(operands.begin(), operands.size()));
}

}  // namespace tandem
