#include "tandem/reduce.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/device_state.hpp"
#include "core/elementwise.hpp"
#include "core/split.hpp"
#include "kernels/reduce.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

// As many partial results as there is room for in one window of the device.
unsigned partials_for(const DeviceInfo& device) noexcept {
    const std::uint64_t room = device.max_window_bytes / partial_bytes;
    constexpr std::uint64_t before = partials_offset_bytes / partial_bytes;
    return static_cast<unsigned>(std::clamp<std::uint64_t>(room > before ? room - before : 0, 1, max_partials));
}

// Checked before anything is allocated.
DType supported(const Device& device, ReduceOp op, DType dtype) {
    check_dtype_supported(device.info(), to_string(op), dtype);
    return dtype;
}

// Reduces the pieces of a call, one after the other, into one state.
class ReduceSink final : public PieceSink {
public:
    ReduceSink(QueueState::Submission& submission, driver::Device& device, const driver::Reduce& call)
        : submission_(submission), scratch_(submission, device), call_(call) {}

    void take(const driver::Walk& piece) override {
        static_cast<driver::Walk&>(call_) = piece;
        submission_.native().reduce(call_);
        call_.is_first = false;
    }
    void take_straddling(const driver::Walk& element) override { take(scratch_.fetch(element, 0)); }

private:
    QueueState::Submission& submission_;
    StraddleScratch scratch_;
    driver::Reduce call_;
};

Array reduce(Queue& queue, ReduceOp op, const Array& in) {
    Reduction reduction(queue.device(), op, in.dtype());
    reduction.add(queue, in);
    return reduction.result(queue);
}

}  // namespace

Reduction::Reduction(const Device& device, ReduceOp op, DType dtype)
    : op_(op),
      dtype_(supported(device, op, dtype)),
      max_partials_(partials_for(device.info())),
      state_(device, partials_offset_bytes + partial_bytes * max_partials_) {}

void Reduction::check_device(const Queue& queue) const {
    (void)queue.state();  // throws where the queue was moved from, and so has no device
    if (state_.memory() == nullptr) throw Error(ErrorCode::invalid_argument, "this reduction was moved from");
    if (state_.device() == queue.device()) return;
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: the reduction is on {}, the queue on {}", to_string(op_),
                                                         state_.device().spec(), queue.device().spec()));
}

void Reduction::add(Queue& queue, const Array& chunk) {
    check_device(queue);
    check_same_device(to_string(op_), queue, chunk);
    if (chunk.dtype() != dtype_) {
        throw Error(ErrorCode::invalid_argument, fmt::format("{}: the array is {}, the reduction is of {}: dtypes must be equal",
                                                             to_string(op_), describe(chunk), to_string(dtype_)));
    }
    if (chunk.count() == 0) return;
    check_access(to_string(op_), "the array", chunk, Access::read);

    driver::Reduce call;
    call.op = op_;
    call.dtype = kernel_dtype(op_, dtype_);
    call.operand_count = 1;
    call.operands[0].memory = chunk.memory().get();
    call.operands[0].offset_bytes = chunk.offset_bytes();
    call.operands[0].strides_bytes[0] = static_cast<std::int64_t>(size_bytes(dtype_));
    call.state = state_.memory().get();
    call.is_first = count_ == 0;
    call.max_partials = max_partials_;

    QueueState::Submission submission(queue.state(), chunk.size_bytes());
    submission.use(state_.memory());
    submission.use(chunk.memory());
    ReduceSink sink(submission, *queue.device().state()->native, call);
    if (chunk.is_dense(Order::c) || chunk.is_dense(Order::fortran)) {
        call.contiguous = true;
        call.shape[0] = chunk.count();
        split(call, sink);
    } else {
        split_strided(call, chunk.shape(), {&chunk.strides_bytes()}, sink);
    }
    count_ += chunk.count();
}

Array Reduction::result(Queue& queue) const {
    check_device(queue);
    if (count_ == 0 && op_ != ReduceOp::sum)
        throw Error(ErrorCode::invalid_argument, fmt::format("{}: there are no elements", to_string(op_)));
    Array value = empty(queue.device(), result_dtype(op_, dtype_), {});
    QueueState::Submission submission(queue.state(), value.size_bytes());
    submission.use(value.memory());
    if (count_ == 0) {
        static constexpr std::array<std::byte, 16> zero{};
        submission.native().write(*value.memory(), 0, zero.data(), value.size_bytes());
    } else {
        submission.use(state_.memory());
        submission.native().copy(*value.memory(), 0, *state_.memory(), result_offset_bytes, value.size_bytes());
    }
    return value;
}

Array sum(Queue& queue, const Array& in) {
    return reduce(queue, ReduceOp::sum, in);
}

Array min(Queue& queue, const Array& in) {
    return reduce(queue, ReduceOp::min, in);
}

Array max(Queue& queue, const Array& in) {
    return reduce(queue, ReduceOp::max, in);
}

}  // namespace tandem
