#include "core/elementwise.hpp"

#include <fmt/format.h>

#include <vector>

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

// Runs the pieces of a call.
class ElementwiseSink final : public PieceSink {
public:
    ElementwiseSink(QueueState::Submission& submission, driver::Device& device, Op op)
        : submission_(submission), scratch_(submission, device), op_(op) {}

    void take(const driver::Walk& piece) override { submission_.native().run({piece, op_}); }

    void take_straddling(const driver::Walk& element) override {
        const driver::Walk moved = scratch_.fetch(element, 1);
        submission_.native().run({moved, op_});
        const driver::Operand& out = element.operands[0];
        submission_.native().copy(*out.memory, out.offset_bytes, *moved.operands[0].memory, moved.operands[0].offset_bytes,
                                  size_bytes(element.dtype));
    }

private:
    QueueState::Submission& submission_;
    StraddleScratch scratch_;
    Op op_;
};

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
    ElementwiseSink sink(submission, *queue.device().state()->native, op);
    if (call.contiguous) {
        split(call, sink);
    } else {
        std::vector<const Strides*> strides_bytes{&out.strides_bytes()};
        for (const Array* in : inputs)
            strides_bytes.push_back(&in->strides_bytes());
        split_strided(call, out.shape(), strides_bytes, sink);
    }
}

}  // namespace tandem
