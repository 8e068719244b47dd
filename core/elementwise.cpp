#include "core/elementwise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "core/device_state.hpp"
#include "core/split.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

using driver::Elementwise;

[[noreturn]] void refuse(Op op, const std::string& what) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", to_string(op), what));
}

void check(const Queue& queue, Op op, const Array* const* inputs, std::size_t input_count, const Array& out) {
    static constexpr const char* names[] = {"left", "right"};
    const auto input_name = [&](std::size_t i) { return input_count == 1 ? "the input" : names[i]; };
    const auto check_device = [&](const Array& array, const char* name) {
        if (array.device() == queue.device()) return;
        refuse(op, fmt::format("{} is on {}, the queue on {}", name, array.device().spec(), queue.device().spec()));
    };
    (void)queue.state();  // throws where the queue was moved from, and so has no device
    check_device(out, "the output");
    for (std::size_t i = 0; i < input_count; ++i) {
        const Array& in = *inputs[i];
        check_device(in, input_name(i));
        if (in.dtype() == out.dtype() && in.shape() == out.shape()) continue;
        const auto report = [&](const Array& one, const char* one_name, const Array& other, const char* other_name) {
            refuse(op, fmt::format("{} is {}, {} is {}: {} must be equal", one_name, describe(one), other_name, describe(other),
                                   one.dtype() != other.dtype() ? "dtypes" : "shapes"));
        };
        // Two inputs that differ are named together: it is the pair that the caller thinks of.
        const bool inputs_differ =
            input_count == 2 && (inputs[0]->dtype() != inputs[1]->dtype() || inputs[0]->shape() != inputs[1]->shape());
        if (inputs_differ) report(*inputs[0], names[0], *inputs[1], names[1]);
        report(in, input_name(i), out, "the output");
    }
    check_dtype_supported(queue.device().info(), to_string(op), out.dtype());
    if (out.count() == 0) return;
    check_access(to_string(op), "the output", out, Access::write);
    for (std::size_t i = 0; i < input_count; ++i)
        check_access(to_string(op), input_name(i), *inputs[i], Access::read);
    if (!elements_are_apart(out)) refuse(op, fmt::format("the output, {}, has bytes that belong to two elements", describe(out)));
    for (std::size_t i = 0; i < input_count; ++i) {
        if (overlap(*inputs[i], out) == Overlap::partial) {
            refuse(op, fmt::format("the output overlaps {} in memory, but not element for element", input_name(i)));
        }
    }
}

// Dimensions of more than one element in the order in which the output's memory is walked, outermost first.
std::vector<std::size_t> walking_order(const Array& out) {
    std::vector<std::size_t> order(out.dimensions());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::erase_if(order, [&](std::size_t d) { return out.shape()[d] == 1; });
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return std::abs(out.strides_bytes()[a]) > std::abs(out.strides_bytes()[b]);
    });
    return order;
}

// A call for every index of `outer` dimensions, which are more than a kernel walks by itself.
void submit_outer(QueueState::Submission& submission, driver::Device& device, Elementwise call,
                  const std::vector<const Array*>& operands, const std::vector<std::size_t>& outer, std::size_t depth,
                  std::shared_ptr<driver::Memory>& scratch) {
    if (depth == outer.size()) {
        merge_dimensions(call);
        submit_split(submission, device, call, scratch);
        return;
    }
    const std::size_t dimension = outer[depth];
    for (std::int64_t index = 0; index < operands[0]->shape()[dimension]; ++index) {
        submit_outer(submission, device, call, operands, outer, depth + 1, scratch);
        for (std::size_t i = 0; i < operands.size(); ++i) {
            const auto offset =
                static_cast<std::int64_t>(call.operands[i].offset_bytes) + operands[i]->strides_bytes()[dimension];
            call.operands[i].offset_bytes = static_cast<std::size_t>(offset);
        }
    }
}

