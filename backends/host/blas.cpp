#include "backends/host/blas.hpp"

#include <fmt/format.h>

#include <atomic>
#include <limits>
#include <optional>

#include "backends/host/memory.hpp"
#include "backends/host/plain_blas.hpp"
#include "core/shared_library.hpp"
#include "tandem/error.hpp"

namespace tandem::host {
namespace {

using blas::Operation;
using driver::BlasGemm;
using driver::BlasGemv;
using driver::BlasVector;
using driver::BlasVectorOp;
using Index = std::size_t;  // CBLAS_INDEX

constexpr int column_major = 102;  // CBLAS_ORDER

int cblas_transpose(Operation operation) noexcept {
    switch (operation) {
        case Operation::none:
            return 111;
        case Operation::transpose:
            return 112;
        case Operation::conjugate_transpose:
            return 113;
    }
    return 111;
}

// The C interface to BLAS: real types are passed by value, complex ones by address.
template <class T>
struct Cblas {
    void (*axpy)(int, T, const T*, int, T*, int);
    void (*scal)(int, T, T*, int);
    T (*dot)(int, const T*, int, const T*, int);
    T (*nrm2)(int, const T*, int);
    T (*asum)(int, const T*, int);
    Index (*iamax)(int, const T*, int);
    void (*gemv)(int, int, int, int, T, const T*, int, const T*, int, T, T*, int);
    void (*gemm)(int, int, int, int, int, int, T, const T*, int, const T*, int, T, T*, int);

    Cblas(const SharedLibrary& library, const std::string& letter) {
        const auto get = [&](auto& function, const std::string& name) {
            function = library.get<std::remove_reference_t<decltype(function)>>(("cblas_" + name).c_str());
        };
        get(axpy, letter + "axpy");
        get(scal, letter + "scal");
        get(dot, letter + "dot");
        get(nrm2, letter + "nrm2");
        get(asum, letter + "asum");
        get(iamax, "i" + letter + "amax");
        get(gemv, letter + "gemv");
        get(gemm, letter + "gemm");
    }

    static T scalar(const T& value) noexcept { return value; }
    T dot_product(int n, const T* x, int x_step, const T* y, int y_step, bool /*conjugates*/) const {
        return dot(n, x, x_step, y, y_step);
    }
};

template <class T>
struct Cblas<std::complex<T>> {
    void (*axpy)(int, const void*, const void*, int, void*, int);
    void (*scal)(int, const void*, void*, int);
    void (*dotu)(int, const void*, int, const void*, int, void*);
    void (*dotc)(int, const void*, int, const void*, int, void*);
    T (*nrm2)(int, const void*, int);
    T (*asum)(int, const void*, int);
    Index (*iamax)(int, const void*, int);
    void (*gemv)(int, int, int, int, const void*, const void*, int, const void*, int, const void*, void*, int);
    void (*gemm)(int, int, int, int, int, int, const void*, const void*, int, const void*, int, const void*, void*, int);

    Cblas(const SharedLibrary& library, const std::string& letter) {
        const auto get = [&](auto& function, const std::string& name) {
            function = library.get<std::remove_reference_t<decltype(function)>>(("cblas_" + name).c_str());
        };
        const std::string real = letter == "c" ? "s" : "d";
        get(axpy, letter + "axpy");
        get(scal, letter + "scal");
        get(dotu, letter + "dotu_sub");
        get(dotc, letter + "dotc_sub");
        get(nrm2, real + letter + "nrm2");
        get(asum, real + letter + "asum");
        get(iamax, "i" + letter + "amax");
        get(gemv, letter + "gemv");
        get(gemm, letter + "gemm");
    }

    static const void* scalar(const std::complex<T>& value) noexcept { return &value; }
    std::complex<T> dot_product(int n, const void* x, int x_step, const void* y, int y_step, bool conjugates) const {
        std::complex<T> sum;
        (conjugates ? dotc : dotu)(n, x, x_step, y, y_step, &sum);
        return sum;
    }
};

struct SystemBlas {
    std::string name;  // in words
    SharedLibrary library;
    Cblas<float> s{library, "s"};
    Cblas<double> d{library, "d"};
    Cblas<std::complex<float>> c{library, "c"};
    Cblas<std::complex<double>> z{library, "z"};

    SystemBlas(const char* words, const char* file) : name(fmt::format("{} ({})", words, file)), library(file) {}

