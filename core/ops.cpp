#include "tandem/ops.hpp"

#include <fmt/format.h>

#include "core/elementwise.hpp"
#include "core/expression/run.hpp"

namespace tandem {

void add(Queue& queue, const Array& left, const Array& right, const Array& out) {
    run_elementwise(queue, Op::add, {&left, &right}, out);
}

void twice(Queue& queue, const Array& in, const Array& out) {
    run_elementwise(queue, Op::twice, {&in}, out);
}

void twice(Queue& queue, const Array& in_out) {
    run_elementwise(queue, Op::twice, {&in_out}, in_out);
}

void byteswap(Queue& queue, const Array& in, const Array& out) {
    run_elementwise(queue, Op::byteswap, {&in}, out);
}

void subtract(Queue& queue, const Array& left, const Array& right, const Array& out) {
    run_expression(queue, "subtract", "out = left - right", {{"out", out}, {"left", left}, {"right", right}});
}

void multiply(Queue& queue, const Array& left, const Array& right, const Array& out) {
    run_expression(queue, "multiply", "out = left * right", {{"out", out}, {"left", left}, {"right", right}});
}

void divide(Queue& queue, const Array& left, const Array& right, const Array& out) {
    run_expression(queue, "divide", "out = left / right", {{"out", out}, {"left", left}, {"right", right}});
}

void scale(Queue& queue, Scalar factor, const Array& in, const Array& out) {
    run_expression(queue, "scale", "out = factor * in", {{"out", out}, {"factor", factor}, {"in", in}});
}

void axpy(Queue& queue, Scalar a, const Array& x, const Array& y) {
    run_expression(queue, "axpy", "y = a * x + y", {{"a", a}, {"x", x}, {"y", y}});
}

void fill(Queue& queue, const Array& out, Scalar value) {
    run_expression(queue, "fill", "out = value", {{"out", out}, {"value", value}});
}

void cast(Queue& queue, const Array& in, const Array& out) {
    run_expression(queue, "cast", fmt::format("out = {}(in)", to_string(out.dtype())), {{"out", out}, {"in", in}});
}

void abs(Queue& queue, const Array& in, const Array& out) {
    run_expression(queue, "abs", "out = abs(in)", {{"out", out}, {"in", in}});
}

void sqrt(Queue& queue, const Array& in, const Array& out) {
    run_expression(queue, "sqrt", "out = sqrt(in)", {{"out", out}, {"in", in}});
}

void exp(Queue& queue, const Array& in, const Array& out) {
    run_expression(queue, "exp", "out = exp(in)", {{"out", out}, {"in", in}});
}

void log(Queue& queue, const Array& in, const Array& out) {
    run_expression(queue, "log", "out = log(in)", {{"out", out}, {"in", in}});
}

void minimum(Queue& queue, const Array& left, const Array& right, const Array& out) {
    run_expression(queue, "minimum", "out = min(left, right)", {{"out", out}, {"left", left}, {"right", right}});
}

void maximum(Queue& queue, const Array& left, const Array& right, const Array& out) {
    run_expression(queue, "maximum", "out = max(left, right)", {{"out", out}, {"left", left}, {"right", right}});
}

void where(Queue& queue, const Array& condition, const Array& left, const Array& right, const Array& out) {
    run_expression(queue, "where", "out = where(condition, left, right)",
                   {{"out", out}, {"condition", condition}, {"left", left}, {"right", right}});
}

}  // namespace tandem
