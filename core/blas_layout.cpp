#include "core/blas_layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "core/driver.hpp"
#include "core/elementwise.hpp"
#include "core/overlap.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

using blas::Operation;

[[noreturn]] void refuse(std::string_view operation, const std::string& what, ErrorCode code = ErrorCode::invalid_argument) {
    throw Error(code, fmt::format("{}: {}", operation, what));
}

std::int64_t item_bytes(const Array& array) noexcept {
    return static_cast<std::int64_t>(size_bytes(array.dtype()));
}

bool is_complex(DType dtype) noexcept {
    return dtype == DType::complex64 || dtype == DType::complex128;
}

void check_dimensions(std::string_view operation, const BlasArgument& argument, std::size_t dimensions) {
    if (argument.array->dimensions() == dimensions) return;
    refuse(operation, fmt::format("{} is {}: {} of {} dimension{} is needed", argument.name, describe(*argument.array),
                                  dimensions == 1 ? "a vector" : "a matrix", dimensions, dimensions == 1 ? "" : "s"));
}

// The leading dimension where the neighbours along a matrix's `inner` dimension are neighbours in memory; nothing where they
// aren't, or where the other dimension's steps are too short.
std::optional<std::int64_t> leading_dimension(const Array& matrix, std::size_t inner) {
    const std::size_t outer = 1 - inner;
    const std::int64_t item = item_bytes(matrix);
    const std::int64_t inner_count = std::max<std::int64_t>(1, matrix.shape()[inner]);
    if (matrix.count() == 0) return inner_count;  // strides of nothing say nothing
    if (inner_count > 1 && matrix.strides_bytes()[inner] != item) return {};
    if (matrix.shape()[outer] <= 1) return inner_count;
    const std::int64_t stride = matrix.strides_bytes()[outer];
    if (stride % item != 0 || stride / item < inner_count) return {};
    return stride / item;
}

struct Taken {
    bool is_transposed, is_conjugate;
};

Taken taken_by(Operation operation) noexcept {
    return {operation != Operation::none, operation == Operation::conjugate_transpose};
}

// What BLAS has to do with a stored matrix; nothing for a conjugate alone.
std::optional<Operation> operation_of(Taken taken) noexcept {
    if (!taken.is_transposed) return taken.is_conjugate ? std::nullopt : std::optional(Operation::none);
    return taken.is_conjugate ? Operation::conjugate_transpose : Operation::transpose;
}

struct Orders {
    std::optional<std::int64_t> column_major, row_major;
};

Orders orders_of(std::string_view operation, const BlasArgument& argument) {
    check_dimensions(operation, argument, 2);
    const Orders orders{leading_dimension(*argument.array, 0), leading_dimension(*argument.array, 1)};
    if (!orders.column_major && !orders.row_major) {
        refuse(operation, fmt::format("{}: BLAS takes matrices in which one stride is the element's {} bytes and the other a "
                                      "multiple of it, as long as a whole row or column at least",
                                      describe_layout(argument), item_bytes(*argument.array)));
    }
    return orders;
}

// `argument` as a column-major matrix of which `taken` is to be had; `is_possible` is false where BLAS can't.
StoredMatrix store(const BlasArgument& argument, const Orders& orders, Taken taken) {
    const Array& array = *argument.array;
    StoredMatrix stored{{array.memory().get(), array.offset_bytes(), 1, 0, Operation::none}, 0, 0, false};
    for (const bool is_row_major : {false, true}) {
        const auto& leading = is_row_major ? orders.row_major : orders.column_major;
        const auto operation = operation_of({taken.is_transposed != is_row_major, taken.is_conjugate});
        if (!leading || !operation) continue;
        stored.matrix.leading_dimension = *leading;
        stored.matrix.operation = *operation;
        stored.rows = array.shape()[is_row_major ? 1 : 0];
        stored.columns = array.shape()[is_row_major ? 0 : 1];
        stored.is_possible = true;
        return stored;
    }
    return stored;
}

