#pragma once
// What the tests of linear algebra share: operands of small integers, for which every order of summing gives the same bits, and
// products of them by the definition.

#include <complex>
#include <cstring>
#include <functional>
#include <optional>

#include "backends/host/blas.hpp"
#include "fixture.hpp"

namespace tandem::test {

using Value = std::complex<double>;

inline bool is_complex(DType dtype) {
    return dtype == complex64 || dtype == complex128;
}

inline Value load_value(DType dtype, const std::byte* from) {
    const auto as = [&]<class T>(T value) {
        std::memcpy(&value, from, sizeof value);
        return value;
    };
    switch (dtype) {
        case DType::float16:
            return static_cast<double>(static_cast<float>(as(Float16{})));
        case DType::float32:
            return static_cast<double>(as(float{}));
        case DType::float64:
            return as(double{});
        case DType::complex64:
            return Value(as(std::complex<float>{}));
        case DType::complex128:
            return as(Value{});
        case DType::int64:
            return static_cast<double>(as(std::int64_t{}));
        default:
            FAIL("no such dtype here");
            return {};
    }
}

inline void store_value(DType dtype, Value value, std::byte* to) {
    const auto put = [&](const auto& element) { std::memcpy(to, &element, sizeof element); };
    if (dtype == float16) put(Float16(static_cast<float>(value.real())));
    if (dtype == float32) put(static_cast<float>(value.real()));
    if (dtype == float64) put(value.real());
    if (dtype == complex64) put(std::complex<float>(value));
    if (dtype == complex128) put(value);
}

/// Integers from -2 to 2, of both components for complex types.
class Integers {
public:
    explicit Integers(std::uint64_t seed) : state_(seed * 2 + 1) {}
    Value next(DType dtype) {
        const double real = draw();
        return is_complex(dtype) ? Value(real, draw()) : Value(real);
    }

private:
    double draw() {
        state_ = state_ * 6364136223846793005U + 1442695040888963407U;
        return static_cast<double>((state_ >> 33U) % 5) - 2;
    }
    std::uint64_t state_;
};

/// How an operand lies in its buffer.
struct Lying {
    Order order = Order::c;
    std::int64_t padding = 0;  ///< elements behind each row (or column), so that it is a slice of a wider matrix
    std::int64_t lead = 0;     ///< elements before the first
    std::int64_t step = 1;     ///< of vectors: from one element to the next; negative ones run backwards
};

/// An operand amid known bytes.
struct Operand {
    std::optional<Buffer> buffer;
    Array array;
    Bytes before;

