#pragma once
// What an expression's text says, before types are known.

#include <array>
#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/expression/types.hpp"
#include "kernels/expression.hpp"

namespace tandem::expression {

/// A number that text gives.
struct Literal {
    ValueType type;
    std::complex<double> real;  ///< of a floating or complex one
    std::uint64_t integer = 0;  ///< of a bool or an integer

    friend bool operator==(const Literal&, const Literal&) noexcept = default;
};

/// A node of the tree. Its arguments stand before it in the tree's list, so whoever goes through the list from front to back
/// meets every argument before what it is used in: nothing recurses.
struct Node {
    enum class Kind : std::uint8_t {
        literal,
        name,         ///< an operand, or what an earlier statement assigned to that name
        operation,    ///< `op` of one to three arguments
        plus,         ///< unary +
        logical_not,  ///< of what becomes a bool
        logical_and,
        logical_or,
        cast,  ///< to `dtype`
    };
    Kind kind = Kind::literal;
    StepOp op = StepOp::add;
    DType dtype = DType::boolean;
    std::size_t position = 0;  ///< in the text: of the operator's or name's first byte
    std::array<std::int32_t, 3> arguments{-1, -1, -1};
    std::string name{};
    Literal literal{};
};

/// How messages call a node's operation: "+", "sqrt".
std::string_view symbol(const Node& node) noexcept;

/// "name = value".
struct Statement {
    std::string name;
    std::size_t position = 0;
    std::int32_t value = -1;   ///< the node
    std::size_t node_end = 0;  ///< behind the last node that belongs to this statement
};

struct SyntaxTree {
    std::vector<Node> nodes;
    std::vector<Statement> statements;
};

}  // namespace tandem::expression
