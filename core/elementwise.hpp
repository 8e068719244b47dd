#pragma once
// From arrays to elementwise kernel calls: every check, and every decision on how a call is cut.

#include <initializer_list>

#include "core/overlap.hpp"
#include "kernels/ops.hpp"
#include "tandem/array.hpp"
#include "tandem/queue.hpp"

namespace tandem {

/// Queues `op` over `inputs` into `out`. Throws as ops.hpp says.
void run_elementwise(Queue& queue, Op op, std::initializer_list<const Array*> inputs, const Array& out);

/// Throws invalid_argument where `array` is on another device than the queue.
void check_same_device(std::string_view operation, const Queue& queue, const Array& array);

/// Throws invalid_argument where a device may not work on `array` like that: its memory is read-only, or the host has a view of
/// it open. `operation` and `name` say which operand of what it is. Also for arrays without elements.
void check_access(std::string_view operation, std::string_view name, const Array& array, Access access);

/// "float32 (3, 4)": how messages name an operand.
std::string describe(const Array& array);

/// Throws unsupported where the array's device can't compute with its dtype.
void check_dtype_supported(const DeviceInfo& device, std::string_view operation, DType dtype);

}  // namespace tandem
