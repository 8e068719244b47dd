#include "core/expression/operands.hpp"

#include <fmt/format.h>

#include "core/driver.hpp"
#include "core/elementwise.hpp"
#include "core/expression/parser.hpp"
#include "core/overlap.hpp"
#include "core/printable.hpp"
#include "tandem/error.hpp"

namespace tandem::expression {
namespace {

[[noreturn]] void refuse(std::string_view operation, const std::string& what) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", operation, what));
}

// The strides of `array` over `shape`, or nothing where it does not broadcast to it.
bool broadcast(const Array& array, const Shape& shape, Strides& strides_bytes) {
    if (array.dimensions() > shape.size()) return false;
    const std::size_t leading = shape.size() - array.dimensions();
    strides_bytes.assign(shape.size(), 0);
    for (std::size_t d = 0; d < array.dimensions(); ++d) {
        if (array.shape()[d] == shape[leading + d]) {
            strides_bytes[leading + d] = array.strides_bytes()[d];
        } else if (array.shape()[d] != 1) {
            return false;
        }
    }
    return true;
}

// How an input lies to an output of a shape that it broadcasts to.
Overlap overlap_of(const Array& in, const Array& out) {
    if (in.count() == 0 || out.count() == 0) return Overlap::none;
    const ByteRange a = byte_range(in);
    const ByteRange b = byte_range(out);
    const auto first = static_cast<std::int64_t>(in.memory()->address());
    const auto second = static_cast<std::int64_t>(out.memory()->address());
    if (first + a.end <= second + b.first || second + b.end <= first + a.first) return Overlap::none;
    Overlap found = Overlap::partial;
    if (in.shape() == out.shape()) {
        found = overlap(in, out);
    } else if (in.count() == out.count()) {  // they differ in dimensions of one element
        found = overlap(in.is_dense(Order::c) ? in.reshape(out.shape()) : in, out);
        if (!in.is_dense(Order::c) && found == Overlap::same) found = Overlap::partial;
    } else if (first + static_cast<std::int64_t>(in.offset_bytes()) != second + static_cast<std::int64_t>(out.offset_bytes())) {
        found = overlap(in, out);
    }
    // Elements of two sizes at one place are not the same elements.
    return found == Overlap::same && size_bytes(in.dtype()) != size_bytes(out.dtype()) ? Overlap::partial : found;
}

}  // namespace

void check_names(std::string_view operation, std::span<const NamedOperand> operands) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
        const std::string_view name = operands[i].name;
        if (!is_operand_name(name)) refuse(operation, fmt::format("'{}' can't be an operand's name", printable(name, 64)));
        for (std::size_t k = 0; k < i; ++k) {
            if (operands[k].name == name) refuse(operation, fmt::format("there are two operands '{}'", printable(name, 64)));
        }
    }
}

Broadcast check_operands(std::string_view operation, const Queue& queue, const Program& program,
                         std::span<const NamedOperand> operands) {
    (void)queue.state();  // throws where the queue was moved from, and so has no device
    const auto array = [&](std::size_t i) -> const Array& {
        return *operands[static_cast<std::size_t>(program.arrays[i])].array;
    };
    const auto name = [&](std::size_t i) { return operands[static_cast<std::size_t>(program.arrays[i])].name; };
    const std::size_t outputs = program.stores.size();
    for (std::size_t i = 0; i < program.arrays.size(); ++i) {
        if (array(i).device() == queue.device()) continue;
        refuse(operation, fmt::format("{} is on {}, the queue on {}", name(i), array(i).device().spec(), queue.device().spec()));
    }
    const Array& first = array(0);
    Broadcast result;
    result.shape = &first.shape();
    bool dense_c = true;
    bool dense_fortran = true;
    for (std::size_t i = 0; i < program.arrays.size(); ++i) {
        const Array& one = array(i);
        const bool is_same_shape = one.shape() == first.shape();
        dense_c = dense_c && is_same_shape && one.is_dense(Order::c);
        dense_fortran = dense_fortran && is_same_shape && one.is_dense(Order::fortran);
        if (i < outputs && !is_same_shape) {
            refuse(operation, fmt::format("{} has shape {}, {} has {}: outputs must have one shape", name(0),
                                          to_string(first.shape()), name(i), to_string(one.shape())));
        }
    }
    result.is_dense = dense_c || dense_fortran;
    result.strides_bytes.resize(result.is_dense ? 0 : program.arrays.size());
    for (std::size_t i = 0; i < result.strides_bytes.size(); ++i) {
        if (broadcast(array(i), first.shape(), result.strides_bytes[i])) continue;
        refuse(operation, fmt::format("{} has shape {}, which does not broadcast to {} of {}", name(i),
                                      to_string(array(i).shape()), to_string(first.shape()), name(0)));
    }
    if (first.count() == 0) return result;
    for (std::size_t i = 0; i < program.arrays.size(); ++i)
        check_access(operation, name(i), array(i), i < outputs ? Access::read_write : Access::read);
    for (std::size_t i = 0; i < outputs; ++i) {
        if (!elements_are_apart(array(i)))
            refuse(operation, fmt::format("{}, {}, has bytes that belong to two elements", name(i), describe(array(i))));
        for (std::size_t k = 0; k < program.arrays.size(); ++k) {
            if (k == i || (k < outputs && k < i)) continue;
            const Overlap found = overlap_of(array(k), array(i));
            if (found == Overlap::none || (found == Overlap::same && k >= outputs)) continue;
            refuse(operation, fmt::format("{} overlaps {} in memory{}", name(i), name(k),
                                          k < outputs ? ", and both are outputs" : ", but not element for element"));
        }
    }
    return result;
}

}  // namespace tandem::expression
