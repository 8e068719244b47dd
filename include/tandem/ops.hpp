#pragma once
// Elementwise operations.

#include <tandem/array.hpp>
#include <tandem/expression.hpp>
#include <tandem/queue.hpp>

namespace tandem {

// Each call queues its work and returns. All arrays are on the queue's device and have one dtype and one shape, in any order
// and with any strides. The output may be one of the inputs, element for element, or lie between an input's elements; memory
// that overlaps in any other way is refused, as is an output in which one byte belongs to two elements (and a layout too tangled
// for a short search to tell). Zero elements do nothing. Throws invalid_argument naming what differs; unsupported for float64
// and complex128 on a device without them.

/// out = left + right. Integers wrap; bool is a logical or; float16 and bfloat16 are computed in float and rounded to nearest
/// even. Native calls: cuLaunchKernel; clEnqueueNDRangeKernel.
void add(Queue& queue, const Array& left, const Array& right, const Array& out);

/// out = in + in, by the same rules. (`double` is a keyword.)
void twice(Queue& queue, const Array& in, const Array& out);
/// In place.
void twice(Queue& queue, const Array& in_out);

/// out = in with the bytes of each element in reverse order; each component of a complex number by itself. What makes big-endian
/// data native.
void byteswap(Queue& queue, const Array& in, const Array& out);

// The calls below are expressions of one line each: dtypes may differ and are promoted as NumPy's are, the result is cast to the
// output's dtype as "same kind", and inputs broadcast to the output's shape; see expression.hpp, whose errors theirs are too.
// Numbers given as C++ values are weak.

/// out = left - right.
void subtract(Queue& queue, const Array& left, const Array& right, const Array& out);
/// out = left * right.
void multiply(Queue& queue, const Array& left, const Array& right, const Array& out);
/// out = left / right: the true quotient, of integers too.
void divide(Queue& queue, const Array& left, const Array& right, const Array& out);
/// out = factor * in.
void scale(Queue& queue, Scalar factor, const Array& in, const Array& out);
/// y = a * x + y.
void axpy(Queue& queue, Scalar a, const Array& x, const Array& y);
/// Every element of `out` becomes `value`.
void fill(Queue& queue, const Array& out, Scalar value);
/// out = in, converted to the output's dtype, whatever it is: floating point to integers without the fraction, complex to real
/// without the imaginary part.
void cast(Queue& queue, const Array& in, const Array& out);
/// out = |in|: real for complex numbers. The lowest signed integer stays itself.
void abs(Queue& queue, const Array& in, const Array& out);
void sqrt(Queue& queue, const Array& in, const Array& out);
void exp(Queue& queue, const Array& in, const Array& out);
/// The natural logarithm.
void log(Queue& queue, const Array& in, const Array& out);
/// out = the smaller of the two; NaN where either is. (`min` is the reduction.)
void minimum(Queue& queue, const Array& left, const Array& right, const Array& out);
/// out = the larger of the two; NaN where either is.
void maximum(Queue& queue, const Array& left, const Array& right, const Array& out);
/// out = left where `condition` is not zero, right elsewhere.
void where(Queue& queue, const Array& condition, const Array& left, const Array& right, const Array& out);

}  // namespace tandem
