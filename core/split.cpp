#include "core/split.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "core/expression/walk.hpp"

namespace tandem {
namespace {

using driver::Operand;

std::size_t item_bytes(const driver::Walk& call, std::size_t /*operand*/) noexcept {
    return size_bytes(call.dtype);
}

struct Extent {
    std::int64_t first, end;  // byte offsets in the memory: of the lowest element, and behind the highest
};

template <class Walk>
Extent extent(const Walk& call, std::size_t index) noexcept {
    const Operand& operand = call.operands[index];
    Extent bytes{static_cast<std::int64_t>(operand.offset_bytes), static_cast<std::int64_t>(operand.offset_bytes)};
    for (int d = 0; d < call.dimensions; ++d) {
        const std::int64_t span =
            operand.strides_bytes[static_cast<std::size_t>(d)] * (call.shape[static_cast<std::size_t>(d)] - 1);
        (span < 0 ? bytes.first : bytes.end) += span;
    }
    bytes.end += static_cast<std::int64_t>(item_bytes(call, index));
    return bytes;
}

template <class Walk>
bool in_one_window(const Walk& call, std::size_t index) noexcept {
    const auto window = static_cast<std::int64_t>(call.operands[index].memory->window_bytes());
    const Extent bytes = extent(call, index);
    return bytes.first / window == (bytes.end - 1) / window;
}

// The part of `call` from `begin` on, `count` long, along one dimension.
template <class Walk>
Walk part(const Walk& call, std::size_t dimension, std::int64_t begin, std::int64_t count) noexcept {
    Walk piece = call;
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
template <class Walk>
std::int64_t cut(const Walk& call, std::size_t index, std::size_t dimension) noexcept {
    const Operand& operand = call.operands[index];
    const std::int64_t count = call.shape[dimension];
    const std::int64_t stride = operand.strides_bytes[dimension];
    if (stride <= 0) return count / 2;  // rare, and halving ends just as surely
    const auto window = static_cast<std::int64_t>(operand.memory->window_bytes());
    const Extent bytes = extent(call, index);
    const std::int64_t boundary = (bytes.first / window + 1) * window;
    const std::int64_t one_index = bytes.end - bytes.first - stride * (count - 1);
    if (boundary - one_index < bytes.first) return 1;
    return std::clamp<std::int64_t>((boundary - one_index - bytes.first) / stride + 1, 1, count - 1);
}

}  // namespace

template <class Walk>
void merge_dimensions(Walk& call) noexcept {
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
    const auto item = [&](std::size_t i) { return static_cast<std::int64_t>(item_bytes(call, i)); };
    if (kept == 0) {  // one element
        call.shape[0] = 1;
        for (std::size_t i = 0; i < operands; ++i)
            call.operands[i].strides_bytes[0] = item(i);
        kept = 1;
    }
    call.dimensions = kept;
    call.contiguous = kept == 1;
    for (std::size_t i = 0; i < operands; ++i)
        call.contiguous = call.contiguous && call.operands[i].strides_bytes[0] == item(i);
}

namespace {

// The first operand that crosses a window's end.
template <class Walk>
std::optional<std::size_t> find_crossing(const Walk& call) noexcept {
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.operand_count); ++i) {
        if (!in_one_window(call, i)) return i;
    }
    return std::nullopt;
}

// The dimension that spans most of the operand's bytes; none where there is one element.
template <class Walk>
std::optional<std::size_t> widest_dimension(const Walk& call, const Operand& operand) noexcept {
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

template <class Walk>
void split(const std::type_identity_t<Walk>& call, PieceSinkOf<Walk>& sink) {
    // What is cut off is recursed into, what remains is looped over: the depth grows with operands and dimensions, not with
    // windows.
    Walk rest = call;
    for (;;) {
        const std::optional<std::size_t> crossing = find_crossing(rest);
        if (!crossing) return sink.take(rest);
        const std::optional<std::size_t> widest = widest_dimension(rest, rest.operands[*crossing]);
        if (!widest) return sink.take_straddling(rest);
        const std::int64_t at = cut(rest, *crossing, *widest);
        split<Walk>(part(rest, *widest, 0, at), sink);
        rest = part(rest, *widest, at, rest.shape[*widest] - at);
    }
}

namespace {

// Dimensions of more than one element in the order in which the first operand's memory is walked, outermost first.
std::vector<std::size_t> walking_order(const Shape& shape, const Strides& strides_bytes) {
    std::vector<std::size_t> order(shape.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::erase_if(order, [&](std::size_t d) { return shape[d] == 1; });
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return std::abs(strides_bytes[a]) > std::abs(strides_bytes[b]); });
    return order;
}

// A call for every index of `outer` dimensions, which are more than a kernel walks by itself.
template <class Walk>
void split_outer(Walk call, const Shape& shape, const std::vector<const Strides*>& strides_bytes,
                 const std::vector<std::size_t>& outer, std::size_t depth, PieceSinkOf<Walk>& sink) {
    if (depth == outer.size()) {
        merge_dimensions(call);
        split<Walk>(call, sink);
        return;
    }
    const std::size_t dimension = outer[depth];
    for (std::int64_t index = 0; index < shape[dimension]; ++index) {
        split_outer(call, shape, strides_bytes, outer, depth + 1, sink);
        for (std::size_t i = 0; i < strides_bytes.size(); ++i) {
            const auto offset = static_cast<std::int64_t>(call.operands[i].offset_bytes) + (*strides_bytes[i])[dimension];
            call.operands[i].offset_bytes = static_cast<std::size_t>(offset);
        }
    }
}

}  // namespace

template <class Walk>
void split_strided(std::type_identity_t<Walk> call, const Shape& shape, const std::vector<const Strides*>& strides_bytes,
                   PieceSinkOf<Walk>& sink) {
    const std::size_t operands = strides_bytes.size();
    struct Dimension {
        std::int64_t count;
        std::array<std::int64_t, std::tuple_size_v<decltype(Walk::operands)>> strides_bytes;
    };
    const std::vector<std::size_t> order = walking_order(shape, *strides_bytes[0]);
    // Whatever exceeds a kernel's dimensions even after merging is looped over here. Merging is tried on the innermost ones
    // first, so only dimensions that truly can't be merged count.
    std::vector<Dimension> walks;
    std::vector<std::size_t> outer;
    for (std::size_t k = order.size(); k-- > 0;) {
        const std::size_t d = order[k];
        Dimension walk{shape[d], {}};
        for (std::size_t i = 0; i < operands; ++i)
            walk.strides_bytes[i] = (*strides_bytes[i])[d];
        if (!walks.empty()) {
            Dimension& inner = walks.back();
            const bool dense =
                std::equal(walk.strides_bytes.begin(), walk.strides_bytes.begin() + static_cast<std::ptrdiff_t>(operands),
                           inner.strides_bytes.begin(),
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
        for (std::size_t i = 0; i < operands; ++i)
            call.operands[i].strides_bytes[to] = walks[k].strides_bytes[i];
    }
    split_outer<Walk>(call, shape, strides_bytes, outer, 0, sink);
}

driver::Walk StraddleScratch::fetch(const driver::Walk& element, int first) {
    if (memory_ == nullptr) memory_ = device_.allocate(slot_bytes * max_operands, MemoryKind::device);
    submission_.use(memory_);
    driver::Walk moved = element;
    for (int i = 0; i < element.operand_count; ++i) {
        const Operand& operand = element.operands[static_cast<std::size_t>(i)];
        Operand& slot = moved.operands[static_cast<std::size_t>(i)];
        slot.memory = memory_.get();
        slot.offset_bytes = static_cast<std::size_t>(i) * slot_bytes;
        if (i >= first) {
            submission_.native().copy(*memory_, slot.offset_bytes, *operand.memory, operand.offset_bytes,
                                      size_bytes(element.dtype));
        }
    }
    return moved;
}

#define TANDEM_X(Walk)                                          \
    template void merge_dimensions(Walk&) noexcept;             \
    template void split<Walk>(const Walk&, PieceSinkOf<Walk>&); \
    template void split_strided<Walk>(Walk, const Shape&, const std::vector<const Strides*>&, PieceSinkOf<Walk>&);
TANDEM_X(driver::Walk)
TANDEM_X(expression::Walk)
#undef TANDEM_X

}  // namespace tandem
