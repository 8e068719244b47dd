#include "core/expression/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/expression/lexer.hpp"
#include "core/printable.hpp"

namespace tandem::expression {
namespace {

bool is_comparison(StepOp op) noexcept {
    return op >= StepOp::equal && op <= StepOp::greater_equal;
}

// A step and the type of its value, which says more than the type that it is carried in.
struct Value {
    std::int32_t step = -1;
    ValueType type;
};

class Typer {
public:
    Typer(std::string_view operation, std::string_view text, const SyntaxTree& tree, std::vector<OperandType> operands)
        : operation_(operation), text_(text), tree_(tree) {
        program_.operands = std::move(operands);
        program_.is_read.assign(program_.operands.size(), false);
        used_.assign(program_.operands.size(), false);
    }

    Program run() {
        values_.resize(tree_.nodes.size());
        std::size_t node = 0;
        for (const Statement& statement : tree_.statements) {
            for (; node < statement.node_end; ++node)
                values_[node] = value_of(tree_.nodes[node]);
            assign(statement);
        }
        finish();
        return std::move(program_);
    }

private:
    [[noreturn]] void refuse(const Node& node, const std::string& what) const { refuse_at(operation_, node.position, what); }
    [[noreturn]] void refuse_types(const Node& node, std::string_view needed, std::initializer_list<Value> found) const {
        std::string types;
        for (const Value& value : found)
            types += fmt::format("{}{}", types.empty() ? "" : " and ", to_string(value.type.dtype));
        refuse(node, fmt::format("{} {}, found {}", symbol(node), needed, types));
    }

    // Steps that are the same are one.
    std::int32_t add(Step step) {
        const std::array<std::int64_t, 8> key{static_cast<int>(step.op),
                                              static_cast<int>(step.dtype),
                                              step.is_checked,
                                              step.operand,
                                              step.literal,
                                              step.arguments[0],
                                              step.arguments[1],
                                              step.arguments[2]};
        const auto [found, is_new] = known_.try_emplace(key, static_cast<std::int32_t>(program_.steps.size()));
        if (is_new) {
            step.is_uniform = step.op == StepOp::constant;
            if (step.arguments[0] >= 0) {
                step.is_uniform = std::all_of(step.arguments.begin(), step.arguments.end(), [&](std::int32_t argument) {
                    return argument < 0 || program_.steps[static_cast<std::size_t>(argument)].is_uniform;
                });
            }
            program_.steps.push_back(step);
        }
        return found->second;
    }
    std::int32_t add(StepOp op, DType dtype, std::size_t position, std::int32_t a, std::int32_t b = -1, std::int32_t c = -1) {
        Step step;
        step.op = op;
        step.dtype = dtype;
        step.position = position;
        step.arguments = {a, b, c};
        return add(step);
    }

    std::int32_t constant(const Literal& literal, std::size_t position) {
        const auto same = std::find(program_.literals.begin(), program_.literals.end(), literal);
        Step step;
        step.op = StepOp::constant;
        step.dtype = literal.type.dtype;
        step.literal = static_cast<std::int32_t>(same - program_.literals.begin());
        step.position = position;
        if (same == program_.literals.end()) program_.literals.push_back(literal);
        return add(step);
    }

    // From one carried type to another.
    std::int32_t convert(std::int32_t step, DType to, std::size_t position, bool is_checked = false) {
        const DType from = program_.steps[static_cast<std::size_t>(step)].dtype;
        if (from == to && !is_checked) return step;
        if (is_complex(from) && !is_complex(to)) {
            const DType part = component_type(from);
            const std::int32_t real = add(StepOp::real_part, part, position, step);
            if (to != DType::boolean) return convert(real, to, position);
            const std::int32_t imaginary = add(StepOp::imaginary_part, part, position, step);
            return add(StepOp::bit_or, to, position, convert(real, to, position), convert(imaginary, to, position));
        }
        Step made;
        made.op = StepOp::convert;
        made.dtype = to;
        made.position = position;
        made.is_checked = is_checked;
        made.arguments = {step, -1, -1};
        return add(made);
    }

