#include "tandem/blas.hpp"

#include <fmt/format.h>

#include <array>

#include "core/blas_layout.hpp"
#include "core/device_state.hpp"
#include "core/elementwise.hpp"
#include "tandem/error.hpp"

namespace tandem::blas {
namespace {

using driver::BlasGemm;
using driver::BlasVector;
using driver::BlasVectorOp;

constexpr std::array<std::byte, 16> zero_bytes{};

// An array of zeros of that shape, all of them the same element.
Array zeros(Queue& queue, DType dtype, const Shape& shape) {
    const Buffer one(queue.device(), zero_bytes.size());
    QueueState::Submission submission(queue.state(), zero_bytes.size());
    submission.use(one.memory());
    submission.native().write(*one.memory(), 0, zero_bytes.data(), zero_bytes.size());
    return {one, dtype, shape, Strides(shape.size(), 0), 0};
}

void set_zero(Queue& queue, const Array& array) {
    const Array zero = zeros(queue, array.dtype(), array.shape());
    run_elementwise(queue, Op::copy, {&zero}, array);
}

std::string_view name_of(BlasVectorOp op) noexcept {
    switch (op) {
        case BlasVectorOp::axpy:
            return "axpy";
        case BlasVectorOp::scal:
            return "scal";
        case BlasVectorOp::dot:
            return "dot";
        case BlasVectorOp::dotc:
            return "dotc";
        case BlasVectorOp::nrm2:
            return "nrm2";
        case BlasVectorOp::asum:
            return "asum";
        case BlasVectorOp::iamax:
            return "iamax";
    }
    return "?";
}

DType result_dtype(BlasVectorOp op, DType dtype) noexcept {
    if (op == BlasVectorOp::iamax) return DType::int64;
    if (op == BlasVectorOp::dot || op == BlasVectorOp::dotc) return dtype;
    return dtype == DType::complex64 ? DType::float32 : dtype == DType::complex128 ? DType::float64 : dtype;
}

// The vectors' directions make one: both forwards, or both backwards.
void set_pair(BlasVector& call, std::string_view operation, const BlasArgument& x, const BlasArgument& y) {
    const VectorLayout first = vector_layout(operation, x), second = vector_layout(operation, y);
    if (first.is_reversed != second.is_reversed && x.array->count() > 1 && y.array->count() > 1) {
        const BlasArgument& reversed = first.is_reversed ? x : y;
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: {}: a negative stride must be that of both vectors", operation, describe_layout(reversed)));
    }
    call.x = first.operand;
    call.y = second.operand;
    if (x.array->shape() == y.array->shape()) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: x is {}, y is {}: shapes must be equal", operation, describe(*x.array), describe(*y.array)));
}

void submit(Queue& queue, const BlasVector& call, std::initializer_list<const Array*> arrays) {
    QueueState::Submission submission(queue.state(), static_cast<std::size_t>(call.count) * size_bytes(call.dtype));
    for (const Array* array : arrays)
        submission.use(array->memory());
    submission.native().blas(call);
}

// x to one number; `y` for the products.
void reduce(Queue& queue, BlasVectorOp op, const Array& x, const Array* y, const Array& out) {
    const std::string_view operation = name_of(op);
    const BlasArgument x_argument{&x, "x"};
    const BlasArgument out_argument{&out, "the result", true};
    BlasVector call;
    call.op = op;
    call.dtype = x.dtype();
    call.count = x.count();
    if (y != nullptr) {
        const BlasArgument both[] = {x_argument, {y, "y"}};
        check_blas_types(operation, queue, both, false);
        set_pair(call, operation, both[0], both[1]);
    } else {
        check_blas_types(operation, queue, {&x_argument, 1}, false);
        call.x = op == BlasVectorOp::iamax ? forward_vector(operation, x_argument) : vector_layout(operation, x_argument).operand;
    }
    if (out.device() != queue.device() || out.count() != 1 || out.dtype() != result_dtype(op, x.dtype())) {
        throw Error(ErrorCode::invalid_argument, fmt::format("{}: the result of {} is one {} on {}, and can't go to {} on {}",
                                                             operation, describe(x), to_string(result_dtype(op, x.dtype())),
                                                             queue.device().spec(), describe(out), out.device().spec()));
    }
    if (x.count() == 0) {
        if (op == BlasVectorOp::iamax) throw Error(ErrorCode::invalid_argument, "iamax: there are no elements");
        check_access(operation, out_argument.name, out, Access::write);
        return set_zero(queue, out);
    }
    const BlasArgument all[] = {x_argument, out_argument, {y != nullptr ? y : &x, y != nullptr ? "y" : "x"}};
    check_blas_memory(operation, all);
    call.result = {out.memory().get(), out.offset_bytes(), 1};
    submit(queue, call, {&x, y != nullptr ? y : &x, &out});
}

Array reduced(Queue& queue, BlasVectorOp op, const Array& x, const Array* y = nullptr) {
    (void)queue.state();  // before anything is allocated
    Array out = empty(queue.device(), result_dtype(op, x.dtype()), {});
    reduce(queue, op, x, y, out);
    return out;
}

// c = beta c for what BLAS never gets to see: products of nothing.
void scale_matrix(Queue& queue, BlasGemm call, const Array& c) {
    if (call.beta == 1.0) return;
    if (call.beta == 0.0) return set_zero(queue, c);
    // A column of zeros times a row of them, and beta c.
    const Array zero = empty(queue.device(), call.dtype, {std::max(call.m, call.n)});
    set_zero(queue, zero);
    call.k = 1;
    call.alpha = 1;
    call.a = {zero.memory().get(), zero.offset_bytes(), call.m, 0, Operation::none};
    call.b = {zero.memory().get(), zero.offset_bytes(), 1, 0, Operation::none};
    QueueState::Submission submission(queue.state(), c.size_bytes());
    submission.use(zero.memory());
    submission.use(c.memory());
    submission.native().blas(call);
}

void submit(Queue& queue, BlasGemm call, std::span<const BlasArgument> arguments) {
    std::size_t work_bytes = 0;
    for (const BlasArgument& argument : arguments)
        work_bytes += argument.array->size_bytes();
    DeviceState& device = *queue.device().state();
    std::shared_ptr<driver::Memory> scratch;
    if (const std::size_t bytes = device.native->blas_scratch_bytes(call); bytes != 0)
        scratch = device.allocate(bytes, MemoryKind::device);
    call.scratch = scratch.get();
    QueueState::Submission submission(queue.state(), work_bytes);
    for (const BlasArgument& argument : arguments)
        submission.use(argument.array->memory());
    if (scratch != nullptr) submission.use(scratch);
    submission.native().blas(call);
}

void check_scalars(std::string_view operation, Scalar alpha, Scalar beta, DType dtype) {
    check_scalar(operation, "alpha", alpha, dtype);
    check_scalar(operation, "beta", beta, dtype);
}

// Elements from one matrix to the next along the first of three dimensions.
std::int64_t batch_stride(const BlasArgument& argument) {
    const Array& array = *argument.array;
    if (array.dimensions() == 2 || array.shape()[0] <= 1) return 0;
    const auto item = static_cast<std::int64_t>(size_bytes(array.dtype()));
    if (const std::int64_t stride = array.strides_bytes()[0]; stride >= 0 && stride % item == 0) return stride / item;
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("gemm_strided_batched: {}: BLAS takes matrices that follow each other by a multiple of the element's {} "
                    "bytes, which is not negative",
                    describe_layout(argument), item));
}

void check_batch(std::string_view name, const Array& array, std::int64_t batch_count, bool may_be_one) {
    if ((array.dimensions() == 3 && array.shape()[0] == batch_count) || (may_be_one && array.dimensions() == 2)) return;
    throw Error(ErrorCode::invalid_argument, fmt::format("gemm_strided_batched: {} is {}: {} matrices are needed{}", name,
                                                         describe(array), batch_count, may_be_one ? ", or one for all" : ""));
}

void check_same_layouts(std::span<const BlasArgument> arguments) {
    for (const BlasArgument& argument : arguments) {
        const Array& first = *arguments.front().array;
        const bool is_same = argument.array->shape() == first.shape() && argument.array->strides_bytes() == first.strides_bytes();
        if (is_same) continue;
        throw Error(ErrorCode::invalid_argument, fmt::format("gemm_batched: {}, but {}: all must have one shape and one layout",
                                                             describe_layout(arguments.front()), describe_layout(argument)));
    }
}

}  // namespace