void check_place(std::string_view operation, const BlasArgument& argument) {
    const Array& array = *argument.array;
    driver::Memory& memory = *array.memory();
    const auto item = static_cast<std::uint64_t>(item_bytes(array));
    if (const std::uint64_t odd = (memory.address() + array.offset_bytes()) % item; odd != 0) {
        refuse(operation,
               fmt::format("{}, {} at offset {}, starts {} bytes behind a multiple of its elements' {}: BLAS takes whole "
                           "multiples; copy it first",
                           argument.name, describe(array), array.offset_bytes(), odd, item));
    }
    const ByteRange bytes = byte_range(array);
    const auto window = static_cast<std::int64_t>(memory.window_bytes());
    if (bytes.first / window == (bytes.end - 1) / window) return;
    refuse(
        operation,
        fmt::format("{}, {}, lies in several allocations of {}, which are of {} bytes at most: work on it in pieces, as `stream` "
                    "does",
                    argument.name, describe(array), array.device().spec(), window),
        ErrorCode::unsupported);
}

// Arrays of any shapes; those of outputs have no element twice.
bool share_bytes(const Array& left, const Array& right) {
    const auto start = [](const Array& array) { return array.memory()->address() + array.offset_bytes(); };
    return start(left) == start(right) || overlap(left, right) != Overlap::none;
}

void check_overlap(std::string_view operation, std::span<const BlasArgument> arguments) {
    struct Place {
        std::int64_t first, end;
        const BlasArgument* argument;
    };
    std::vector<Place> places;
    places.reserve(arguments.size());
    for (const BlasArgument& argument : arguments) {
        if (argument.array->count() == 0) continue;
        const auto address = static_cast<std::int64_t>(argument.array->memory()->address());
        const ByteRange bytes = byte_range(*argument.array);
        places.push_back({address + bytes.first, address + bytes.end, &argument});
    }
    std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.first < b.first; });
    std::vector<Place> open;  // those that a later one may still begin within
    for (const Place& place : places) {
        open.erase(std::remove_if(open.begin(), open.end(), [&](const Place& other) { return other.end <= place.first; }),
                   open.end());
        for (const Place& other : open) {
            const BlasArgument* output = place.argument;
            const BlasArgument* input = other.argument;
            if (!output->is_output) std::swap(output, input);
            if (!output->is_output || !share_bytes(*output->array, *input->array)) continue;
            refuse(operation, fmt::format("{}, an output, overlaps {} in memory", output->name, input->name));
        }
        open.push_back(place);
    }
}

}  // namespace

std::string describe_layout(const BlasArgument& argument) {
    return fmt::format("{}, {} with strides ({})", argument.name, describe(*argument.array),
                       fmt::join(argument.array->strides_bytes(), ", "));
}

void check_blas_types(std::string_view operation, const Queue& queue, std::span<const BlasArgument> arguments,
                      bool takes_float16) {
    (void)queue.state();  // throws where the queue was moved from, and so has no device
    const BlasArgument& first = arguments.front();
    const DType dtype = first.array->dtype();
    for (const BlasArgument& argument : arguments) {
        if (argument.array->device() != queue.device()) {
            refuse(operation, fmt::format("{} is on {}, the queue on {}", argument.name, argument.array->device().spec(),
                                          queue.device().spec()));
        }
        if (argument.array->dtype() != dtype) {
            refuse(operation, fmt::format("{} is {}, {} is {}: dtypes must be equal", first.name, describe(*first.array),
                                          argument.name, describe(*argument.array)));
        }
    }
    const bool is_known = dtype == DType::float32 || dtype == DType::float64 || is_complex(dtype);
    if (!is_known && !(takes_float16 && dtype == DType::float16)) {
        refuse(operation,
               fmt::format("{}: float32, float64, complex64 and complex128 are possible{}", to_string(dtype),
                           takes_float16 ? ", and float16" : ""),
               ErrorCode::unsupported);
    }
    check_dtype_supported(queue.device().info(), operation, dtype);
}

void check_blas_memory(std::string_view operation, std::span<const BlasArgument> arguments) {
    for (const BlasArgument& argument : arguments) {
        if (argument.array->count() == 0) continue;
        check_access(operation, argument.name, *argument.array, argument.is_output ? Access::write : Access::read);
        check_place(operation, argument);
        if (argument.is_output && !elements_are_apart(*argument.array))
            refuse(operation, fmt::format("{} has bytes that belong to two elements", describe_layout(argument)));
    }
    check_overlap(operation, arguments);
}

