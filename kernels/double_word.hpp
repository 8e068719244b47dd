#pragma once
// Sums in twice the precision: what the host's and CUDA's reductions compute with. kernels/reduce.cl has the same in OpenCL C.
//
// F is a floating point type, or a compiler's vector of one. Rounding is to nearest and nothing is contracted. Two things keep
// infinities and NaN what they are in plain sums: an error that is not finite marks a sum that overflowed or was not finite, and
// is left out.

#if defined(__CUDACC__)
#define TANDEM_INLINE __device__ inline
#else
#define TANDEM_INLINE [[gnu::always_inline]] inline
#endif

namespace tandem {
namespace {

/// hi + lo, where hi is the sum rounded; lo is 0 where hi is not finite.
template <class F>
struct DoubleWord {
    F hi, lo;
};

/// Exact: Knuth's TwoSum.
template <class F>
TANDEM_INLINE DoubleWord<F> two_sum(F a, F b) {
    const F sum = a + b;
    const F from_b = sum - a;
    return {sum, (a - (sum - from_b)) + (b - from_b)};
}

/// Exact where |a| >= |b|: Dekker's Fast2Sum.
template <class F>
TANDEM_INLINE DoubleWord<F> fast_two_sum(F a, F b) {
    const F sum = a + b;
    return {sum, b - (sum - a)};
}

template <class F>
TANDEM_INLINE F where_finite(F tested, F then, F otherwise) {
    return tested - tested == F{} ? then : otherwise;
}

/// A plain sum beside the sum of its rounding errors: Sum2 of Ogita, Rump and Oishi.
template <class F>
struct RunningSum {
    F sum, error;

    TANDEM_INLINE void add(F value) {
        const DoubleWord<F> exact = two_sum(sum, value);
        sum = exact.hi;
        error = error + exact.lo;
    }
    TANDEM_INLINE DoubleWord<F> close() const {
        const DoubleWord<F> exact = two_sum(sum, error);
        return {where_finite(error, exact.hi, sum), where_finite(exact.lo, exact.lo, F{})};
    }
};

/// AccurateDWPlusDW of Joldes, Muller and Popescu: the relative error is at most 3 u^2 / (1 - 4 u).
template <class F>
TANDEM_INLINE DoubleWord<F> operator+(DoubleWord<F> a, DoubleWord<F> b) {
    const DoubleWord<F> high = two_sum(a.hi, b.hi);
    const DoubleWord<F> low = two_sum(a.lo, b.lo);
    const DoubleWord<F> sum = fast_two_sum(high.hi, high.lo + low.hi);
    const DoubleWord<F> result = fast_two_sum(sum.hi, low.lo + sum.lo);
    return {where_finite(high.hi, where_finite(sum.hi, result.hi, sum.hi), high.hi), where_finite(result.lo, result.lo, F{})};
}

/// hi + lo rounded to odd, which loses nothing when it is rounded again to a type of at least two digits less.
TANDEM_INLINE float round_to_odd(DoubleWord<float> value) {
    auto bits = __builtin_bit_cast(unsigned, value.hi);
    if (value.lo != 0 && (bits & 1U) == 0) bits += (value.lo < 0) == (value.hi < 0) ? 1U : ~0U;
    return __builtin_bit_cast(float, bits);
}

}  // namespace
}  // namespace tandem
