#include "core/expression/syntax_tree.hpp"

namespace tandem::expression {

std::string_view symbol(const Node& node) noexcept {
    switch (node.kind) {
        case Node::Kind::logical_and:
            return "&&";
        case Node::Kind::logical_or:
            return "||";
        case Node::Kind::logical_not:
            return "!";
        case Node::Kind::plus:
            return "+";
        default:
            break;
    }
    switch (node.op) {
        case StepOp::add:
            return "+";
        case StepOp::subtract:
        case StepOp::negate:
            return "-";
        case StepOp::multiply:
            return "*";
        case StepOp::divide:
            return "/";
        case StepOp::floor_divide:
            return "//";
        case StepOp::remainder:
            return "%";
        case StepOp::power:
            return "**";
        case StepOp::bit_and:
            return "&";
        case StepOp::bit_or:
            return "|";
        case StepOp::bit_xor:
            return "^";
        case StepOp::invert:
            return "~";
        case StepOp::shift_left:
            return "<<";
        case StepOp::shift_right:
            return ">>";
        case StepOp::equal:
            return "==";
        case StepOp::not_equal:
            return "!=";
        case StepOp::less:
            return "<";
        case StepOp::less_equal:
            return "<=";
        case StepOp::greater:
            return ">";
        case StepOp::greater_equal:
            return ">=";
        default:
            return function_name(node.op);
    }
}

}  // namespace tandem::expression