    // `value` as what `to` is carried in. What a 16-bit float can't hold is still in it, until it is rounded.
    std::int32_t carry(const Value& value, DType to, std::size_t position) {
        const bool is_checked = value.type.is_weak && is_integer(value.type.dtype) && is_integer(to);
        const bool is_16_bits = carrier(to) != to;
        std::int32_t step = value.step;
        if (is_16_bits && is_complex(value.type.dtype)) step = convert(step, component_type(value.type.dtype), position);
        if (is_16_bits && program_.steps[static_cast<std::size_t>(step)].dtype == DType::float64)
            return add(StepOp::odd_float32, DType::float32, position, step);
        if (is_checked && value.type.dtype == to) return step;
        return convert(step, carrier(to), position, is_checked);
    }
    std::int32_t round(std::int32_t step, DType to, std::size_t position) {
        if (to == DType::float16) return add(StepOp::round_float16, DType::float32, position, step);
        if (to == DType::bfloat16) return add(StepOp::round_bfloat16, DType::float32, position, step);
        return step;
    }
    // A value of type `to`, by promotion, which keeps every value but weak ones.
    std::int32_t coerce(const Value& value, DType to, std::size_t position) {
        const std::int32_t step = carry(value, to, position);
        return value.type.is_weak ? round(step, to, position) : step;
    }

    Value value_of(const Node& node) {
        switch (node.kind) {
            case Node::Kind::literal:
                return {constant(node.literal, node.position), node.literal.type};
            case Node::Kind::name:
                return named(node);
            case Node::Kind::operation:
                return operation(node);
            case Node::Kind::plus: {
                const Value value = argument(node, 0);
                if (value.type.dtype == DType::boolean) refuse_types(node, "needs numbers", {value});
                return value;
            }
            case Node::Kind::logical_not:
                return {add(StepOp::invert, DType::boolean, node.position, truth(node, 0)), {DType::boolean, false}};
            case Node::Kind::logical_and:
            case Node::Kind::logical_or: {
                const std::int32_t left = truth(node, 0);
                return {add(node.op, DType::boolean, node.position, left, truth(node, 1)), {DType::boolean, false}};
            }
            case Node::Kind::cast: {
                Value value = argument(node, 0);
                value.type.is_weak = false;  // a cast asks for what fits best
                return {round(carry(value, node.dtype, node.position), node.dtype, node.position), {node.dtype, false}};
            }
        }
        return {};
    }

    [[nodiscard]] Value argument(const Node& node, std::size_t i) const {
        return values_[static_cast<std::size_t>(node.arguments[i])];
    }
    std::int32_t truth(const Node& node, std::size_t i) { return convert(argument(node, i).step, DType::boolean, node.position); }

    Value named(const Node& node) {
        if (const auto found = assigned_.find(node.name); found != assigned_.end()) {
            found->second.is_used = true;
            return found->second.value;
        }
        const std::int32_t operand = find_operand(node.name);
        if (operand < 0) {
            std::string known;
            for (const OperandType& one : program_.operands)
                known += (known.empty() ? "" : ", ") + one.name;
            refuse(node, fmt::format("'{}' is not among the operands, which are {}", printable(node.name, 64),
                                     known.empty() ? "none" : printable(known, 200)));
        }
        const auto at = static_cast<std::size_t>(operand);
        const OperandType& type = program_.operands[at];
        used_[at] = true;
        program_.is_read[at] = true;
        Step step;
        step.op = type.is_array ? StepOp::load : StepOp::constant;
        step.dtype = carrier(type.type.dtype);
        step.operand = operand;
        step.position = node.position;
        return {add(step), type.type};
    }

    [[nodiscard]] std::int32_t find_operand(std::string_view name) const noexcept {
        for (std::size_t i = 0; i < program_.operands.size(); ++i) {
            if (program_.operands[i].name == name) return static_cast<std::int32_t>(i);
        }
        return -1;
    }

    Value operation(const Node& node) {
        if (node.op == StepOp::select) {
            const ValueType type = promote(argument(node, 1).type, argument(node, 2).type);
            const std::int32_t yes = coerce(argument(node, 1), type.dtype, node.position);
            const std::int32_t no = coerce(argument(node, 2), type.dtype, node.position);
            return {add(StepOp::select, carrier(type.dtype), node.position, truth(node, 0), yes, no), type};
        }
        if (node.arguments[1] >= 0) return is_comparison(node.op) ? comparison(node) : binary(node);
        return unary(node);
    }

