#include "backends/host/kernel.hpp"

#include <algorithm>
#include <cstring>

#include "backends/host/memory.hpp"
#include "core/instruction_set.hpp"
#include "core/thread_pool.hpp"
#include "kernels/host_kernels.hpp"

namespace tandem {

// Defined by kernels/*.cpp, once for each instruction set that the build has.
#define TANDEM_X(name, inputs)                                \
    extern const HostKernels host_kernels_##name##_baseline;  \
    extern const HostKernels host_kernels_##name##_x86_64_v3; \
    extern const HostKernels host_kernels_##name##_x86_64_v4;
TANDEM_FOR_EACH_OP(TANDEM_X)
#undef TANDEM_X
extern const HostReducers host_kernels_reduce_baseline;
extern const HostReducers host_kernels_reduce_x86_64_v3;
extern const HostReducers host_kernels_reduce_x86_64_v4;

}  // namespace tandem

namespace tandem::host {
namespace {

using driver::Elementwise;

// Below this much memory traffic, waking other threads costs more than they save.
constexpr std::int64_t parallel_bytes = std::int64_t{256} << 10U;
// Outputs larger than this don't stay in the caches until somebody reads them, so they are written past the caches.
constexpr std::int64_t streaming_bytes = std::int64_t{16} << 20U;

// The kernels of one instruction set.
struct Tables {
    const HostKernels* elementwise[op_count];
    const HostReducers* reducers;
};

Tables best_tables() noexcept {
    [[maybe_unused]] const InstructionSet best = best_instruction_set();
#if defined(TANDEM_HAS_x86_64_v4)
#define TANDEM_X(name, inputs) &host_kernels_##name##_x86_64_v4,
    if (best == InstructionSet::x86_64_v4) return {{TANDEM_FOR_EACH_OP(TANDEM_X)}, &host_kernels_reduce_x86_64_v4};
#undef TANDEM_X
#endif
#if defined(TANDEM_HAS_x86_64_v3)
#define TANDEM_X(name, inputs) &host_kernels_##name##_x86_64_v3,
    if (best == InstructionSet::x86_64_v3) return {{TANDEM_FOR_EACH_OP(TANDEM_X)}, &host_kernels_reduce_x86_64_v3};
#undef TANDEM_X
#endif
#define TANDEM_X(name, inputs) &host_kernels_##name##_baseline,
    return {{TANDEM_FOR_EACH_OP(TANDEM_X)}, &host_kernels_reduce_baseline};
#undef TANDEM_X
}

const Tables& tables() noexcept {
    static const Tables best = best_tables();
    return best;
}

std::byte* address(const driver::Operand& operand) noexcept {
    return static_cast<Memory*>(operand.memory)->data() + operand.offset_bytes;
}

// How many parts to cut `units` of work into that touch `bytes` of memory together: one for each thread, or one where that is too
// little.
std::int64_t parts_for(std::int64_t bytes, std::int64_t units) {
    if (bytes < parallel_bytes) return 1;
    // Large work in more parts than threads: what one thread loses to others' work on this machine, another makes up.
    const std::int64_t per_thread = std::clamp<std::int64_t>(bytes / parallel_bytes / 16, 1, 8);
    return std::min<std::int64_t>(ThreadPool::instance().threads() * per_thread, units);
}

void run_contiguous(const Elementwise& call, const HostKernel& kernel) {
    const auto item_bytes = static_cast<std::int64_t>(size_bytes(call.dtype));
    const std::int64_t count = call.shape[0];
    std::byte* out = address(call.operands[0]);
    const std::byte* in[max_operands - 1] = {};
    bool in_place = false;
    for (int i = 1; i < call.operand_count; ++i) {
        in[i - 1] = address(call.operands[static_cast<std::size_t>(i)]);
        in_place = in_place || in[i - 1] == out;
    }
    const bool streaming = !in_place && count * item_bytes >= streaming_bytes;
    const std::int64_t parts = parts_for(count * item_bytes * call.operand_count, count);
    // Whole cache lines for each part, so that no two threads write to one.
    const std::int64_t line = 64 / std::min<std::int64_t>(item_bytes, 64);
    const std::int64_t part_count = (count / parts + line) / line * line;
    ThreadPool::instance().parallel(parts, [&](std::int64_t part) {
        const std::int64_t first = std::min(part * part_count, count);
        const std::int64_t end = part + 1 == parts ? count : std::min(first + part_count, count);
        if (first == end) return;
        const std::byte* from[max_operands - 1] = {};
        for (int i = 0; i + 1 < call.operand_count; ++i)
            from[i] = in[i] + first * item_bytes;
        kernel.contiguous(out + first * item_bytes, from, end - first, streaming);
    });
}

void run_strided(const Elementwise& call, const HostKernel& kernel) {
    const auto inner = static_cast<std::size_t>(call.dimensions - 1);
    const auto item_bytes = static_cast<std::int64_t>(size_bytes(call.dtype));
    std::int64_t rows = 1;
    for (std::size_t d = 0; d < inner; ++d)
        rows *= call.shape[d];
    std::int64_t strides_bytes[max_operands] = {};
    bool dense_rows = true;
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.operand_count); ++i) {
        strides_bytes[i] = call.operands[i].strides_bytes[inner];
        dense_rows = dense_rows && strides_bytes[i] == item_bytes;
    }
    // Rows are shared out; a single row is cut instead.
    const std::int64_t units = rows > 1 ? rows : call.shape[inner];
    const std::int64_t parts = parts_for(rows * call.shape[inner] * item_bytes * call.operand_count, units);
    ThreadPool::instance().parallel(parts, [&](std::int64_t part) {
        const std::int64_t begin = units * part / parts;
        const std::int64_t end = units * (part + 1) / parts;
        const std::int64_t first_row = rows > 1 ? begin : 0;
        const std::int64_t end_row = rows > 1 ? end : 1;
        const std::int64_t first = rows > 1 ? 0 : begin;
        const std::int64_t count = rows > 1 ? call.shape[inner] : end - begin;
        for (std::int64_t row = first_row; row < end_row; ++row) {
            std::int64_t offsets[max_operands] = {};
            std::int64_t rest = row;
            for (std::size_t d = inner; d-- > 0;) {
                const std::int64_t index = rest % call.shape[d];
                rest /= call.shape[d];
                for (std::size_t i = 0; i < static_cast<std::size_t>(call.operand_count); ++i)
                    offsets[i] += index * call.operands[i].strides_bytes[d];
            }
            const std::byte* from[max_operands - 1] = {};
            for (std::size_t i = 1; i < static_cast<std::size_t>(call.operand_count); ++i) {
                from[i - 1] = address(call.operands[i]) + offsets[i] + first * strides_bytes[i];
            }
            std::byte* out = address(call.operands[0]) + offsets[0] + first * strides_bytes[0];
            if (dense_rows) {
                kernel.contiguous(out, from, count, false);
            } else {
                kernel.strided(out, from, strides_bytes, count);
            }
        }
    });
}

}  // namespace