VectorLayout vector_layout(std::string_view operation, const BlasArgument& argument) {
    check_dimensions(operation, argument, 1);
    const Array& array = *argument.array;
    VectorLayout layout{{array.memory().get(), array.offset_bytes(), 1}, false};
    if (array.count() <= 1) return layout;
    const std::int64_t stride = array.strides_bytes()[0];
    if (stride == 0 || stride % item_bytes(array) != 0) {
        refuse(operation, fmt::format("{}: BLAS takes vectors whose stride is a multiple of the element's {} bytes, and not 0",
                                      describe_layout(argument), item_bytes(array)));
    }
    layout.is_reversed = stride < 0;
    layout.operand.increment = std::abs(stride) / item_bytes(array);
    if (layout.is_reversed) layout.operand.offset_bytes = static_cast<std::size_t>(byte_range(array).first);
    return layout;
}

driver::BlasOperand forward_vector(std::string_view operation, const BlasArgument& argument) {
    const VectorLayout layout = vector_layout(operation, argument);
    if (layout.is_reversed) {
        refuse(operation, fmt::format("{}: a negative stride is not for this call", describe_layout(argument)));
    }
    return layout.operand;
}

std::pair<std::int64_t, std::int64_t> shape_after(const Array& matrix, Operation operation) {
    const bool is_transposed = operation != Operation::none;
    return {matrix.shape()[is_transposed ? 1 : 0], matrix.shape()[is_transposed ? 0 : 1]};
}

Operation operation_for(DType dtype, Operation operation) noexcept {
    return operation == Operation::conjugate_transpose && !is_complex(dtype) ? Operation::transpose : operation;
}

StoredMatrix stored_matrix(std::string_view operation, const BlasArgument& argument, Operation taken) {
    return store(argument, orders_of(operation, argument), taken_by(operation_for(argument.array->dtype(), taken)));
}

GemmLayout gemm_layout(std::string_view operation, const BlasArgument& a, const BlasArgument& b, const BlasArgument& c,
                       Operation op_a, Operation op_b) {
    const Orders a_orders = orders_of(operation, a), b_orders = orders_of(operation, b), c_orders = orders_of(operation, c);
    const DType dtype = c.array->dtype();
    const Taken a_taken = taken_by(operation_for(dtype, op_a)), b_taken = taken_by(operation_for(dtype, op_b));
    const auto [rows, k] = shape_after(*a.array, op_a);
    const auto [b_rows, columns] = shape_after(*b.array, op_b);
    if (k != b_rows || rows != c.array->shape()[0] || columns != c.array->shape()[1]) {
        const auto transposed = [](Operation taken) { return taken == Operation::none ? "" : ", transposed"; };
        refuse(operation,
               fmt::format("{} is {}{}, {} is {}{}, {} is {}: the shapes don't fit", a.name, describe(*a.array), transposed(op_a),
                           b.name, describe(*b.array), transposed(op_b), c.name, describe(*c.array)));
    }
    GemmLayout layout;
    driver::BlasGemm& call = layout.call;
    call.dtype = dtype;
    call.k = k;
    call.c.memory = c.array->memory().get();
    call.c.offset_bytes = c.array->offset_bytes();
    const BlasArgument* impossible = nullptr;
    for (const bool is_row_major : {false, true}) {
        const auto& leading = is_row_major ? c_orders.row_major : c_orders.column_major;
        if (!leading) continue;
        const StoredMatrix left = store(a, a_orders, {a_taken.is_transposed != is_row_major, a_taken.is_conjugate});
        const StoredMatrix right = store(b, b_orders, {b_taken.is_transposed != is_row_major, b_taken.is_conjugate});
        if (!left.is_possible || !right.is_possible) {
            impossible = left.is_possible ? &b : &a;
            continue;
        }
        call.c.leading_dimension = *leading;
        call.a = is_row_major ? right.matrix : left.matrix;
        call.b = is_row_major ? left.matrix : right.matrix;
        call.m = is_row_major ? columns : rows;
        call.n = is_row_major ? rows : columns;
        layout.is_swapped = is_row_major;
        return layout;
    }
    refuse(operation, fmt::format("{}: its conjugate transpose must lie in the same order as {}", describe_layout(*impossible),
                                  describe_layout(c)));
}

void check_scalar(std::string_view operation, std::string_view name, blas::Scalar scalar, DType dtype) {
    if (scalar.value().imag() == 0 || is_complex(dtype)) return;
    refuse(operation, fmt::format("{} has an imaginary part, the arrays are {}", name, to_string(dtype)));
}

}  // namespace tandem
