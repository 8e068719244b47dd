#pragma once
// Linear algebra through the vendors' BLAS: cuBLAS on CUDA, CLBlast on OpenCL, the system's own on the host.

#include <complex>
#include <cstdint>
#include <span>
#include <string>

#include <tandem/array.hpp>
#include <tandem/queue.hpp>

namespace tandem::blas {

// Each call queues its work and returns; only the first call on a device may take long, since it opens the library, and CLBlast
// compiles its kernels on the first call of each routine and type (in memory alone: it can't fill its cache from disk).
//
// dtypes: float32, float64, complex64, complex128, the same for all arrays of a call; float16 for the gemm family too.
//
// Vectors have one dimension. Their stride is BLAS's increment and may be any multiple of the element but 0. Negative ones are
// for scal, nrm2 and asum, which see the same elements in any order, and for axpy and dot where they are negative in both
// vectors; elsewhere they are refused, since not every library takes them.
//
// Matrices have two dimensions and their own order: C, Fortran, a slice of either or a transposed view, all without a copy. One
// stride must be the element's size; the other is BLAS's leading dimension, so a multiple of it, and at least a whole row's (or
// column's) length. Matrices of one call may differ in order.
//
// All memory kinds and byte offsets, but elements must lie at multiples of their size, and an array in one allocation of the
// device: arrays that are larger are for `stream`. Outputs may not overlap inputs. Zero-sized results do nothing; where there is
// nothing to multiply (k == 0, or alpha == 0) the result is beta times the output, whatever the inputs hold. An output whose
// beta is 0 is not read: NaN in it does not count.
//
// Throws invalid_argument naming the array, its shape and its strides for anything of the above that does not hold, also for a
// scalar with an imaginary part beside real arrays, for arrays of different devices, and for memory that is read-only or mapped;
// unavailable with the library's name where it is not on this machine; unsupported for other dtypes, for arrays in several
// allocations, for double precision (and on OpenCL, half precision) on devices without it, and on OpenCL for elements beyond the
// 2^31st of an allocation, which CLBlast can't count to. What a library refuses carries its own name for it.
//
// Rounding is the library's own. float16 is multiplied and summed in float on CUDA and the host, in half precision by CLBlast.

/// A factor; real ones convert to it. Rounded to the arrays' dtype (float16: to float).
class Scalar {
public:
    Scalar(double value) : value_(value) {}
    Scalar(std::complex<double> value) : value_(value) {}
    Scalar(std::complex<float> value) : value_(value) {}

    [[nodiscard]] std::complex<double> value() const noexcept { return value_; }

private:
    std::complex<double> value_;
};

/// What is taken of a matrix. `transpose` is the same as passing `transpose()` of it. For real matrices the last two are the
/// same.
enum class Operation : std::uint8_t { none, transpose, conjugate_transpose };

/// y = alpha x + y. Native calls: cublas?axpy; CLBlast?axpy; cblas_?axpy.
void axpy(Queue& queue, Scalar alpha, const Array& x, const Array& y);

/// x = alpha x; alpha == 0 sets zeros. Native calls: cublas?scal; CLBlast?scal; cblas_?scal.
void scal(Queue& queue, Scalar alpha, const Array& x);

// What gives one number gives it as a new array without dimensions, in device memory, which `item` reads; with `out`, it goes
// into that array of one element instead. Of no elements: 0, and for iamax invalid_argument.

/// Sum of x[i] y[i]; of the vectors' dtype. Native calls: cublas?dot(u); CLBlast?dot(u); cblas_?dot(u).
[[nodiscard]] Array dot(Queue& queue, const Array& x, const Array& y);
void dot(Queue& queue, const Array& x, const Array& y, const Array& out);
/// Sum of conj(x[i]) y[i]. Native calls: cublas?dotc; CLBlast?dotc; cblas_?dotc.
[[nodiscard]] Array dotc(Queue& queue, const Array& x, const Array& y);
void dotc(Queue& queue, const Array& x, const Array& y, const Array& out);

/// Square root of the sum of |x[i]|^2; float32 for complex64, float64 for complex128. CLBlast squares without scaling, so values
/// beyond the square root of what the type holds overflow there. Native calls: cublas?nrm2; CLBlast?nrm2; cblas_?nrm2.
[[nodiscard]] Array nrm2(Queue& queue, const Array& x);
void nrm2(Queue& queue, const Array& x, const Array& out);

/// Sum of |x[i]|, of complex ones |real| + |imaginary|; dtype as nrm2's. Native calls: cublas?asum; CLBlast?asum; cblas_?asum.
[[nodiscard]] Array asum(Queue& queue, const Array& x);
void asum(Queue& queue, const Array& x, const Array& out);

/// Index of the first of the largest by asum's measure, counted from 0; int64. With a NaN among them, any index. On OpenCL a
/// kernel of the library's own: CLBlast's counts offset and increment in (1.5.3), and gives any of those that are equal. Native
/// calls: cublasI?amax; clEnqueueNDRangeKernel; cblas_i?amax.
[[nodiscard]] Array iamax(Queue& queue, const Array& x);
void iamax(Queue& queue, const Array& x, const Array& out);

/// y = alpha op(a) x + beta y. Native calls: cublas?gemv; CLBlast?gemv; cblas_?gemv.
void gemv(Queue& queue, Scalar alpha, const Array& a, const Array& x, Scalar beta, const Array& y,
          Operation op_a = Operation::none);

/// c = alpha op_a(a) op_b(b) + beta c. A conjugate transpose must lie in the order of c, where matrices are complex and larger
/// than a row or column: BLAS has no conjugate without a transpose. Native calls: cublasGemmEx; CLBlast?gemm; cblas_?gemm.
void gemm(Queue& queue, Scalar alpha, const Array& a, const Array& b, Scalar beta, const Array& c,
          Operation op_a = Operation::none, Operation op_b = Operation::none);
/// c = a b.
inline void gemm(Queue& queue, const Array& a, const Array& b, const Array& c) {
    gemm(queue, 1.0, a, b, 0.0, c);
}

/// gemm for each of as many a, b and c. All a have one shape and one layout, so have all b and all c. Native calls:
/// cublasGemmBatchedEx (whose table of addresses goes to the device with each call); CLBlast?gemm and cblas_?gemm for each, since
/// CLBlast's own batched call waits.
void gemm_batched(Queue& queue, Scalar alpha, std::span<const Array> a, std::span<const Array> b, Scalar beta,
                  std::span<const Array> c, Operation op_a = Operation::none, Operation op_b = Operation::none);

/// gemm for each matrix of arrays of three dimensions, the first of which counts them, by any stride that is not negative; a or b
/// may have two, and then is the same for all. Native calls: cublasGemmStridedBatchedEx; CLBlast?gemmStridedBatched; cblas_?gemm
/// for each.
void gemm_strided_batched(Queue& queue, Scalar alpha, const Array& a, const Array& b, Scalar beta, const Array& c,
                          Operation op_a = Operation::none, Operation op_b = Operation::none);

/// What does the work on `device`, in words: "cuBLAS 13.1 (libcublas.so.13)". Opens it. Throws unavailable where it is not on
/// this machine; on the host there is always something.
[[nodiscard]] std::string library(const Device& device);

}  // namespace tandem::blas
