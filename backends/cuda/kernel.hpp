#pragma once
// The kernels of kernels/ on a CUDA device.

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

#include "backends/cuda/api.hpp"
#include "core/driver.hpp"

namespace tandem::cuda {

/// The kernels of one (operation, dtype) pair.
enum class Variant : unsigned char { w16, w8, w4, w2, w1, strided, strided_bytes };
inline constexpr std::size_t variant_count = 7;

/// Kernel handles, found on first use: a module is loaded with the first call of its operation. Thread safe; without a lock once
/// found. Native calls: cuModuleLoadData, cuModuleGetFunction, cuLaunchKernel.
class Kernels {
public:
    explicit Kernels(const Context& context) : context_(context) {}
    ~Kernels();
    Kernels(const Kernels&) = delete;
    Kernels& operator=(const Kernels&) = delete;

    /// Launches `call` on `stream`; the context is current.
    void launch(CUstream stream, const driver::Elementwise& call);

private:
    CUfunction get(Op op, DType dtype, Variant variant) {
        std::atomic<CUfunction>& entry = functions_[index(op, dtype, variant)];
        const CUfunction function = entry.load(std::memory_order_acquire);
        return function != nullptr ? function : find(entry, op, dtype, variant);
    }
    CUfunction find(std::atomic<CUfunction>& entry, Op op, DType dtype, Variant variant);

    static constexpr std::size_t index(Op op, DType dtype, Variant variant) noexcept {
        return (static_cast<std::size_t>(op) * dtype_count + static_cast<std::size_t>(dtype)) * variant_count +
               static_cast<std::size_t>(variant);
    }

    const Context& context_;
    std::array<std::atomic<CUfunction>, std::size_t{op_count} * dtype_count * variant_count> functions_{};
    std::mutex mutex_;  ///< guards modules_
    std::array<CUmodule, op_count> modules_{};
};

}  // namespace tandem::cuda
