#pragma once
// The last resort where the system has no BLAS: plain loops, the product in blocks that stay in the caches.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "core/thread_pool.hpp"
#include "tandem/blas.hpp"
#include "tandem/half.hpp"

namespace tandem::host::plain {

using blas::Operation;

// What elements are multiplied and summed in.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, Float16>, float, T>;

template <class T>
struct IsComplex : std::false_type {};
template <class T>
struct IsComplex<std::complex<T>> : std::true_type {};

template <class T>
struct RealOf {
    using type = T;
};
template <class T>
struct RealOf<std::complex<T>> {
    using type = T;
};
template <class T>
using Real = typename RealOf<T>::type;

// std::complex's own product looks for infinities each time.
template <class T>
T multiply(T a, T b) noexcept {
    if constexpr (IsComplex<T>::value) {
        return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
    } else {
        return a * b;
    }
}

template <class T>
T conjugate(T value) noexcept {
    if constexpr (IsComplex<T>::value) {
        return std::conj(value);
    } else {
        return value;
    }
}

template <class T>
Real<T> magnitude(T value) noexcept {
    if constexpr (IsComplex<T>::value) {
        return std::abs(value.real()) + std::abs(value.imag());
    } else {
        return std::abs(value);
    }
}

template <class T>
void axpy(std::int64_t n, T alpha, const T* x, std::int64_t x_step, T* y, std::int64_t y_step) noexcept {
    for (std::int64_t i = 0; i < n; ++i)
        y[i * y_step] += multiply(alpha, x[i * x_step]);
}

template <class T>
void scal(std::int64_t n, T alpha, T* x, std::int64_t step) noexcept {
    for (std::int64_t i = 0; i < n; ++i)
        x[i * step] = multiply(alpha, x[i * step]);
}

template <class T>
T dot(std::int64_t n, const T* x, std::int64_t x_step, const T* y, std::int64_t y_step, bool conjugates) noexcept {
    T sum{};
    for (std::int64_t i = 0; i < n; ++i)
        sum += multiply(conjugates ? conjugate(x[i * x_step]) : x[i * x_step], y[i * y_step]);
    return sum;
}

// In units of the largest component, so that no square overflows; in double, for the many.
template <class T>
Real<T> nrm2(std::int64_t n, const T* x, std::int64_t step) noexcept {
    Real<T> largest = 0;
    for (std::int64_t i = 0; i < n; ++i)
        largest = std::max({largest, std::abs(std::real(x[i * step])), std::abs(std::imag(x[i * step]))});
    if (largest == 0 || !std::isfinite(largest)) largest = 1;  // NaN and infinities are for the sum to show
    double squares = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        const double real = static_cast<double>(std::real(x[i * step])) / static_cast<double>(largest);
        const double imaginary = static_cast<double>(std::imag(x[i * step])) / static_cast<double>(largest);
        squares += real * real + imaginary * imaginary;
    }
    return static_cast<Real<T>>(std::sqrt(squares)) * largest;
}

template <class T>
Real<T> asum(std::int64_t n, const T* x, std::int64_t step) noexcept {
    Real<T> sum = 0;
    for (std::int64_t i = 0; i < n; ++i)
        sum += magnitude(x[i * step]);
    return sum;
}

template <class T>
std::int64_t iamax(std::int64_t n, const T* x, std::int64_t step) noexcept {
    std::int64_t largest = 0;
    for (std::int64_t i = 1; i < n; ++i) {
        if (magnitude(x[i * step]) > magnitude(x[largest * step])) largest = i;
    }
    return largest;
}

// What beta leaves of an output; 0 leaves nothing, not even a NaN.
template <class T>
T scaled(T beta, T value) noexcept {
    return beta == T{} ? T{} : multiply(beta, value);
}

template <class T>
void gemv(Operation operation, std::int64_t rows, std::int64_t columns, T alpha, const T* a, std::int64_t leading, const T* x,
          std::int64_t x_step, T beta, T* y, std::int64_t y_step) noexcept {
    if (operation == Operation::none) {
        for (std::int64_t i = 0; i < rows; ++i)
            y[i * y_step] = scaled(beta, y[i * y_step]);
        for (std::int64_t j = 0; j < columns; ++j)
            axpy<T>(rows, multiply(alpha, x[j * x_step]), a + j * leading, 1, y, y_step);
        return;
    }
    for (std::int64_t j = 0; j < columns; ++j) {
        const T sum = dot(rows, a + j * leading, 1, x, x_step, operation == Operation::conjugate_transpose);
        y[j * y_step] = scaled(beta, y[j * y_step]) + multiply(alpha, sum);
    }
}

// A column-major matrix of which `operation` is taken.
template <class T>
struct Matrix {
    const T* data;
    std::int64_t leading;
    Operation operation;

    [[nodiscard]] Wide<T> at(std::int64_t row, std::int64_t column) const noexcept {
        if (operation == Operation::none) return static_cast<Wide<T>>(data[row + column * leading]);
        const auto value = static_cast<Wide<T>>(data[column + row * leading]);
        return operation == Operation::conjugate_transpose ? conjugate(value) : value;
    }
};

// A tile of c and what is multiplied for it at a time: 128 KiB at most, on the stack.
inline constexpr std::int64_t tile_rows = 64, tile_columns = 32, tile_products = 64;

template <class T>
void gemm_tile(std::int64_t first_row, std::int64_t rows, std::int64_t first_column, std::int64_t columns, std::int64_t k,
               Wide<T> alpha, const Matrix<T>& a, const Matrix<T>& b, Wide<T> beta, T* c, std::int64_t c_leading) noexcept {
    using W = Wide<T>;
    W sums[tile_columns][tile_rows] = {};
    W a_block[tile_products][tile_rows];
    W b_block[tile_columns][tile_products];
    for (std::int64_t first = 0; first < k; first += tile_products) {
        const std::int64_t products = std::min(tile_products, k - first);
        for (std::int64_t p = 0; p < products; ++p) {
            for (std::int64_t i = 0; i < rows; ++i)
                a_block[p][i] = a.at(first_row + i, first + p);
        }
        for (std::int64_t j = 0; j < columns; ++j) {
            for (std::int64_t p = 0; p < products; ++p)
                b_block[j][p] = b.at(first + p, first_column + j);
        }
        for (std::int64_t j = 0; j < columns; ++j) {
            for (std::int64_t p = 0; p < products; ++p) {
                const W factor = b_block[j][p];
                for (std::int64_t i = 0; i < rows; ++i)
                    sums[j][i] += multiply(a_block[p][i], factor);
            }
        }
    }
    for (std::int64_t j = 0; j < columns; ++j) {
        for (std::int64_t i = 0; i < rows; ++i) {
            T& element = c[first_row + i + (first_column + j) * c_leading];
            element = static_cast<T>(multiply(alpha, sums[j][i]) + scaled(beta, static_cast<W>(element)));
        }
    }
}

/// c = alpha op(a) op(b) + beta c on the pool's threads.
template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, Wide<T> alpha, const Matrix<T>& a, const Matrix<T>& b, Wide<T> beta,
          T* c, std::int64_t c_leading) {
    const std::int64_t down = (m + tile_rows - 1) / tile_rows, across = (n + tile_columns - 1) / tile_columns;
    ThreadPool::instance().parallel(down * across, [&](std::int64_t tile) {
        const std::int64_t row = tile % down * tile_rows, column = tile / down * tile_columns;
        gemm_tile<T>(row, std::min(tile_rows, m - row), column, std::min(tile_columns, n - column), k, alpha, a, b, beta, c,
                     c_leading);
    });
}

}  // namespace tandem::host::plain
