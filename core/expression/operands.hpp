#pragma once
// The operands of a call, checked: shapes broadcast, places apart.

#include <string_view>
#include <vector>

#include "core/expression/program.hpp"
#include "tandem/expression.hpp"

namespace tandem::expression {

/// Throws invalid_argument for names that are none, or that are there twice.
void check_names(std::string_view operation, std::span<const NamedOperand> operands);

/// The strides with which each of the program's arrays runs over the outputs' shape: 0 where it is broadcast.
struct Broadcast {
    const Shape* shape = nullptr;        ///< the first output's
    std::vector<Strides> strides_bytes;  ///< empty where `is_dense`
    bool is_dense = false;               ///< all arrays lie in one order without gaps, and none is broadcast
};

/// Checks devices, shapes, access and overlap. Throws invalid_argument naming what differs.
Broadcast check_operands(std::string_view operation, const Queue& queue, const Program& program,
                         std::span<const NamedOperand> operands);

}  // namespace tandem::expression
