#include "tandem/ops.hpp"

#include "core/elementwise.hpp"

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

}  // namespace tandem
