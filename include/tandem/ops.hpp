#pragma once
// Elementwise operations.

#include <tandem/array.hpp>
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

}  // namespace tandem