// Arrays that aren't all dense in one order.
void submit_strided(QueueState::Submission& submission, driver::Device& device, Elementwise call,
                    const std::vector<const Array*>& operands, std::shared_ptr<driver::Memory>& scratch) {
    const Array& out = *operands[0];
    struct Walk {
        std::int64_t count;
        std::array<std::int64_t, max_operands> strides_bytes;
    };
    const std::vector<std::size_t> order = walking_order(out);
    // Whatever exceeds a kernel's dimensions even after merging is looped over here. Merging is tried on the innermost ones
    // first, so only dimensions that truly can't be merged count.
    std::vector<Walk> walks;
    std::vector<std::size_t> outer;
    for (std::size_t k = order.size(); k-- > 0;) {
        const std::size_t d = order[k];
        Walk walk{out.shape()[d], {}};
        for (std::size_t i = 0; i < operands.size(); ++i)
            walk.strides_bytes[i] = operands[i]->strides_bytes()[d];
        if (!walks.empty()) {
            Walk& inner = walks.back();
            const bool dense = std::equal(
                walk.strides_bytes.begin(), walk.strides_bytes.begin() + call.operand_count, inner.strides_bytes.begin(),
                [&](std::int64_t outside, std::int64_t inside) { return outside == inside * inner.count; });
            if (dense) {
                inner.count *= walk.count;
                continue;
            }
        }
        if (walks.size() < max_kernel_dimensions) {
            walks.push_back(walk);
        } else {
            outer.insert(outer.begin(), order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k) + 1);
            break;
        }
    }
    call.dimensions = std::max<int>(1, static_cast<int>(walks.size()));
    call.shape[0] = 1;
    for (std::size_t k = 0; k < walks.size(); ++k) {
        const std::size_t to = walks.size() - 1 - k;
        call.shape[to] = walks[k].count;
        for (std::size_t i = 0; i < operands.size(); ++i)
            call.operands[i].strides_bytes[to] = walks[k].strides_bytes[i];
    }
    submit_outer(submission, device, call, operands, outer, 0, scratch);
}

}  // namespace

std::string describe(const Array& array) {
    return fmt::format("{} {}", to_string(array.dtype()), to_string(array.shape()));
}

void check_same_device(std::string_view operation, const Queue& queue, const Array& array) {
    (void)queue.state();  // throws where the queue was moved from, and so has no device
    if (array.device() == queue.device()) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: the array is on {}, the queue on {}", operation, array.device().spec(), queue.device().spec()));
}

void check_access(std::string_view operation, std::string_view name, const Array& array, Access access) {
    if (array.count() == 0) return;
    if (access != Access::read && !array.memory()->is_writable) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: {} lies in read-only memory ({})", operation, name, array.residency()));
    }
    if (array.memory()->mapped.are_none()) return;
    const ByteRange bytes = byte_range(array);
    if (array.memory()->mapped.conflicts(static_cast<std::size_t>(bytes.first), static_cast<std::size_t>(bytes.end - bytes.first),
                                         access)) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: {} is mapped for the host; end that view first", operation, name));
    }
}

void check_dtype_supported(const DeviceInfo& device, std::string_view operation, DType dtype) {
    if (device.has_float64 || (dtype != DType::float64 && dtype != DType::complex128)) return;
    throw Error(ErrorCode::unsupported, fmt::format("{}: {} needs double precision, which {} ({}) does not have", operation,
                                                    to_string(dtype), device.spec, device.name));
}

void run_elementwise(Queue& queue, Op op, std::initializer_list<const Array*> inputs, const Array& out) {
    check(queue, op, inputs.begin(), inputs.size(), out);
    if (out.count() == 0) return;

    Elementwise call;
    call.op = op;
    call.dtype = kernel_dtype(op, out.dtype());
    call.operand_count = static_cast<int>(inputs.size()) + 1;
    bool dense_c = true;
    bool dense_fortran = true;
    bool one_window = true;
    std::size_t i = 0;
    const auto add_operand = [&](const Array& array) {
        driver::Operand& operand = call.operands[i++];
        operand.memory = array.memory().get();
        operand.offset_bytes = array.offset_bytes();
        operand.strides_bytes[0] = static_cast<std::int64_t>(size_bytes(array.dtype()));
        dense_c = dense_c && array.is_dense(Order::c);
        dense_fortran = dense_fortran && array.is_dense(Order::fortran);
        one_window = one_window && operand.memory->window_bytes() >= operand.memory->size_bytes();
    };
    add_operand(out);
    for (const Array* in : inputs)
        add_operand(*in);

    QueueState::Submission submission(queue.state(), out.size_bytes() * static_cast<std::size_t>(call.operand_count));
    submission.use(out.memory());
    for (const Array* in : inputs)
        submission.use(in->memory());
    if (dense_c || dense_fortran) {
        call.contiguous = true;
        call.shape[0] = out.count();
        if (one_window) {
            submission.native().run(call);
            return;
        }
    }
    driver::Device& device = *queue.device().state()->native;
    std::shared_ptr<driver::Memory> scratch;
    if (call.contiguous) {
        submit_split(submission, device, call, scratch);
    } else {
        std::vector<const Array*> operands{&out};
        operands.insert(operands.end(), inputs.begin(), inputs.end());
        submit_strided(submission, device, call, operands, scratch);
    }
}

}  // namespace tandem