void axpy(Queue& queue, Scalar alpha, const Array& x, const Array& y) {
    const BlasArgument arguments[] = {{&x, "x"}, {&y, "y", true}};
    check_blas_types("axpy", queue, arguments, false);
    check_scalar("axpy", "alpha", alpha, x.dtype());
    BlasVector call;
    call.op = BlasVectorOp::axpy;
    call.dtype = x.dtype();
    call.count = x.count();
    call.alpha = alpha.value();
    set_pair(call, "axpy", arguments[0], arguments[1]);
    if (call.count == 0) return;
    check_blas_memory("axpy", arguments);
    if (call.alpha == 0.0) return;
    submit(queue, call, {&x, &y});
}

void scal(Queue& queue, Scalar alpha, const Array& x) {
    const BlasArgument argument{&x, "x", true};
    check_blas_types("scal", queue, {&argument, 1}, false);
    check_scalar("scal", "alpha", alpha, x.dtype());
    BlasVector call;
    call.op = BlasVectorOp::scal;
    call.dtype = x.dtype();
    call.count = x.count();
    call.alpha = alpha.value();
    call.x = vector_layout("scal", argument).operand;
    if (call.count == 0) return;
    check_blas_memory("scal", {&argument, 1});
    if (call.alpha == 1.0) return;
    if (call.alpha == 0.0) return set_zero(queue, x);
    submit(queue, call, {&x});
}