    Value comparison(const Node& node) {
        const Value left = argument(node, 0);
        const Value right = argument(node, 1);
        const bool is_order = node.op != StepOp::equal && node.op != StepOp::not_equal;
        if (is_order && (is_complex(left.type.dtype) || is_complex(right.type.dtype)))
            refuse_types(node, "needs numbers that have an order", {left, right});
        const ValueType bool_type{DType::boolean, false};
        const bool is_weak = left.type.is_weak || right.type.is_weak;
        if (!is_weak && left.type.dtype == DType::uint64 && category(right.type.dtype) == Category::signed_integer)
            return {compare_signs(node, right, left, true), bool_type};
        if (!is_weak && right.type.dtype == DType::uint64 && category(left.type.dtype) == Category::signed_integer)
            return {compare_signs(node, left, right, false), bool_type};
        const ValueType type = promote(left.type, right.type);
        const std::int32_t a = coerce(left, type.dtype, node.position);
        const std::int32_t b = coerce(right, type.dtype, node.position);
        return {add(node.op, DType::boolean, node.position, a, b), bool_type};
    }

    // uint64 against a signed integer, exactly: float64, which they promote to, would lose digits.
    std::int32_t compare_signs(const Node& node, const Value& with_sign, const Value& without, bool is_swapped) {
        const std::int32_t wide = convert(with_sign.step, DType::int64, node.position);
        const std::int32_t zero = constant({{DType::int64, true}, {}, 0}, node.position);
        const std::int32_t is_negative = add(StepOp::less, DType::boolean, node.position, wide, zero);
        const std::int32_t bits = convert(wide, DType::uint64, node.position);
        const std::int32_t compared = is_swapped ? add(node.op, DType::boolean, node.position, without.step, bits)
                                                 : add(node.op, DType::boolean, node.position, bits, without.step);
        const bool true_where_negative =
            node.op == StepOp::not_equal || (is_swapped ? node.op == StepOp::greater || node.op == StepOp::greater_equal
                                                        : node.op == StepOp::less || node.op == StepOp::less_equal);
        if (true_where_negative) return add(StepOp::bit_or, DType::boolean, node.position, is_negative, compared);
        const std::int32_t is_positive = add(StepOp::invert, DType::boolean, node.position, is_negative);
        return add(StepOp::bit_and, DType::boolean, node.position, is_positive, compared);
    }

    Value binary(const Node& node) {
        const Value left = argument(node, 0);
        const Value right = argument(node, 1);
        ValueType type = promote(left.type, right.type);
        const bool is_bool = type.dtype == DType::boolean;
        switch (node.op) {
            case StepOp::subtract:
                if (is_bool) refuse_types(node, "needs numbers, for bools there is ^", {left, right});
                break;
            case StepOp::divide:
                if (is_bool || is_integer(type.dtype)) type.dtype = DType::float64;
                break;
            case StepOp::floor_divide:
            case StepOp::remainder:
                if (is_complex(type.dtype)) refuse_types(node, "needs real numbers", {left, right});
                [[fallthrough]];
            case StepOp::power:
                if (is_bool) type.dtype = DType::int8;
                break;
            case StepOp::minimum:
            case StepOp::maximum:
                if (is_complex(type.dtype)) refuse_types(node, "needs numbers that have an order", {left, right});
                break;
            case StepOp::shift_left:
            case StepOp::shift_right:
                if (is_bool) type.dtype = DType::int8;
                [[fallthrough]];
            case StepOp::bit_and:
            case StepOp::bit_or:
            case StepOp::bit_xor:
                if (!is_bool && !is_integer(type.dtype)) {
                    const bool is_mixed = is_integer(left.type.dtype) && is_integer(right.type.dtype);
                    refuse_types(node, is_mixed ? "needs integers that one integer type holds" : "needs integers", {left, right});
                }
                break;
            default:
                break;
        }
        const std::int32_t a = coerce(left, type.dtype, node.position);
        if (node.op == StepOp::power && is_two(node.arguments[1]))
            return {add(StepOp::multiply, carrier(type.dtype), node.position, a, a), type};
        const std::int32_t b = coerce(right, type.dtype, node.position);
        return {add(node.op, carrier(type.dtype), node.position, a, b), type};
    }

