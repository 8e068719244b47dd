#include "core/split.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace tandem {
namespace {

using driver::Elementwise;
using driver::Operand;

struct Extent {
    std::int64_t first, end;  // byte offsets in the memory: of the lowest element, and behind the highest
};

Extent extent(const Elementwise& call, const Operand& operand) noexcept {
    Extent bytes{static_cast<std::int64_t>(operand.offset_bytes), static_cast<std::int64_t>(operand.offset_bytes)};
    for (int d = 0; d < call.dimensions; ++d) {
        const std::int64_t span =
            operand.strides_bytes[static_cast<std::size_t>(d)] * (call.shape[static_cast<std::size_t>(d)] - 1);
        (span < 0 ? bytes.first : bytes.end) += span;
    }
    bytes.end += static_cast<std::int64_t>(size_bytes(call.dtype));
    return bytes;
}

bool in_one_window(const Elementwise& call, const Operand& operand) noexcept {
    const auto window = static_cast<std::int64_t>(operand.memory->window_bytes());
    const Extent bytes = extent(call, operand);
    return bytes.first / window == (bytes.end - 1) / window;
}

// The part of `call` from `begin` on, `count` long, along one dimension.
Elementwise part(const Elementwise& call, std::size_t dimension, std::int64_t begin, std::int64_t count) noexcept {
    Elementwise piece = call;
    piece.shape[dimension] = count;
    for (int i = 0; i < call.operand_count; ++i) {
        Operand& operand = piece.operands[static_cast<std::size_t>(i)];
        const std::int64_t offset = static_cast<std::int64_t>(operand.offset_bytes) + begin * operand.strides_bytes[dimension];
        operand.offset_bytes = static_cast<std::size_t>(offset);
    }
    merge_dimensions(piece);
    return piece;
}

// Where to cut `dimension`, which has more than one element, for `operand`, which crosses a window's end: behind the last index
// whose elements all lie before it, or behind the first index where that one crosses already.
std::int64_t cut(const Elementwise& call, const Operand& operand, std::size_t dimension) noexcept {
    const std::int64_t count = call.shape[dimension];
    const std::int64_t stride = operand.strides_bytes[dimension];
    if (stride < 0) return count / 2;  // rare, and halving ends just as surely
    const auto window = static_cast<std::int64_t>(operand.memory->window_bytes());
    const Extent bytes = extent(call, operand);
    const std::int64_t boundary = (bytes.first / window + 1) * window;
    const std::int64_t one_index = bytes.end - bytes.first - stride * (count - 1);
    if (boundary - one_index < bytes.first) return 1;
    return std::clamp<std::int64_t>((boundary - one_index - bytes.first) / stride + 1, 1, count - 1);
}

// One element with bytes on both sides of a window's end: through memory of one window, by copies, which may cross.
void submit_straddling(QueueState::Submission& submission, driver::Device& device, const Elementwise& call,
                       std::shared_ptr<driver::Memory>& scratch) {
    constexpr std::size_t slot_bytes = 16;
    const std::size_t item_bytes = size_bytes(call.dtype);
    if (scratch == nullptr) scratch = device.allocate(slot_bytes * max_operands, MemoryKind::device);
    submission.use(scratch);
    Elementwise moved = call;
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.operand_count); ++i) {
        const Operand& operand = call.operands[i];
        if (i != 0) submission.native().copy(*scratch, i * slot_bytes, *operand.memory, operand.offset_bytes, item_bytes);
        moved.operands[i].memory = scratch.get();
        moved.operands[i].offset_bytes = i * slot_bytes;
    }
    submission.native().run(moved);
    submission.native().copy(*call.operands[0].memory, call.operands[0].offset_bytes, *scratch, 0, item_bytes);
}

}  // namespace

void merge_dimensions(Elementwise& call) noexcept {
    const auto operands = static_cast<std::size_t>(call.operand_count);
    int kept = 0;
    for (int d = 0; d < call.dimensions; ++d) {
        const auto from = static_cast<std::size_t>(d);
        if (call.shape[from] == 1) continue;
        const auto mergeable = [&] {
            if (kept == 0) return false;
            const auto outer = static_cast<std::size_t>(kept - 1);
            return std::all_of(call.operands.begin(), call.operands.begin() + call.operand_count, [&](const Operand& operand) {
                return operand.strides_bytes[outer] == operand.strides_bytes[from] * call.shape[from];
            });
        };
        if (mergeable()) {
            const auto outer = static_cast<std::size_t>(kept - 1);
            call.shape[outer] *= call.shape[from];
            for (std::size_t i = 0; i < operands; ++i)
                call.operands[i].strides_bytes[outer] = call.operands[i].strides_bytes[from];
        } else {
            const auto to = static_cast<std::size_t>(kept++);
            call.shape[to] = call.shape[from];
            for (std::size_t i = 0; i < operands; ++i)
                call.operands[i].strides_bytes[to] = call.operands[i].strides_bytes[from];
        }
    }
    const auto item_bytes = static_cast<std::int64_t>(size_bytes(call.dtype));
    if (kept == 0) {  // one element
        call.shape[0] = 1;
        for (std::size_t i = 0; i < operands; ++i)
            call.operands[i].strides_bytes[0] = item_bytes;
        kept = 1;
    }
    call.dimensions = kept;
    call.contiguous = kept == 1 && std::all_of(call.operands.begin(), call.operands.begin() + call.operand_count,
                                               [&](const Operand& operand) { return operand.strides_bytes[0] == item_bytes; });
}

namespace {

// The first operand that crosses a window's end, or null.
const Operand* find_crossing(const Elementwise& call) noexcept {
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.operand_count); ++i) {
        if (!in_one_window(call, call.operands[i])) return &call.operands[i];
    }
    return nullptr;
}

// The dimension that spans most of the operand's bytes; none where there is one element.
std::optional<std::size_t> widest_dimension(const Elementwise& call, const Operand& operand) noexcept {
    std::optional<std::size_t> widest;
    std::int64_t most = -1;
    for (std::size_t d = 0; d < static_cast<std::size_t>(call.dimensions); ++d) {
        const std::int64_t span = std::abs(operand.strides_bytes[d]) * (call.shape[d] - 1);
        if (call.shape[d] > 1 && span > most) {
            most = span;
            widest = d;
        }
    }
    return widest;
}

}  // namespace

void submit_split(QueueState::Submission& submission, driver::Device& device, const Elementwise& call,
                  std::shared_ptr<driver::Memory>& scratch) {
    // What is cut off is recursed into, what remains is looped over: the depth grows with operands and dimensions, not with
    // windows.
    Elementwise rest = call;
    for (;;) {
        const Operand* crossing = find_crossing(rest);
        if (crossing == nullptr) {
            submission.native().run(rest);
            return;
        }
        const std::optional<std::size_t> widest = widest_dimension(rest, *crossing);
        if (!widest) {
            submit_straddling(submission, device, rest, scratch);
            return;
        }
        const std::int64_t at = cut(rest, *crossing, *widest);
        submit_split(submission, device, part(rest, *widest, 0, at), scratch);
        rest = part(rest, *widest, at, rest.shape[*widest] - at);
    }
}

}  // namespace tandem