    /// Elements in C order. Anything but them must be as it was.
    [[nodiscard]] std::vector<Value> values() const {
        const Bytes elements = elements_of(*buffer, array);
        std::vector<Value> result;
        for (std::size_t at = 0; at < elements.size(); at += size_bytes(array.dtype()))
            result.push_back(load_value(array.dtype(), elements.data() + at));
        return result;
    }
    [[nodiscard]] bool is_intact_around() const {
        Bytes expected = before;
        const Bytes after = bytes_of(*buffer);
        for_each([&](std::int64_t offset) {
            std::copy_n(after.begin() + offset, size_bytes(array.dtype()), expected.begin() + offset);
        });
        return after == expected;
    }
    void for_each(const std::function<void(std::int64_t)>& visit) const {
        std::vector<std::int64_t> index(array.dimensions(), 0);
        for (std::int64_t i = 0; i < array.count(); ++i) {
            auto offset = static_cast<std::int64_t>(array.offset_bytes());
            for (std::size_t d = 0; d < index.size(); ++d)
                offset += index[d] * array.strides_bytes()[d];
            visit(offset);
            for (std::size_t d = index.size(); d-- > 0;) {
                if (++index[d] < array.shape()[d]) break;
                index[d] = 0;
            }
        }
    }
};

/// `values` in C order, or integers of that seed.
inline Operand make_operand(DType dtype, const Shape& shape, const Lying& lying, std::uint64_t seed,
                            const std::vector<Value>* values = nullptr) {
    const auto item = static_cast<std::int64_t>(size_bytes(dtype));
    Strides strides(shape.size(), 0);
    std::int64_t extent = 0;  // elements, gaps included
    std::int64_t first = lying.lead;
    if (shape.size() == 1) {
        strides[0] = lying.step * item;
        extent = std::abs(lying.step) * shape[0];
        if (lying.step < 0) first += -lying.step * (shape[0] - 1);
    } else {
        const std::size_t rows = shape.size() - 2, columns = shape.size() - 1;
        const bool is_c = lying.order == Order::c;
        const std::int64_t leading = shape[is_c ? columns : rows] + lying.padding;
        strides[rows] = (is_c ? leading : 1) * item;
        strides[columns] = (is_c ? 1 : leading) * item;
        extent = leading * shape[is_c ? rows : columns];
        if (shape.size() == 3) {
            strides[0] = (extent + lying.padding) * item;
            extent = (extent + lying.padding) * shape[0];
        }
    }
    Operand operand;
    operand.before.assign(static_cast<std::size_t>((lying.lead + extent + 3) * item), std::byte{0x5a});
    operand.array = Array(make_buffer(operand.before.size()), dtype, shape, strides, static_cast<std::size_t>(first * item));
    Integers integers(seed);
    std::size_t i = 0;
    operand.for_each([&](std::int64_t offset) {
        store_value(dtype, values != nullptr ? (*values)[i++] : integers.next(dtype), operand.before.data() + offset);
    });
    operand.buffer.emplace(buffer_with(operand.before));
    operand.array = Array(*operand.buffer, dtype, shape, strides, static_cast<std::size_t>(first * item));
    return operand;
}

/// Element (row, column) of op(matrix), from values in C order.
inline Value taken(const std::vector<Value>& values, const Shape& shape, blas::Operation operation, std::int64_t row,
                   std::int64_t column) {
    const bool is_transposed = operation != blas::Operation::none;
    const Value value = values[static_cast<std::size_t>(is_transposed ? column * shape[1] + row : row * shape[1] + column)];
    return operation == blas::Operation::conjugate_transpose ? std::conj(value) : value;
}

/// alpha op(a) op(b) + beta c by the definition, in C order; c is not looked at where beta is 0.
inline std::vector<Value> product(Value alpha, const std::vector<Value>& a, const Shape& a_shape, blas::Operation op_a,
                                  const std::vector<Value>& b, const Shape& b_shape, blas::Operation op_b, Value beta,
                                  const std::vector<Value>& c, const Shape& c_shape) {
    const std::int64_t k = a_shape[op_a == blas::Operation::none ? 1 : 0];
    std::vector<Value> result;
    for (std::int64_t i = 0; i < c_shape[0]; ++i) {
        for (std::int64_t j = 0; j < c_shape[1]; ++j) {
            Value sum = 0;
            for (std::int64_t p = 0; p < k; ++p)
                sum += taken(a, a_shape, op_a, i, p) * taken(b, b_shape, op_b, p, j);
            const Value old = beta == 0.0 ? Value(0) : beta * c[static_cast<std::size_t>(i * c_shape[1] + j)];
            result.push_back(alpha * sum + old);
        }
    }
    return result;
}

inline std::int64_t first_difference(const std::vector<Value>& actual, const std::vector<Value>& expected) {
    if (actual.size() != expected.size()) return 0;
    for (std::size_t i = 0; i < actual.size(); ++i) {
        if (actual[i] != expected[i]) return static_cast<std::int64_t>(i);
    }
    return -1;
}

/// How many types a routine is tested with where CLBlast compiles for each of them: gemm all, since that is where its types
/// differ.
enum class Coverage : std::uint8_t { all, two, one };

inline std::vector<DType> blas_dtypes(Coverage on_opencl = Coverage::all) {
    const bool is_opencl = device().info().backend == "opencl";
    // One run of its has all.
    if (is_opencl && (options().kind != MemoryKind::device || options().window_bytes != 0)) on_opencl = Coverage::one;
    std::vector<DType> dtypes{float32};
    if (is_opencl && on_opencl == Coverage::one) return dtypes;
    dtypes.push_back(complex64);
    if (is_opencl && on_opencl == Coverage::two) return dtypes;
    if (device().info().has_float64) dtypes.insert(dtypes.end(), {float64, complex128});
    return dtypes;
}

/// The same with and without the host's BLAS.
inline void with_each_library(const std::function<void()>& body) {
    body();
    if (device().info().backend != "host") return;
    INFO("the library's own loops");
    host::use_plain_blas(true);
    try {
        body();
    } catch (...) {
        host::use_plain_blas(false);
        throw;
    }
    host::use_plain_blas(false);
}

}  // namespace tandem::test
