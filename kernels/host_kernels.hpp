#pragma once
// The host kernels as backends/host sees them.

#include <cstddef>
#include <cstdint>

#include "kernels/elementwise.hpp"

namespace tandem {

/// The two entry points of one operation for one dtype. Addresses are of first elements, at any alignment; `in` has as many as
/// the operation has inputs; `strides_bytes` is the output's followed by the inputs'.
struct HostKernel {
    void (*contiguous)(std::byte* out, const std::byte* const* in, std::int64_t count, bool streaming);
    void (*strided)(std::byte* out, const std::byte* const* in, const std::int64_t* strides_bytes, std::int64_t count);
};

/// One operation's kernels by dtype; null where `kernel_dtype` names another.
struct HostKernels {
    HostKernel by_dtype[dtype_count];
};

}  // namespace tandem