void run(const Elementwise& call) {
    const HostKernel& chosen =
        tables().elementwise[static_cast<std::size_t>(call.op)]->by_dtype[static_cast<std::size_t>(call.dtype)];
    if (call.contiguous) {
        run_contiguous(call, chosen);
    } else {
        run_strided(call, chosen);
    }
}

void reduce(const driver::Reduce& call) {
    const HostReducer& reducer =
        tables().reducers->by_op[static_cast<std::size_t>(call.op)][static_cast<std::size_t>(call.dtype)];
    const auto item_bytes = static_cast<std::int64_t>(size_bytes(call.dtype));
    const std::byte* in = address(call.operands[0]);
    const auto inner = static_cast<std::size_t>(call.dimensions - 1);
    const std::int64_t rows = call.count() / call.shape[inner];
    StridedLayout layout;
    layout.dimensions = call.dimensions;
    std::copy_n(call.shape.begin(), max_kernel_dimensions, layout.shape);
    std::copy_n(call.operands[0].strides_bytes.begin(), max_kernel_dimensions, layout.strides_bytes[0]);

    // Rows are shared out; a single row is cut instead.
    const std::int64_t units = rows > 1 ? rows : call.shape[inner];
    const std::int64_t parts =
        std::min<std::int64_t>(parts_for(call.count() * item_bytes, units), static_cast<std::int64_t>(call.max_partials));
    std::byte* state = static_cast<Memory*>(call.state)->data();
    auto* partials = reinterpret_cast<HostPartial*>(state + partials_offset_bytes);
    ThreadPool::instance().parallel(parts, [&](std::int64_t part) {
        const std::int64_t begin = units * part / parts;
        const std::int64_t count = units * (part + 1) / parts - begin;
        if (call.contiguous) {
            partials[part] = reducer.contiguous(in + begin * item_bytes, count);
        } else {
            const HostRows share = rows > 1 ? HostRows{begin, count, 0, call.shape[inner]} : HostRows{0, 1, begin, count};
            partials[part] = reducer.strided(in, layout, share);
        }
    });
    auto& running = *reinterpret_cast<HostPartial*>(state);
    if (call.is_first) {
        running = partials[0];
    } else {
        reducer.merge(running, partials[0]);
    }
    for (std::int64_t part = 1; part < parts; ++part)
        reducer.merge(running, partials[part]);
    reducer.finish(running, state + result_offset_bytes);
}

void copy(std::byte* destination, const std::byte* source, std::size_t size_bytes) {
    const auto total = static_cast<std::int64_t>(size_bytes);
    const std::int64_t parts = parts_for(2 * total, total);
    ThreadPool::instance().parallel(parts, [&](std::int64_t part) {
        const std::int64_t begin = total * part / parts / 64 * 64;
        const std::int64_t end = part + 1 == parts ? total : total * (part + 1) / parts / 64 * 64;
        if (begin < end) std::memcpy(destination + begin, source + begin, static_cast<std::size_t>(end - begin));
    });
}

}  // namespace tandem::host
