#pragma once
// The kernels of kernels/ on a CUDA device.

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>

#include "backends/cuda/api.hpp"
#include "core/driver.hpp"
#include "kernels/cuda_launch.hpp"

namespace tandem::cuda {

/// The kernels of one (operation, dtype) pair.
enum class Variant : unsigned char { w16, w8, w4, w2, w1, strided, strided_bytes };
inline constexpr std::size_t variant_count = 7;
/// The kernels of one reduction of one dtype.
enum class ReduceVariant : unsigned char { packs, strided, strided_bytes, partials };
inline constexpr std::size_t reduce_variant_count = 4;

/// Kernel handles, found on first use: a module is loaded with the first call of its operation. Thread safe; without a lock once
/// found. Native calls: cuModuleLoadData, cuModuleGetFunction, cuLaunchKernel.
class Kernels {
public:
    Kernels(const Context& context, const DeviceInfo& info) : context_(context), compute_units_(info.compute_units) {}
    ~Kernels();
    Kernels(const Kernels&) = delete;
    Kernels& operator=(const Kernels&) = delete;

    /// Launches `call` on `stream`; the context is current.
    void launch(CUstream stream, const driver::Elementwise& call);
    /// The same for a reduction: one kernel, or two.
    void launch(CUstream stream, const driver::Reduce& call);

private:
    using Function = std::atomic<CUfunction>;

    CUfunction get(Op op, DType dtype, Variant variant);
    CUfunction get(ReduceOp op, DType dtype, ReduceVariant variant);
    CUfunction find(Function& entry, CUmodule& module, const void* image, const std::string& name);
    void enqueue(CUstream stream, CUfunction function, const Launch& launch, void** parameters, const driver::Reduce& call) const;

    template <class AnyOp, class AnyVariant>
    static constexpr std::size_t index(AnyOp op, DType dtype, AnyVariant variant, std::size_t variants) noexcept {
        return (static_cast<std::size_t>(op) * dtype_count + static_cast<std::size_t>(dtype)) * variants +
               static_cast<std::size_t>(variant);
    }

    const Context& context_;
    const unsigned compute_units_;
    std::array<Function, std::size_t{op_count} * dtype_count * variant_count> functions_{};
    std::array<Function, std::size_t{reduce_op_count} * dtype_count * reduce_variant_count> reduce_functions_{};
    std::mutex mutex_;  ///< guards modules_
    std::array<CUmodule, op_count> modules_{};
    CUmodule reduce_module_{};
};

}  // namespace tandem::cuda
