#pragma once
// Arrays as BLAS sees them: increments, leading dimensions, column-major order; and what it can't see is refused here.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/blas_calls.hpp"
#include "tandem/array.hpp"
#include "tandem/queue.hpp"

namespace tandem {

/// One array of a call, and what messages call it.
struct BlasArgument {
    const Array* array;
    std::string_view name;
    bool is_output = false;
};

/// "x, float32 (3,) with strides (-4)": how messages name an argument whose layout is wrong.
std::string describe_layout(const BlasArgument& argument);

/// Throws where the arguments are on other devices than the queue, of different dtypes, or of one that `operation` has not.
void check_blas_types(std::string_view operation, const Queue& queue, std::span<const BlasArgument> arguments,
                      bool takes_float16);

/// Throws where the device may not work on an argument as the call would, where elements lie at odd addresses or an array in
/// several allocations, and where an output shares bytes with any other argument.
void check_blas_memory(std::string_view operation, std::span<const BlasArgument> arguments);

/// A vector; `is_reversed` where its stride is negative, and then the operand starts at its last element.
struct VectorLayout {
    driver::BlasOperand operand;
    bool is_reversed = false;
};

/// Throws invalid_argument where it is none: more or fewer dimensions than one, or a stride that is no increment.
VectorLayout vector_layout(std::string_view operation, const BlasArgument& argument);
/// The same for calls that can't take negative strides.
driver::BlasOperand forward_vector(std::string_view operation, const BlasArgument& argument);

/// A column-major call without scalars. A row-major c is the transpose of a column-major one, which is the product of the
/// transposed factors the other way round: `is_swapped`.
struct GemmLayout {
    driver::BlasGemm call;
    bool is_swapped = false;
};

/// For a, b and c of two dimensions each. Throws invalid_argument where shapes don't fit or a matrix is none for BLAS.
GemmLayout gemm_layout(std::string_view operation, const BlasArgument& a, const BlasArgument& b, const BlasArgument& c,
                       blas::Operation op_a, blas::Operation op_b);

/// As it is stored, in column-major order, and what then is to be taken of it for `operation` of the matrix; nothing where that
/// would be a conjugate without a transpose.
struct StoredMatrix {
    driver::BlasMatrix matrix;
    std::int64_t rows, columns;
    bool is_possible;
};
StoredMatrix stored_matrix(std::string_view operation, const BlasArgument& argument, blas::Operation taken);

/// The rows and columns of what `operation` makes of a matrix.
std::pair<std::int64_t, std::int64_t> shape_after(const Array& matrix, blas::Operation operation);

/// What is taken of matrices of that dtype: of real ones there is no conjugate.
blas::Operation operation_for(DType dtype, blas::Operation operation) noexcept;

/// Throws invalid_argument for a scalar with an imaginary part beside real arrays.
void check_scalar(std::string_view operation, std::string_view name, blas::Scalar scalar, DType dtype);

}  // namespace tandem