    template <class T>
    const Cblas<T>& functions() const noexcept {
        if constexpr (std::is_same_v<T, float>) return s;
        if constexpr (std::is_same_v<T, double>) return d;
        if constexpr (std::is_same_v<T, std::complex<float>>) return c;
        if constexpr (std::is_same_v<T, std::complex<double>>) return z;
    }
};

// The fastest that is there; null where none is.
const SystemBlas* find_system_blas() {
    static constexpr const char* candidates[][2] = {{"OpenBLAS", "libopenblas.so.0"},
                                                    {"oneMKL", "libmkl_rt.so.2"},
                                                    {"oneMKL", "libmkl_rt.so"},
                                                    {"BLIS", "libblis.so.4"},
                                                    {"the system's BLAS", "libblas.so.3"}};
    for (const auto& [words, file] : candidates) {
        try {
            return new SystemBlas(words, file);  // for good: libraries stay open
        } catch (const Error&) {
            continue;  // not there, or without the C interface
        }
    }
    return nullptr;
}

std::atomic<bool> is_plain_wanted{false};

const SystemBlas* system_blas() {
    static const SystemBlas* const found = find_system_blas();
    return is_plain_wanted.load(std::memory_order_relaxed) ? nullptr : found;
}

template <class T, class Operand>
T* elements(const Operand& operand) noexcept {
    return reinterpret_cast<T*>(static_cast<const Memory*>(operand.memory)->data() + operand.offset_bytes);
}

template <class T, class Value = plain::Wide<T>>
Value scalar_as(std::complex<double> value) noexcept {
    if constexpr (plain::IsComplex<Value>::value) {
        return static_cast<Value>(value);
    } else {
        return static_cast<Value>(value.real());
    }
}

// As BLAS's integers of 32 bits; nothing where one of them is larger.
template <std::size_t N>
std::optional<std::array<int, N>> narrow(const std::array<std::int64_t, N>& numbers) noexcept {
    std::array<int, N> narrowed{};
    for (std::size_t i = 0; i < N; ++i) {
        if (numbers[i] > std::numeric_limits<int>::max()) return {};
        narrowed[i] = static_cast<int>(numbers[i]);
    }
    return narrowed;
}

// Calls `body` with a value of the C++ type.
template <class Body>
void with_type(DType dtype, Body&& body) {
    switch (dtype) {
        case DType::float32:
            return body(float{});
        case DType::float64:
            return body(double{});
        case DType::complex64:
            return body(std::complex<float>{});
        default:
            return body(std::complex<double>{});
    }
}

// The loops of this library as the functions of a system's are called.
template <class T>
struct PlainFunctions {
    using N = std::int64_t;
    static T scalar(T value) { return value; }
    static void axpy(N n, T alpha, const T* x, N x_step, T* y, N y_step) { plain::axpy(n, alpha, x, x_step, y, y_step); }
    static void scal(N n, T alpha, T* x, N x_step) { plain::scal(n, alpha, x, x_step); }
    static T dot_product(N n, const T* x, N x_step, const T* y, N y_step, bool conjugates) {
        return plain::dot(n, x, x_step, y, y_step, conjugates);
    }
    static auto nrm2(N n, const T* x, N x_step) { return plain::nrm2(n, x, x_step); }
    static auto asum(N n, const T* x, N x_step) { return plain::asum(n, x, x_step); }
    static N iamax(N n, const T* x, N x_step) { return plain::iamax(n, x, x_step); }
};

template <class T, class Functions, class Integer>
void run_vector(const Functions& f, const BlasVector& call, Integer n, Integer x_step, Integer y_step) {
    const T alpha = scalar_as<T>(call.alpha);
    T* x = elements<T>(call.x);
    T* y = call.y.memory != nullptr ? elements<T>(call.y) : nullptr;
    switch (call.op) {
        case BlasVectorOp::axpy:
            return f.axpy(n, f.scalar(alpha), x, x_step, y, y_step);
        case BlasVectorOp::scal:
            return f.scal(n, f.scalar(alpha), x, x_step);
        case BlasVectorOp::dot:
        case BlasVectorOp::dotc:
            *elements<T>(call.result) = f.dot_product(n, x, x_step, y, y_step, call.op == BlasVectorOp::dotc);
            return;
        case BlasVectorOp::nrm2:
            *elements<plain::Real<T>>(call.result) = f.nrm2(n, x, x_step);
            return;
        case BlasVectorOp::asum:
            *elements<plain::Real<T>>(call.result) = f.asum(n, x, x_step);
            return;
        case BlasVectorOp::iamax:
            *elements<std::int64_t>(call.result) = static_cast<std::int64_t>(f.iamax(n, x, x_step));
            return;
    }
}

// One product, whose matrices start at these places.
template <class T>
void run_product(const BlasGemm& call, const T* a, const T* b, T* c) {
    const auto alpha = scalar_as<T>(call.alpha), beta = scalar_as<T>(call.beta);
    if constexpr (!std::is_same_v<T, Float16>) {
        const auto sizes =
            narrow<6>({call.m, call.n, call.k, call.a.leading_dimension, call.b.leading_dimension, call.c.leading_dimension});
        if (const SystemBlas* blas = system_blas(); blas != nullptr && sizes) {
            const Cblas<T>& f = blas->functions<T>();
            const auto [m, n, k, a_leading, b_leading, c_leading] = *sizes;
            return f.gemm(column_major, cblas_transpose(call.a.operation), cblas_transpose(call.b.operation), m, n, k,
                          f.scalar(alpha), a, a_leading, b, b_leading, f.scalar(beta), c, c_leading);
        }
    }
    plain::gemm<T>(call.m, call.n, call.k, alpha, {a, call.a.leading_dimension, call.a.operation},
                   {b, call.b.leading_dimension, call.b.operation}, beta, c, call.c.leading_dimension);
}

template <class T>
void run_products(const BlasGemm& call) {
    for (std::int64_t i = 0; i < call.batch_count; ++i) {
        if (!call.places.empty()) {
            const BlasGemm::Places& places = call.places[static_cast<std::size_t>(i)];
            run_product<T>(call, elements<T>(places.a), elements<T>(places.b), elements<T>(places.c));
        } else {
            run_product<T>(call, elements<T>(call.a) + i * call.a.batch_stride, elements<T>(call.b) + i * call.b.batch_stride,
                           elements<T>(call.c) + i * call.c.batch_stride);
        }
    }
}

}  // namespace

void run(const BlasVector& call) {
    with_type(call.dtype, [&]<class T>(T) {
        // Its loops may count the elements between the first and the last in 32 bits too.
        const auto sizes = narrow<5>(
            {call.count, call.x.increment, call.y.increment, call.count * call.x.increment, call.count * call.y.increment});
        if (const SystemBlas* blas = system_blas(); blas != nullptr && sizes) {
            return run_vector<T>(blas->functions<T>(), call, (*sizes)[0], (*sizes)[1], (*sizes)[2]);
        }
        run_vector<T>(PlainFunctions<T>(), call, call.count, call.x.increment, call.y.increment);
    });
}

void run(const BlasGemv& call) {
    with_type(call.dtype, [&]<class T>(T) {
        const T alpha = scalar_as<T>(call.alpha), beta = scalar_as<T>(call.beta);
        const T *a = elements<T>(call.a), *x = elements<T>(call.x);
        T* y = elements<T>(call.y);
        const bool is_transposed = call.a.operation != Operation::none;
        const std::int64_t x_count = is_transposed ? call.rows : call.columns, y_count = is_transposed ? call.columns : call.rows;
        const auto sizes = narrow<7>({call.rows, call.columns, call.a.leading_dimension, call.x.increment, call.y.increment,
                                      x_count * call.x.increment, y_count * call.y.increment});
        if (const SystemBlas* blas = system_blas(); blas != nullptr && sizes) {
            const Cblas<T>& f = blas->functions<T>();
            const auto [rows, columns, leading, x_step, y_step, x_extent, y_extent] = *sizes;
            return f.gemv(column_major, cblas_transpose(call.a.operation), rows, columns, f.scalar(alpha), a, leading, x, x_step,
                          f.scalar(beta), y, y_step);
        }
        plain::gemv<T>(call.a.operation, call.rows, call.columns, alpha, a, call.a.leading_dimension, x, call.x.increment, beta,
                       y, call.y.increment);
    });
}

void run(const BlasGemm& call) {
    if (call.dtype == DType::float16) return run_products<Float16>(call);
    with_type(call.dtype, [&]<class T>(T) { run_products<T>(call); });
}

std::string blas_library() {
    const SystemBlas* blas = system_blas();
    return blas != nullptr ? blas->name : "plain loops of this library (no BLAS was found)";
}

void use_plain_blas(bool is_plain) noexcept {
    is_plain_wanted = is_plain;
}

}  // namespace tandem::host
