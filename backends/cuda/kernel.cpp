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

constexpr Variant variant_of(unsigned width) noexcept {
    return static_cast<Variant>(4 - std::countr_zero(width));
}
static_assert(variant_of(16) == Variant::w16 && variant_of(1) == Variant::w1);

/// As TANDEM_CUDA_KERNELS in kernels/elementwise.cuh composes it.
std::string kernel_name(Op op, DType dtype, Variant variant) {
    static constexpr std::string_view dtype_names[] = {
#define TANDEM_X(name, type, code) #name,
        TANDEM_FOR_EACH_DTYPE(TANDEM_X)
#undef TANDEM_X
    };
    return fmt::format("{}_{}_{}", to_string(op), dtype_names[static_cast<std::size_t>(dtype)],
                       variant_names[static_cast<std::size_t>(variant)]);
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

}  // namespace

Kernels::~Kernels() {
    const Current current(context_, std::nothrow);
    if (!current.is_ready()) return;
    for (const CUmodule module : modules_) {
        if (module != nullptr) context_.api().cuModuleUnload(module);
    }
}

CUfunction Kernels::find(std::atomic<CUfunction>& entry, Op op, DType dtype, Variant variant) {
    const std::scoped_lock lock(mutex_);
    CUmodule& module = modules_[static_cast<std::size_t>(op)];
    if (module == nullptr) {
        const CUresult result = context_.api().cuModuleLoadData(&module, embedded::cuda_fatbin(op).data());
        if (result != CUDA_SUCCESS) context_.fail(result, fmt::format("cuModuleLoadData of the {} kernels", to_string(op)));
    }
    const std::string name = kernel_name(op, dtype, variant);
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
        layout.dimensions = call.dimensions;
        for (std::size_t k = 0; k < static_cast<std::size_t>(call.dimensions); ++k) {
            layout.shape[k] = call.shape[k];
            for (std::size_t i = 0; i < static_cast<std::size_t>(operands); ++i) {
                layout.strides_bytes[i][k] = call.operands[i].strides_bytes[k];
            }
            if (k + 1 < static_cast<std::size_t>(call.dimensions)) rows *= call.shape[k];
        }
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

}  // namespace tandem::cuda
