#pragma once
// Reductions: one value from all elements.

#include <cstdint>

#include <tandem/array.hpp>
#include <tandem/queue.hpp>
#include <tandem/reduce_op.hpp>

namespace tandem {

/// A reduction that elements are given to piece by piece: files larger than memory, for one. What is kept between the pieces is
/// as precise as within one, so how elements are cut into pieces makes no difference to the bounds below.
///
/// Sums: integers wrap modulo 2^64, bool counts what is true. Floating point is summed in pairs of numbers, the sum and what
/// rounding has taken from it, as if in twice the type's precision (float's, for float16 and bfloat16), and rounded to the dtype
/// at the end: |result - exact| <= u |exact| + c sum(|x|), with u the dtype's unit roundoff and, for n elements in pieces of 1024
/// or more on average, c = 2^-31 + 2^-54 n (float64 and complex128: 2^-89 + 2^-112 n). Infinities and NaN come out as from adding
/// one by one; finite elements whose running sum overflows, in whatever order it runs, may give an infinity or a NaN. The
/// components of complex numbers are summed each by itself.
///
/// Smallest and largest: a NaN anywhere gives one; complex numbers are ordered by their real parts, then their imaginary ones,
/// and one with a NaN in either counts as NaN; of -0.0 and +0.0 either may come. All as NumPy has it.
///
/// The same elements in the same pieces and layout give the same bits on the same device.
/// Sources: Ogita, Rump, Oishi, "Accurate sum and dot product", 2005 (Sum2, Proposition 4.5); Joldes, Muller, Popescu, "Tight and
/// rigorous error bounds for basic building blocks of double-word arithmetic", 2017 (AccurateDWPlusDW); see kernels/reduce.hpp.
///
/// Holds some 64 KiB of its device's memory. Move-only. One thread at a time; where its calls use several queues, ordering these
/// is the caller's.
class Reduction {
public:
    /// Of no elements so far. Throws unsupported for float64 and complex128 on a device without them; out_of_memory.
    Reduction(const Device& device, ReduceOp op, DType dtype);

    Reduction(Reduction&&) noexcept = default;
    Reduction& operator=(Reduction&&) noexcept = default;
    Reduction(const Reduction&) = delete;
    Reduction& operator=(const Reduction&) = delete;
    ~Reduction() = default;

    /// Takes the elements of `chunk` in, which may have any shape and strides. Queues the work and returns. Throws
    /// invalid_argument where the chunk's dtype is another or one of the three is on another device. Where the device fails, the
    /// reduction's value is lost. Native calls: cuLaunchKernel; clEnqueueNDRangeKernel.
    void add(Queue& queue, const Array& chunk);

    /// What has been added so far, as a new array without dimensions in device memory, of `result_dtype(op, dtype)`; adding may
    /// go on. Queues the work and returns. Throws invalid_argument for the smallest or largest of no elements.
    [[nodiscard]] Array result(Queue& queue) const;

    /// How many elements were added.
    [[nodiscard]] std::int64_t count() const noexcept { return count_; }

private:
    void check_device(const Queue& queue) const;

    ReduceOp op_;
    DType dtype_;
    unsigned max_partials_;
    Buffer state_;
    std::int64_t count_ = 0;
};

/// The sum of all elements; 0 of none. As Reduction in one step: queues its work and returns.
[[nodiscard]] Array sum(Queue& queue, const Array& in);
/// The smallest element. Throws invalid_argument where there are none.
[[nodiscard]] Array min(Queue& queue, const Array& in);
/// The largest element. Throws invalid_argument where there are none.
[[nodiscard]] Array max(Queue& queue, const Array& in);

}  // namespace tandem