    // x ** 2 is x * x, as NumPy has it too.
    [[nodiscard]] bool is_two(std::int32_t node) const noexcept {
        const Node& exponent = tree_.nodes[static_cast<std::size_t>(node)];
        return exponent.kind == Node::Kind::literal && is_integer(exponent.literal.type.dtype) && exponent.literal.integer == 2;
    }

    Value unary(const Node& node) {
        const Value value = argument(node, 0);
        ValueType type = value.type;
        const bool is_bool = type.dtype == DType::boolean;
        switch (node.op) {
            case StepOp::negate:
                if (is_bool) refuse_types(node, "needs numbers, for bools there is !", {value});
                break;
            case StepOp::invert:
                if (!is_bool && !is_integer(type.dtype)) refuse_types(node, "needs integers", {value});
                break;
            case StepOp::absolute:
                if (is_bool) return value;
                if (is_complex(type.dtype)) {
                    const DType part = component_type(type.dtype);
                    return {add(node.op, part, node.position, value.step), {part, type.is_weak}};
                }
                break;
            case StepOp::real_part:
            case StepOp::imaginary_part: {
                const DType part = component_type(type.dtype);
                if (is_complex(type.dtype)) return {add(node.op, part, node.position, value.step), {part, type.is_weak}};
                if (node.op == StepOp::real_part) return value;
                const std::int32_t zero = constant({{DType::boolean, false}, {}, 0}, node.position);
                return {convert(zero, carrier(type.dtype), node.position), type};
            }
            case StepOp::conjugate:
                if (!is_complex(type.dtype)) return value;
                break;
            case StepOp::floor:
            case StepOp::ceiling:
            case StepOp::truncate:
            case StepOp::round:
                if (is_complex(type.dtype)) refuse_types(node, "needs real numbers", {value});
                if (!is_floating(type.dtype)) return value;  // whole already
                break;
            case StepOp::tangent:
            case StepOp::hyperbolic_tangent:
                if (is_complex(type.dtype)) refuse_types(node, "needs real numbers", {value});
                [[fallthrough]];
            default:
                if (!is_complex(type.dtype)) type.dtype = type.is_weak ? DType::float64 : floating_type(type.dtype);
                break;
        }
        return {add(node.op, carrier(type.dtype), node.position, convert(value.step, carrier(type.dtype), node.position)), type};
    }

    void assign(const Statement& statement) {
        const Value value = values_[static_cast<std::size_t>(statement.value)];
        const std::int32_t operand = find_operand(statement.name);
        if (operand < 0) {
            const auto previous = assigned_.find(statement.name);
            if (previous != assigned_.end() && !previous->second.is_used)
                refuse_unused(statement.name, previous->second.position);
            assigned_[statement.name] = {value, statement.position, false};
            return;
        }
        const auto at = static_cast<std::size_t>(operand);
        const OperandType& out = program_.operands[at];
        if (!out.is_array)
            refuse_at(operation_, statement.position, fmt::format("'{}' is a number: only arrays can be assigned to", out.name));
        const DType to = out.type.dtype;
        const bool fits = value.type.is_weak ? category(to) >= Category::unsigned_integer &&
                                                   (is_integer(value.type.dtype) || is_same_kind(value.type.dtype, to))
                                             : is_same_kind(value.type.dtype, to);
        if (!fits) {
            refuse_at(operation_, statement.position,
                      fmt::format("{}, which is {}, does not take {} by \"same kind\" casting: write {}(...)", out.name,
                                  to_string(to), to_string(value.type.dtype), to_string(to)));
        }
        const std::int32_t stored = carry(value, to, statement.position);
        used_[at] = true;
        const auto same = std::find_if(program_.stores.begin(), program_.stores.end(),
                                       [&](const Store& store) { return store.operand == operand; });
        if (same != program_.stores.end()) {
            same->step = stored;
            same->type = value.type;
        } else {
            program_.stores.push_back({operand, stored, value.type});
        }
        assigned_[statement.name] = {{round(stored, to, statement.position), {to, false}}, statement.position, true};
    }

    [[noreturn]] void refuse_unused(const std::string& name, std::size_t position) const {
        refuse_at(operation_, position, fmt::format("'{}' is neither an operand nor used later", printable(name, 64)));
    }

