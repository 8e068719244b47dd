#pragma once
// The host kernels as backends/host sees them.

#include <cstddef>
#include <cstdint>

#include "kernels/elementwise.hpp"
#include "kernels/reduce.hpp"

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

/// The partial result of some elements; only the kernels know what is in it.
struct alignas(16) HostPartial {
    std::byte bytes[partial_bytes];
};

/// Rows of a strided operand: `rows` from `first_row` on, counted in C order over all dimensions but the last, and in each of
/// them `count` elements from `first` on.
struct HostRows {
    std::int64_t first_row, rows;
    std::int64_t first, count;
};

/// The entry points of one reduction for one dtype. Elements are at any alignment.
struct HostReducer {
    HostPartial (*contiguous)(const std::byte* in, std::int64_t count);
    HostPartial (*strided)(const std::byte* in, const StridedLayout& layout, const HostRows& part);
    /// Adds `other` to `partial`.
    void (*merge)(HostPartial& partial, const HostPartial& other);
    /// Writes the element that `partial` stands for.
    void (*finish)(const HostPartial& partial, std::byte* out);
};

/// Reductions by operation and dtype; null where `kernel_dtype` names another.
struct HostReducers {
    HostReducer by_op[reduce_op_count][dtype_count];
};

}  // namespace tandem
