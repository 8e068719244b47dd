#pragma once
// An expression with its types: what is computed for each element, in an order in which it can be.

#include <array>
#include <span>
#include <string>
#include <vector>

#include "core/expression/syntax_tree.hpp"

namespace tandem::expression {

/// An operand as far as types are concerned.
struct OperandType {
    std::string name;
    ValueType type;
    bool is_array = true;
};

/// One operation. Its arguments are steps before it.
struct Step {
    StepOp op = StepOp::load;
    DType dtype = DType::float32;  ///< of the result, as it is carried: never float16 nor bfloat16
    bool is_uniform = false;       ///< the same for all elements: done once for each call, on the host
    bool is_checked = false;       ///< a conversion of a weak integer, which must fit
    std::int32_t operand = -1;     ///< of a load, and of a constant that the call gives; -1: `literal`
    std::int32_t literal = -1;
    std::size_t position = 0;
    std::array<std::int32_t, 3> arguments{-1, -1, -1};
};

/// What is written to an output: the step's value, which is carried as the output's dtype is.
struct Store {
    std::int32_t operand = -1;
    std::int32_t step = -1;
    ValueType type;  ///< of the value, before it is cast
};

struct Program {
    std::vector<OperandType> operands;
    std::vector<Literal> literals;
    std::vector<Step> steps;
    std::vector<Store> stores;           ///< one for each output
    std::vector<std::int32_t> arrays;    ///< the operands that are arrays: outputs first, in the order of `stores`
    std::vector<bool> is_read;           ///< for each operand: some element's old value is used
    std::vector<std::int32_t> uniforms;  ///< the uniform steps that steps for elements, or stores, use

    /// Where the operand stands in `arrays`.
    [[nodiscard]] std::size_t array_of(std::int32_t operand) const noexcept;
};

/// How many arguments the step has.
int argument_count(const Step& step) noexcept;

inline constexpr std::size_t max_arrays = 10;
inline constexpr std::size_t max_uniforms = 16;

/// Types `tree`, by the rules of types.hpp. Assigning to an operand is storing; to another name, it is a name for later
/// statements. Reading an operand that a statement before has assigned to gives what was assigned, as its dtype holds it. Throws
/// invalid_argument naming the column: an unknown name, an operation that a type lacks, a value that its output can't take by
/// "same kind" casting, too many arrays or numbers; and, without a column, for operands that the text does not use.
Program make_program(std::string_view operation, std::string_view text, const SyntaxTree& tree,
                     std::vector<OperandType> operands);

}  // namespace tandem::expression