    void finish() {
        for (const auto& [name, assignment] : assigned_) {
            if (!assignment.is_used) refuse_unused(name, assignment.position);
        }
        for (std::size_t i = 0; i < used_.size(); ++i) {
            if (used_[i]) continue;
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("{}: the operand '{}' is not used in \"{}\"", operation_,
                                    printable(program_.operands[i].name, 64), printable(text_, 200)));
        }
        if (program_.stores.empty()) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("{}: \"{}\" assigns to no operand", operation_, printable(text_, 200)));
        }
        drop_unused_steps();
        for (const Store& store : program_.stores)
            program_.arrays.push_back(store.operand);
        for (std::size_t i = 0; i < program_.operands.size(); ++i) {
            const auto operand = static_cast<std::int32_t>(i);
            const bool is_output = std::find(program_.arrays.begin(), program_.arrays.end(), operand) != program_.arrays.end();
            if (program_.operands[i].is_array && !is_output) program_.arrays.push_back(operand);
        }
        limit("arrays", program_.arrays.size(), max_arrays);
        std::vector<bool> is_needed(program_.steps.size(), false);
        for (const Step& step : program_.steps) {
            for (int i = 0; i < argument_count(step) && !step.is_uniform; ++i)
                is_needed[static_cast<std::size_t>(step.arguments[static_cast<std::size_t>(i)])] = true;
        }
        for (const Store& store : program_.stores)
            is_needed[static_cast<std::size_t>(store.step)] = true;
        for (std::size_t i = 0; i < program_.steps.size(); ++i) {
            if (program_.steps[i].is_uniform && is_needed[i]) program_.uniforms.push_back(static_cast<std::int32_t>(i));
        }
        limit("different numbers", program_.uniforms.size(), max_uniforms);
    }

    void limit(std::string_view what, std::size_t count, std::size_t most) const {
        if (count <= most) return;
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: {} {} in one expression, at most {} are taken", operation_, count, what, most));
    }

    // Steps that no store needs go, such as the rounding for a reader that there is not.
    void drop_unused_steps() {
        std::vector<bool> is_needed(program_.steps.size(), false);
        for (const Store& store : program_.stores)
            is_needed[static_cast<std::size_t>(store.step)] = true;
        for (std::size_t i = program_.steps.size(); i-- > 0;) {
            const Step& step = program_.steps[i];
            // A number that does not fit is a fault, whether it is used or not.
            if (step.is_checked) is_needed[i] = true;
            for (int k = 0; is_needed[i] && k < argument_count(step); ++k)
                is_needed[static_cast<std::size_t>(step.arguments[static_cast<std::size_t>(k)])] = true;
        }
        std::vector<std::int32_t> moved(program_.steps.size(), -1);
        std::vector<Step> kept;
        program_.is_read.assign(program_.operands.size(), false);
        for (std::size_t i = 0; i < program_.steps.size(); ++i) {
            if (!is_needed[i]) continue;
            Step step = program_.steps[i];
            for (std::int32_t& argument : step.arguments)
                argument = argument < 0 ? -1 : moved[static_cast<std::size_t>(argument)];
            if (step.operand >= 0) program_.is_read[static_cast<std::size_t>(step.operand)] = true;
            moved[i] = static_cast<std::int32_t>(kept.size());
            kept.push_back(step);
        }
        for (Store& store : program_.stores)
            store.step = moved[static_cast<std::size_t>(store.step)];
        program_.steps = std::move(kept);
    }

    struct Assignment {
        Value value;
        std::size_t position = 0;
        bool is_used = false;
    };

    std::string_view operation_;
    std::string_view text_;
    const SyntaxTree& tree_;
    Program program_;
    std::vector<Value> values_;  // of the nodes
    std::vector<bool> used_;     // operands
    std::map<std::string, Assignment, std::less<>> assigned_;
    std::map<std::array<std::int64_t, 8>, std::int32_t> known_;
};

}  // namespace

std::size_t Program::array_of(std::int32_t operand) const noexcept {
    return static_cast<std::size_t>(std::find(arrays.begin(), arrays.end(), operand) - arrays.begin());
}

int argument_count(const Step& step) noexcept {
    return static_cast<int>(
        std::count_if(step.arguments.begin(), step.arguments.end(), [](std::int32_t argument) { return argument >= 0; }));
}

Program make_program(std::string_view operation, std::string_view text, const SyntaxTree& tree,
                     std::vector<OperandType> operands) {
    return Typer(operation, text, tree, std::move(operands)).run();
}

}  // namespace tandem::expression
