#pragma once
// The kernels' device code, embedded in the library by kernels/CMakeLists.txt.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "kernels/ops.hpp"

namespace tandem::embedded {

/// OpenCL C source of `op`: kernels/elementwise.cl followed by kernels/NAME.cl.
std::string opencl_source(Op op);

/// CUDA fat binary of `op`, compiled from kernels/NAME.cu. Defined only where the build has the CUDA backend.
std::span<const std::byte> cuda_fatbin(Op op);

/// OpenCL C source of the reductions: kernels/elementwise.cl followed by kernels/reduce.cl.
std::string opencl_reduce_source();

/// OpenCL C source of kernels/iamax.cl.
std::string opencl_iamax_source();

/// CUDA fat binary of kernels/reduce.cu, as `cuda_fatbin`.
std::span<const std::byte> cuda_reduce_fatbin();

}  // namespace tandem::embedded