Array dot(Queue& queue, const Array& x, const Array& y) {
    return reduced(queue, BlasVectorOp::dot, x, &y);
}

void dot(Queue& queue, const Array& x, const Array& y, const Array& out) {
    reduce(queue, BlasVectorOp::dot, x, &y, out);
}

Array dotc(Queue& queue, const Array& x, const Array& y) {
    return reduced(queue, BlasVectorOp::dotc, x, &y);
}

void dotc(Queue& queue, const Array& x, const Array& y, const Array& out) {
    reduce(queue, BlasVectorOp::dotc, x, &y, out);
}

Array nrm2(Queue& queue, const Array& x) {
    return reduced(queue, BlasVectorOp::nrm2, x);
}

void nrm2(Queue& queue, const Array& x, const Array& out) {
    reduce(queue, BlasVectorOp::nrm2, x, nullptr, out);
}

Array asum(Queue& queue, const Array& x) {
    return reduced(queue, BlasVectorOp::asum, x);
}

void asum(Queue& queue, const Array& x, const Array& out) {
    reduce(queue, BlasVectorOp::asum, x, nullptr, out);
}

Array iamax(Queue& queue, const Array& x) {
    return reduced(queue, BlasVectorOp::iamax, x);
}

void iamax(Queue& queue, const Array& x, const Array& out) {
    reduce(queue, BlasVectorOp::iamax, x, nullptr, out);
}

void gemv(Queue& queue, Scalar alpha, const Array& a, const Array& x, Scalar beta, const Array& y, Operation op_a) {
    const BlasArgument arguments[] = {{&a, "a"}, {&x, "x"}, {&y, "y", true}};
    check_blas_types("gemv", queue, arguments, false);
    check_scalars("gemv", alpha, beta, a.dtype());
    const StoredMatrix stored = stored_matrix("gemv", arguments[0], op_a);
    const driver::BlasOperand x_vector = forward_vector("gemv", arguments[1]);
    const driver::BlasOperand y_vector = forward_vector("gemv", arguments[2]);
    const auto [rows, columns] = shape_after(a, op_a);
    if (rows != y.count() || columns != x.count()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("gemv: a is {}{}, x is {}, y is {}: the shapes don't fit", describe(a),
                                op_a == Operation::none ? "" : ", transposed", describe(x), describe(y)));
    }
    if (rows == 0) return;
    check_blas_memory("gemv", arguments);
    if (columns == 0 || alpha.value() == 0.0) return scal(queue, beta, y);
    QueueState::Submission submission(queue.state(), a.size_bytes());
    for (const BlasArgument& argument : arguments)
        submission.use(argument.array->memory());
    if (stored.is_possible) {
        submission.native().blas(driver::BlasGemv{a.dtype(), stored.rows, stored.columns, alpha.value(), beta.value(),
                                                  stored.matrix, x_vector, y_vector});
        return;
    }
    // BLAS has no conjugate without a transpose for gemv; but a row times the matrix's conjugate transpose, of which y is the
    // row.
    const StoredMatrix row_major = stored_matrix("gemv", {&a, "a"}, Operation::none);
    BlasGemm call;
    call.dtype = a.dtype();
    call.m = 1;
    call.n = rows;
    call.k = columns;
    call.alpha = alpha.value();
    call.beta = beta.value();
    call.a = {x_vector.memory, x_vector.offset_bytes, x_vector.increment, 0, Operation::none};
    call.b = row_major.matrix;
    call.b.operation = Operation::conjugate_transpose;
    call.c = {y_vector.memory, y_vector.offset_bytes, y_vector.increment, 0, Operation::none};
    submission.native().blas(call);
}

void gemm(Queue& queue, Scalar alpha, const Array& a, const Array& b, Scalar beta, const Array& c, Operation op_a,
          Operation op_b) {
    const BlasArgument arguments[] = {{&a, "a"}, {&b, "b"}, {&c, "c", true}};
    check_blas_types("gemm", queue, arguments, true);
    check_scalars("gemm", alpha, beta, c.dtype());
    BlasGemm call = gemm_layout("gemm", arguments[0], arguments[1], arguments[2], op_a, op_b).call;
    call.alpha = alpha.value();
    call.beta = beta.value();
    if (c.count() == 0) return;
    check_blas_memory("gemm", arguments);
    if (call.k == 0 || call.alpha == 0.0) return scale_matrix(queue, std::move(call), c);
    submit(queue, std::move(call), arguments);
}

