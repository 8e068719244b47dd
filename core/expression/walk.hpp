#pragma once
// A call of an expression's kernel, before it is cut into pieces.

#include "core/driver.hpp"
#include "core/expression/program.hpp"

namespace tandem::expression {

/// As driver::Operand, of any dtype.
struct WalkOperand : driver::Operand {
    std::size_t item_bytes = 1;
};

/// As driver::Walk, with as many operands as an expression may have: the program's arrays, in their order.
struct Walk {
    int dimensions = 1;
    bool contiguous = false;
    std::array<std::int64_t, max_kernel_dimensions> shape{};
    int operand_count = 0;
    std::array<WalkOperand, max_arrays> operands{};

    [[nodiscard]] std::int64_t count() const noexcept {
        std::int64_t elements = 1;
        for (int d = 0; d < dimensions; ++d)
            elements *= shape[static_cast<std::size_t>(d)];
        return elements;
    }
};

inline std::size_t item_bytes(const Walk& walk, std::size_t operand) noexcept {
    return walk.operands[operand].item_bytes;
}

}  // namespace tandem::expression
