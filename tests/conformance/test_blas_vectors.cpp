// Vectors and gemv, against the definition on integers.
#include "blas_support.hpp"

namespace tandem::test {
namespace {

using blas::Operation;

std::vector<std::int64_t> vector_sizes() {
    if (options().window_bytes != 0) return {1, 7, 61};
    return {1, 7, 255, 256, 257, 100'003};
}

struct Pair {
    Lying x, y;
};
constexpr Pair pairs[] = {
    {{}, {}}, {{.lead = 1, .step = 2}, {.lead = 3, .step = 1}}, {{.lead = 2, .step = -1}, {.lead = 1, .step = -3}}};

double magnitude(Value value) {
    return std::abs(value.real()) + std::abs(value.imag());
}

std::int64_t first_of_largest(const std::vector<Value>& values) {
    std::size_t largest = 0;
    for (std::size_t i = 1; i < values.size(); ++i) {
        if (magnitude(values[i]) > magnitude(values[largest])) largest = i;
    }
    return static_cast<std::int64_t>(largest);
}

// The number that a call gave, of the dtype that it must have.
Value number(Queue& queue, const Array& array, DType dtype) {
    CHECK(array.dtype() == dtype);
    CHECK(array.shape().empty());
    Bytes bytes(size_bytes(dtype));
    copy(queue, array.reshape({1}).view_as(uint8), std::span(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()));
    queue.synchronize();
    return load_value(dtype, bytes.data());
}

DType real_dtype(DType dtype) {
    return dtype == complex64 ? float32 : dtype == complex128 ? float64 : dtype;
}

}  // namespace

TEST_CASE("axpy, scal, dot and asum are exact on integers") {
    Queue queue(device());
    with_each_library([&] {
        for (const DType dtype : blas_dtypes(Coverage::two)) {
            const Value alpha = is_complex(dtype) ? Value(2, -3) : Value(-3);
            for (const std::int64_t size : vector_sizes()) {
                for (const Pair& pair : pairs) {
                    CAPTURE(to_string(dtype));
                    CAPTURE(size);
                    CAPTURE(pair.x.step);
                    const Operand x = make_operand(dtype, {size}, pair.x, 1), y = make_operand(dtype, {size}, pair.y, 2);
                    const std::vector<Value> x_values = x.values(), y_values = y.values();
                    std::vector<Value> sum, scaled;
                    Value products = 0, conjugate_products = 0, magnitudes = 0;
                    for (std::size_t i = 0; i < x_values.size(); ++i) {
                        sum.push_back(alpha * x_values[i] + y_values[i]);
                        scaled.push_back(alpha * x_values[i]);
                        products += x_values[i] * y_values[i];
                        conjugate_products += std::conj(x_values[i]) * y_values[i];
                        magnitudes += magnitude(x_values[i]);
                    }
                    CHECK(number(queue, blas::dot(queue, x.array, y.array), dtype) == products);
                    CHECK(number(queue, blas::dotc(queue, x.array, y.array), dtype) == conjugate_products);
                    CHECK(number(queue, blas::asum(queue, x.array), real_dtype(dtype)) == magnitudes);
                    blas::axpy(queue, alpha, x.array, y.array);
                    CHECK(y.values() == sum);
                    CHECK(y.is_intact_around());
                    CHECK(bytes_of(*x.buffer) == x.before);
                    blas::scal(queue, alpha, x.array);
                    CHECK(x.values() == scaled);
                    CHECK(x.is_intact_around());
                }
            }
        }
    });
}

TEST_CASE("nrm2 of vectors whose norm is known") {
    Queue queue(device());
    with_each_library([&] {
        for (const DType dtype : blas_dtypes(Coverage::two)) {
            for (const std::int64_t size : vector_sizes()) {
                for (const Pair& pair : pairs) {
                    const Operand x = make_operand(dtype, {size}, pair.x, 3);
                    double squares = 0;
                    for (const Value& value : x.values())
                        squares += std::norm(value);
                    const double expected = std::sqrt(squares);  // of an integer, and so right to the last bit
                    const double actual = number(queue, blas::nrm2(queue, x.array), real_dtype(dtype)).real();
                    CAPTURE(to_string(dtype));
                    CAPTURE(size);
                    CHECK(std::abs(actual - expected) <= expected * (component_bytes(dtype) == 4 ? 1e-6 : 1e-14));
                }
            }
        }
    });
}

TEST_CASE("iamax is the first of the largest, counted from 0") {
    Queue queue(device());
    with_each_library([&] {
        for (const DType dtype : blas_dtypes(Coverage::two)) {
            for (const std::int64_t size : vector_sizes()) {
                for (const Lying& lies : {Lying{}, Lying{.lead = 3, .step = 2}}) {
                    const Operand x = make_operand(dtype, {size}, lies, 4);
                    CAPTURE(to_string(dtype));
                    CAPTURE(size);
                    const Array index = blas::iamax(queue, x.array);
                    CHECK(item<std::int64_t>(queue, index) == first_of_largest(x.values()));
                    // One alone, at the end and in the middle; of complex numbers the real part alone would mislead.
                    for (const std::int64_t at : {size - 1, size / 2}) {
                        std::vector<Value> values(static_cast<std::size_t>(size), is_complex(dtype) ? Value(4, 0) : Value(-4));
                        values[static_cast<std::size_t>(at)] = is_complex(dtype) ? Value(-3, 3) : Value(5);
                        const Operand peak = make_operand(dtype, {size}, lies, 0, &values);
                        CHECK(item<std::int64_t>(queue, blas::iamax(queue, peak.array)) == at);
                    }
                    const std::vector<Value> zeros(static_cast<std::size_t>(size), 0);
                    CHECK(item<std::int64_t>(queue, blas::iamax(queue, make_operand(dtype, {size}, lies, 0, &zeros).array)) == 0);
                }
            }
        }
    });
}

TEST_CASE("results go where they are asked to") {
    Queue queue(device());
    const Operand x = make_operand(float32, {7}, {.step = 2}, 1), y = make_operand(float32, {7}, {}, 2);
    Value products = 0, magnitudes = 0, squares = 0;
    const std::vector<Value> x_values = x.values(), y_values = y.values();
    for (std::size_t i = 0; i < x_values.size(); ++i) {
        products += x_values[i] * y_values[i];
        magnitudes += magnitude(x_values[i]);
        squares += std::norm(x_values[i]);
    }
    const Operand results = make_operand(float32, {4}, {.lead = 1}, 3);
    blas::dot(queue, x.array, y.array, results.array.slice(0, 0, 1));
    blas::asum(queue, x.array, results.array.slice(0, 1, 2));
    blas::nrm2(queue, x.array, results.array.slice(0, 2, 3));
    blas::dotc(queue, x.array, y.array, results.array.at(0, 3));
    const std::vector<Value> actual = results.values();
    CHECK(actual[0] == products);
    CHECK(actual[1] == magnitudes);
    CHECK(std::abs(actual[2].real() - std::sqrt(squares.real())) < 1e-5);
    CHECK(actual[3] == products);
    CHECK(results.is_intact_around());

    const Array indices = make_array(int64, {2});
    blas::iamax(queue, x.array, indices.slice(0, 1, 2));
    CHECK(item<std::int64_t>(queue, indices.slice(0, 1, 2)) == first_of_largest(x_values));
}

TEST_CASE("vectors of no elements") {
    Queue queue(device());
    const Array none = make_array(float32, {0});
    const Array complex_none = make_array(complex64, {0});
    CHECK(item<float>(queue, blas::dot(queue, none, none)) == 0.0F);
    CHECK(item<float>(queue, blas::asum(queue, complex_none)) == 0.0F);
    CHECK(item<float>(queue, blas::nrm2(queue, none)) == 0.0F);
    CHECK(item<std::complex<float>>(queue, blas::dotc(queue, complex_none, complex_none)) == std::complex<float>(0));
    blas::axpy(queue, 1, none, none);
    blas::scal(queue, 2, none);
}

TEST_CASE("gemv in every order and operation") {
    Queue queue(device());
    const bool is_small = options().window_bytes != 0;
    struct Size {
        std::int64_t rows, columns;
    };
    const std::vector<Size> extents =
        is_small ? std::vector<Size>{{1, 1}, {7, 5}} : std::vector<Size>{{1, 61}, {61, 1}, {93, 61}};
    with_each_library([&] {
        for (const DType dtype : blas_dtypes(Coverage::two)) {
            const Value alpha = is_complex(dtype) ? Value(1, 2) : Value(2), beta = is_complex(dtype) ? Value(-1, 1) : Value(-1);
            for (const auto& [rows, columns] : extents) {
                for (const Order order : {Order::c, Order::fortran}) {
                    for (const Operation op : {Operation::none, Operation::transpose, Operation::conjugate_transpose}) {
                        CAPTURE(to_string(dtype));
                        CAPTURE(rows);
                        CAPTURE(static_cast<int>(order));
                        CAPTURE(static_cast<int>(op));
                        const bool is_transposed = op != Operation::none;
                        const Shape shape{rows, columns};
                        const std::int64_t x_count = is_transposed ? rows : columns, y_count = is_transposed ? columns : rows;
                        const Operand a = make_operand(dtype, shape, {order, 2, 1}, 1);
                        const Operand x = make_operand(dtype, {x_count}, {.lead = 1, .step = 2}, 2);
                        const Operand y = make_operand(dtype, {y_count}, {.lead = 2, .step = 3}, 3);
                        const std::vector<Value> expected = product(alpha, a.values(), shape, op, x.values(), {x_count, 1},
                                                                    Operation::none, beta, y.values(), {y_count, 1});
                        blas::gemv(queue, alpha, a.array, x.array, beta, y.array, op);
                        CHECK(first_difference(y.values(), expected) == -1);
                        CHECK(y.is_intact_around());
                    }
                }
            }
        }
    });
}

}  // namespace tandem::test
