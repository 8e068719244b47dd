#include "backends/cuda/kernel.hpp"

#include <fmt/format.h>

#include <bit>
#include <string>
#include <string_view>

#include "kernels/cuda_launch.hpp"
#include "kernels/embedded.hpp"

namespace tandem::cuda {

namespace {

constexpr std::string_view variant_names[variant_count] = {"w16", "w8", "w4", "w2", "w1", "strided", "strided_bytes"};

constexpr std::string_view reduce_variant_names[reduce_variant_count] = {"packs", "strided", "strided_bytes", "partials"};

constexpr Variant variant_of(unsigned width) noexcept {
    return static_cast<Variant>(4 - std::countr_zero(width));
}
static_assert(variant_of(16) == Variant::w16 && variant_of(1) == Variant::w1);

/// As TANDEM_CUDA_KERNELS in kernels/elementwise.cuh and TANDEM_CUDA_REDUCTION in kernels/reduce.cu compose it.
std::string kernel_name(std::string_view op, DType dtype, std::string_view variant) {
    static constexpr std::string_view dtype_names[] = {
#define TANDEM_X(name, type, code) #name,
        TANDEM_FOR_EACH_DTYPE(TANDEM_X)
#undef TANDEM_X
    };
    return fmt::format("{}_{}_{}", op, dtype_names[static_cast<std::size_t>(dtype)], variant);
}
std::string kernel_name(Op op, DType dtype, Variant variant) {
    return kernel_name(to_string(op), dtype, variant_names[static_cast<std::size_t>(variant)]);
}
std::string kernel_name(ReduceOp op, DType dtype, ReduceVariant variant) {
    return kernel_name(to_string(op), dtype, reduce_variant_names[static_cast<std::size_t>(variant)]);
}

/// True where every address and stride is a multiple of the element's size.
bool is_aligned(const StridedLayout& layout, const std::uint64_t* addresses, int operands, std::size_t item_bytes) noexcept {
    std::uint64_t bits = 0;
    for (int i = 0; i < operands; ++i) {
        bits |= addresses[i];
        for (std::int64_t k = 0; k < layout.dimensions; ++k)
            bits |= static_cast<std::uint64_t>(layout.strides_bytes[i][k]);
    }
    return bits % item_bytes == 0;
}

/// Fills in `layout`; returns the number of rows, that is of the innermost dimension's repetitions.
std::int64_t lay_out(const driver::Walk& call, StridedLayout& layout) noexcept {
    const auto dimensions = static_cast<std::size_t>(call.dimensions);
    std::int64_t rows = 1;
    layout.dimensions = call.dimensions;
    for (std::size_t k = 0; k < dimensions; ++k) {
        layout.shape[k] = call.shape[k];
        for (std::size_t i = 0; i < static_cast<std::size_t>(call.operand_count); ++i)
            layout.strides_bytes[i][k] = call.operands[i].strides_bytes[k];
        if (k + 1 < dimensions) rows *= call.shape[k];
    }
    return rows;
}

}  // namespace

Kernels::~Kernels() {
    const Current current(context_, std::nothrow);
    if (!current.is_ready()) return;
    for (const CUmodule module : modules_) {
        if (module != nullptr) context_.api().cuModuleUnload(module);
    }
    if (reduce_module_ != nullptr) context_.api().cuModuleUnload(reduce_module_);
}

CUfunction Kernels::get(Op op, DType dtype, Variant variant) {
    Function& entry = functions_[index(op, dtype, variant, variant_count)];
    const CUfunction function = entry.load(std::memory_order_acquire);
    if (function != nullptr) return function;
    return find(entry, modules_[static_cast<std::size_t>(op)], embedded::cuda_fatbin(op).data(), kernel_name(op, dtype, variant));
}

CUfunction Kernels::get(ReduceOp op, DType dtype, ReduceVariant variant) {
    Function& entry = reduce_functions_[index(op, dtype, variant, reduce_variant_count)];
    const CUfunction function = entry.load(std::memory_order_acquire);
    if (function != nullptr) return function;
    return find(entry, reduce_module_, embedded::cuda_reduce_fatbin().data(), kernel_name(op, dtype, variant));
}

CUfunction Kernels::find(Function& entry, CUmodule& module, const void* image, const std::string& name) {
    const std::scoped_lock lock(mutex_);
    if (module == nullptr) {
        const CUresult result = context_.api().cuModuleLoadData(&module, image);
        if (result != CUDA_SUCCESS) context_.fail(result, fmt::format("cuModuleLoadData of the kernels with {}", name));
    }
    CUfunction function = nullptr;
    const CUresult result = context_.api().cuModuleGetFunction(&function, module, name.c_str());
    if (result != CUDA_SUCCESS) context_.fail(result, fmt::format("cuModuleGetFunction of {}", name));
    entry.store(function, std::memory_order_release);
    return function;
}

void Kernels::launch(CUstream stream, const driver::Elementwise& call) {
    const int operands = call.operand_count;
    std::uint64_t addresses[max_operands];
    for (int i = 0; i < operands; ++i) {
        const driver::Operand& operand = call.operands[static_cast<std::size_t>(i)];
        addresses[i] = operand.memory->address() + operand.offset_bytes;
    }
    if (operands < max_operands) addresses[2] = addresses[1];  // kernels take three, and leave unread what they don't need

    const std::size_t item_bytes = size_bytes(call.dtype);
    PackPlan plan;
    StridedLayout layout;
    std::int64_t rows = 1;
    void* parameters[5] = {&addresses[0], &addresses[1], &addresses[2], &plan, nullptr};
    Launch launch;
    Variant variant;
    if (call.contiguous) {
        plan = plan_packs(addresses, operands, item_bytes, call.shape[0]);
        launch = contiguous_launch(plan, static_cast<unsigned>(item_bytes));
        variant = variant_of(plan.width);
    } else {
        rows = lay_out(call, layout);
        parameters[3] = &layout;
        parameters[4] = &rows;
        launch = strided_launch(rows, call.shape[static_cast<std::size_t>(call.dimensions) - 1]);
        variant = is_aligned(layout, addresses, operands, item_bytes) ? Variant::strided : Variant::strided_bytes;
    }

    const CUfunction function = get(call.op, call.dtype, variant);
    const CUresult result = context_.api().cuLaunchKernel(function, launch.grid_x, launch.grid_y, 1, launch.block_x,
                                                          launch.block_y, 1, 0, stream, parameters, nullptr);
    if (result != CUDA_SUCCESS) {
        context_.fail(result, fmt::format("cuLaunchKernel of {}, {} by {} blocks", kernel_name(call.op, call.dtype, variant),
                                          launch.grid_x, launch.grid_y));
    }
}

void Kernels::launch(CUstream stream, const driver::Reduce& call) {
    const driver::Operand& operand = call.operands[0];
    std::uint64_t state = call.state->address();
    std::uint64_t address = operand.memory->address() + operand.offset_bytes;
    unsigned is_first = call.is_first ? 1 : 0;
    const std::int64_t max_blocks = std::min(call.max_partials, compute_units_ * reduce_blocks_per_unit);

    PackPlan plan;
    StridedLayout layout;
    std::int64_t rows = 1;
    Launch launch;
    ReduceVariant variant = ReduceVariant::packs;
    if (call.contiguous) plan = plan_packs(&address, 1, size_bytes(call.dtype), call.shape[0]);
    if (call.contiguous && plan.width == pack_bytes) {
        void* parameters[] = {&state, &address, &plan, &is_first};
        launch = reduce_contiguous_launch(plan, max_blocks);
        enqueue(stream, get(call.op, call.dtype, variant), launch, parameters, call);
    } else {
        rows = lay_out(call, layout);
        void* parameters[] = {&state, &address, &layout, &rows, &is_first};
        launch = reduce_strided_launch(rows, call.shape[static_cast<std::size_t>(call.dimensions) - 1], max_blocks);
        const bool aligned = is_aligned(layout, &address, 1, component_bytes(call.dtype));
        variant = aligned ? ReduceVariant::strided : ReduceVariant::strided_bytes;
        enqueue(stream, get(call.op, call.dtype, variant), launch, parameters, call);
    }
    unsigned partials = launch.grid_x * launch.grid_y;
    if (partials == 1) return;
    void* parameters[] = {&state, &partials, &is_first};
    enqueue(stream, get(call.op, call.dtype, ReduceVariant::partials), {1, 1, reduce_block_threads, 1}, parameters, call);
}

void Kernels::enqueue(CUstream stream, CUfunction function, const Launch& launch, void** parameters,
                      const driver::Reduce& call) const {
    const CUresult result = context_.api().cuLaunchKernel(function, launch.grid_x, launch.grid_y, 1, launch.block_x,
                                                          launch.block_y, 1, 0, stream, parameters, nullptr);
    if (result == CUDA_SUCCESS) return;
    context_.fail(result, fmt::format("cuLaunchKernel of {} {}, {} by {} blocks", to_string(call.op), to_string(call.dtype),
                                      launch.grid_x, launch.grid_y));
}

}  // namespace tandem::cuda