void gemm_batched(Queue& queue, Scalar alpha, std::span<const Array> a, std::span<const Array> b, Scalar beta,
                  std::span<const Array> c, Operation op_a, Operation op_b) {
    if (a.size() != c.size() || b.size() != c.size()) {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("gemm_batched: {} of a, {} of b, {} of c: as many are needed of each", a.size(), b.size(), c.size()));
    }
    (void)queue.state();  // throws where the queue was moved from
    if (c.empty()) return;
    std::vector<std::string> names;
    names.reserve(3 * c.size());
    std::vector<BlasArgument> arguments;
    arguments.reserve(3 * c.size());
    for (const auto& [letter, arrays] : {std::pair{'a', a}, std::pair{'b', b}, std::pair{'c', c}}) {
        for (std::size_t i = 0; i < arrays.size(); ++i)
            arguments.push_back({&arrays[i], names.emplace_back(fmt::format("{}[{}]", letter, i)), letter == 'c'});
    }
    const std::span all(arguments);
    check_blas_types("gemm_batched", queue, all, true);
    check_scalars("gemm_batched", alpha, beta, c.front().dtype());
    for (std::size_t first = 0; first < all.size(); first += c.size())
        check_same_layouts(all.subspan(first, c.size()));
    auto [call, is_swapped] = gemm_layout("gemm_batched", all[0], all[c.size()], all[2 * c.size()], op_a, op_b);
    call.alpha = alpha.value();
    call.beta = beta.value();
    if (c.front().count() == 0) return;
    check_blas_memory("gemm_batched", all);
    if (call.k == 0 || call.alpha == 0.0) {
        for (const Array& one : c) {
            call.c.memory = one.memory().get();
            call.c.offset_bytes = one.offset_bytes();
            scale_matrix(queue, call, one);
        }
        return;
    }
    const auto place = [](const Array& array) { return driver::BlasOperand{array.memory().get(), array.offset_bytes(), 1}; };
    call.batch_count = static_cast<std::int64_t>(c.size());
    for (std::size_t i = 0; i < c.size(); ++i)
        call.places.push_back({place(is_swapped ? b[i] : a[i]), place(is_swapped ? a[i] : b[i]), place(c[i])});
    submit(queue, std::move(call), all);
}

void gemm_strided_batched(Queue& queue, Scalar alpha, const Array& a, const Array& b, Scalar beta, const Array& c, Operation op_a,
                          Operation op_b) {
    const BlasArgument arguments[] = {{&a, "a"}, {&b, "b"}, {&c, "c", true}};
    check_blas_types("gemm_strided_batched", queue, arguments, true);
    check_scalars("gemm_strided_batched", alpha, beta, c.dtype());
    const std::int64_t count = c.dimensions() == 3 ? c.shape()[0] : 0;
    check_batch("c", c, count, false);
    check_batch("a", a, count, true);
    check_batch("b", b, count, true);
    if (count == 0) return;
    const auto first = [](const Array& array) { return array.dimensions() == 3 ? array.at(0, 0) : array; };
    const Array a_first = first(a), b_first = first(b), c_first = first(c);
    auto [call, is_swapped] = gemm_layout("gemm_strided_batched", {&a_first, "a"}, {&b_first, "b"}, {&c_first, "c"}, op_a, op_b);
    call.alpha = alpha.value();
    call.beta = beta.value();
    const std::int64_t strides[] = {batch_stride(arguments[0]), batch_stride(arguments[1]), batch_stride(arguments[2])};
    if (c.count() == 0) return;
    check_blas_memory("gemm_strided_batched", arguments);
    if (call.k == 0 || call.alpha == 0.0) {
        if (call.beta == 1.0) return;
        if (call.beta == 0.0) return set_zero(queue, c);
        for (std::int64_t i = 0; i < count; ++i) {
            const Array one = c.at(0, i);
            call.c.offset_bytes = one.offset_bytes();
            scale_matrix(queue, call, one);
        }
        return;
    }
    call.batch_count = count;
    call.a.batch_stride = strides[is_swapped ? 1 : 0];
    call.b.batch_stride = strides[is_swapped ? 0 : 1];
    call.c.batch_stride = strides[2];
    submit(queue, std::move(call), arguments);
}

std::string library(const Device& device) {
    return device.state()->native->blas_library();
}

}  // namespace tandem::blas
