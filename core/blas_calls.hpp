#pragma once
// What a backend is asked for in linear algebra. core/ has checked it and brought it to column-major order, as BLAS has it.

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tandem/blas.hpp"
#include "tandem/dtype.hpp"

namespace tandem::driver {

class Memory;

/// A vector of BLAS: its first element lies at the offset, a multiple of the element's size.
struct BlasOperand {
    Memory* memory = nullptr;
    std::size_t offset_bytes = 0;
    std::int64_t increment = 1;  ///< elements; positive
};

/// A column-major matrix, or of a batch the first.
struct BlasMatrix {
    Memory* memory = nullptr;
    std::size_t offset_bytes = 0;
    std::int64_t leading_dimension = 1;  ///< elements
    std::int64_t batch_stride = 0;       ///< elements from one matrix of a batch to the next; not negative
    blas::Operation operation = blas::Operation::none;
};

enum class BlasVectorOp : std::uint8_t { axpy, scal, dot, dotc, nrm2, asum, iamax };

/// BLAS 1. `y` is axpy's and dot's second vector. dot, dotc, nrm2, asum and iamax give one number, of the dtype that blas.hpp
/// says, at `result`; iamax counts from 0.
struct BlasVector {
    BlasVectorOp op = BlasVectorOp::axpy;
    DType dtype = DType::float32;
    std::int64_t count = 0;
    std::complex<double> alpha;
    BlasOperand x, y, result;
};

/// y = alpha op(a) x + beta y, with `a` of `rows` by `columns` as it is stored.
struct BlasGemv {
    DType dtype = DType::float32;
    std::int64_t rows = 0, columns = 0;
    std::complex<double> alpha, beta;
    BlasMatrix a;
    BlasOperand x, y;
};

/// c = alpha op(a) op(b) + beta c, with c of m by n and k products for each. `c` has no operation.
struct BlasGemm {
    /// Where the matrices of one product start; their layouts are those of a, b and c.
    struct Places {
        BlasOperand a, b, c;
    };

    DType dtype = DType::float32;
    std::int64_t m = 0, n = 0, k = 0;
    std::complex<double> alpha, beta;
    BlasMatrix a, b, c;
    std::int64_t batch_count = 1;
    std::vector<Places> places;  ///< not empty: the batch, in place of what the strides say
    Memory* scratch = nullptr;   ///< `Device::blas_scratch_bytes`, for this call alone; null for 0
};

}  // namespace tandem::driver
