#include "kernels/expression.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/elementwise_host.hpp"

// The functions' text is C: what it converts, it means to.
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wunused-function"
#endif

namespace tandem::expression {
namespace {

// The words of the dialect that the kernels of all backends are written in, and macros for three compilers.
// NOLINTBEGIN(readability-identifier-naming,readability-static-definition-in-anonymous-namespace,bugprone-signed-char-misuse)
using b1 = std::uint8_t;
using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using f32 = float;
using f64 = double;
struct c64 {
    f32 x, y;
};
struct c128 {
    f64 x, y;
};

#define TD_FN [[gnu::always_inline]] static inline
#define TD_MATH_f32(name) __builtin_##name##f
#define TD_MATH_f64(name) __builtin_##name
// GCC vectorises products that are added and subtracted in turns as fused operations, whatever -ffp-contract says.
#if defined(__has_builtin) && __has_builtin(__builtin_assoc_barrier)
#define TD_ROUNDED(x) __builtin_assoc_barrier(x)
#else
#define TD_ROUNDED(x) (x)
#endif
#define TD_F32_BITS(x) std::bit_cast<u32>(x)
#define TD_BITS_F32(x) std::bit_cast<f32>(x)
TD_FN u16 td_bits_float16(f32 a) {
    return Float16::from_float(a);
}
TD_FN f32 td_value_float16(u16 bits) {
    return Float16::to_float(bits);
}

// clang-format off
#include "kernels/expression_functions.h"

TD_TYPE_b1 TD_TYPE_i8 TD_TYPE_i16 TD_TYPE_i32 TD_TYPE_i64 TD_TYPE_u8 TD_TYPE_u16 TD_TYPE_u32 TD_TYPE_u64
TD_TYPE_f32 TD_TYPE_f64 TD_TYPE_c64 TD_TYPE_c128
TD_ODD_f64

#define FOR_EACH_INTEGER(X) X(i8) X(i16) X(i32) X(i64) X(u8) X(u16) X(u32) X(u64)
#define FROM_INTEGERS(X, ...) X(__VA_ARGS__, b1) X(__VA_ARGS__, i8) X(__VA_ARGS__, i16) X(__VA_ARGS__, i32) X(__VA_ARGS__, i64) \
    X(__VA_ARGS__, u8) X(__VA_ARGS__, u16) X(__VA_ARGS__, u32) X(__VA_ARGS__, u64)
#define FROM_FLOATS(X, ...) X(__VA_ARGS__, f32) X(__VA_ARGS__, f64)
#define TO_INTEGER(T) FROM_INTEGERS(TD_PLAIN, T) FROM_FLOATS(TD_TO_##T, T)
FOR_EACH_INTEGER(TO_INTEGER)
FROM_INTEGERS(TD_TRUTH, b1) FROM_FLOATS(TD_TRUTH, b1)
FROM_INTEGERS(TD_PLAIN, f32) FROM_FLOATS(TD_PLAIN, f32)
FROM_INTEGERS(TD_PLAIN, f64) FROM_FLOATS(TD_PLAIN, f64)
FROM_INTEGERS(TD_TO_COMPLEX, c64, f32) FROM_FLOATS(TD_TO_COMPLEX, c64, f32)
FROM_INTEGERS(TD_TO_COMPLEX, c128, f64) FROM_FLOATS(TD_TO_COMPLEX, c128, f64)
TD_COMPLEX_TO_COMPLEX(c64, f32, c128)
TD_COMPLEX_TO_COMPLEX(c128, f64, c64)
    // clang-format on

    template <auto function, class R, class A>
    void unary(void* out, const void* a, const void* /*b*/, const void* /*c*/, std::int64_t count) {
    auto* to = static_cast<R*>(out);
    const auto* from = static_cast<const A*>(a);
    TANDEM_INDEPENDENT_ITERATIONS
    for (std::int64_t i = 0; i < count; ++i)
        to[i] = function(from[i]);
}

template <auto function, class R, class A>
void binary(void* out, const void* a, const void* b, const void* /*c*/, std::int64_t count) {
    auto* to = static_cast<R*>(out);
    const auto* left = static_cast<const A*>(a);
    const auto* right = static_cast<const A*>(b);
    TANDEM_INDEPENDENT_ITERATIONS
    for (std::int64_t i = 0; i < count; ++i)
        to[i] = function(left[i], right[i]);
}

template <auto function, class A>
void ternary(void* out, const void* a, const void* b, const void* c, std::int64_t count) {
    auto* to = static_cast<A*>(out);
    const auto* condition = static_cast<const b1*>(a);
    const auto* left = static_cast<const A*>(b);
    const auto* right = static_cast<const A*>(c);
    TANDEM_INDEPENDENT_ITERATIONS
    for (std::int64_t i = 0; i < count; ++i)
        to[i] = function(condition[i], left[i], right[i]);
}

// The loop of a function, by its signature.
template <auto function, class R, class A>
constexpr HostLoop loop_for(R (*)(A)) {
    return &unary<function, R, A>;
}
template <auto function, class R, class A>
constexpr HostLoop loop_for(R (*)(A, A)) {
    return &binary<function, R, A>;
}

// Storage of an element whose value is computed as T.
template <class T, DType dtype>
struct Stored {
    using Bits = T;
    static T value(T bits) { return bits; }
    static T bits(T value) { return value; }
};
template <>
struct Stored<b1, DType::boolean> {
    using Bits = b1;
    static b1 value(b1 bits) { return bits != 0; }
    static b1 bits(b1 value) { return value; }
};
template <>
struct Stored<f32, DType::float16> {
    using Bits = u16;
    static f32 value(u16 bits) { return td_value_float16(bits); }
    static u16 bits(f32 value) { return td_bits_float16(value); }
};
template <>
struct Stored<f32, DType::bfloat16> {
    using Bits = u16;
    static f32 value(u16 bits) { return td_value_bfloat16(bits); }
    static u16 bits(f32 value) { return td_bits_bfloat16(value); }
};

template <class T, DType dtype>
void load(void* out, const std::byte* from, std::int64_t stride_bytes, std::int64_t count) {
    using S = Stored<T, dtype>;
    auto* to = static_cast<T*>(out);
    const auto one = [](const std::byte* address) {
        typename S::Bits bits;
        std::memcpy(&bits, address, sizeof bits);
        return S::value(bits);
    };
    constexpr auto item = static_cast<std::int64_t>(sizeof(typename S::Bits));
    if (stride_bytes == item) {
        TANDEM_INDEPENDENT_ITERATIONS
        for (std::int64_t i = 0; i < count; ++i)
            to[i] = one(from + i * item);
    } else {
        for (std::int64_t i = 0; i < count; ++i)
            to[i] = one(from + i * stride_bytes);
    }
}

template <class T, DType dtype>
void store(std::byte* to, std::int64_t stride_bytes, const void* in, std::int64_t count) {
    using S = Stored<T, dtype>;
    const auto* from = static_cast<const T*>(in);
    const auto one = [](std::byte* address, T value) {
        const typename S::Bits bits = S::bits(value);
        std::memcpy(address, &bits, sizeof bits);
    };
    constexpr auto item = static_cast<std::int64_t>(sizeof(typename S::Bits));
    if (stride_bytes == item) {
        TANDEM_INDEPENDENT_ITERATIONS
        for (std::int64_t i = 0; i < count; ++i)
            one(to + i * item, from[i]);
    } else {
        for (std::int64_t i = 0; i < count; ++i)
            one(to + i * stride_bytes, from[i]);
    }
}

void stream(std::byte* to, const void* in, std::int64_t size_bytes) {
    const auto* from = static_cast<const std::byte*>(in);
#if defined(__SSE2__)
    const auto misalignment = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % 64);
    const std::int64_t head = std::min((64 - misalignment) % 64, size_bytes);
    std::memcpy(to, from, static_cast<std::size_t>(head));
    std::int64_t done = head;
    for (; done + 64 <= size_bytes; done += 64) {
        alignas(64) std::byte line[64];
        std::memcpy(line, from + done, sizeof line);
        stream_line(to + done, line);
    }
    to += done;
    from += done;
    size_bytes -= done;
#endif
    std::memcpy(to, from, static_cast<std::size_t>(size_bytes));
}

void end_streams() {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

// The types that the functions' names end in.
#define FOR_EACH_REAL(X) \
    X(boolean, b1)       \
    X(int8, i8)          \
    X(int16, i16)        \
    X(int32, i32)        \
    X(int64, i64)        \
    X(uint8, u8)         \
    X(uint16, u16)       \
    X(uint32, u32)       \
    X(uint64, u64)       \
    X(float32, f32)      \
    X(float64, f64)
#define FOR_EACH_COMPLEX(X) \
    X(complex64, c64)       \
    X(complex128, c128)

constexpr HostLoops make_loops() {
    HostLoops loops;
    const auto set = [&](StepOp op, DType dtype, HostLoop loop) {
        loops.by_argument[static_cast<std::size_t>(op)][static_cast<std::size_t>(dtype)] = loop;
    };
#define SET(op, dtype, function) set(StepOp::op, DType::dtype, loop_for<&function>(&function));
#define SET_SELECT(dtype, T) set(StepOp::select, DType::dtype, &ternary<&td_where_##T, T>);
#define SET_EQUALITY(dtype, T) SET(equal, dtype, td_eq_##T) SET(not_equal, dtype, td_ne_##T)
#define SET_ORDER(dtype, T)           \
    SET(less, dtype, td_lt_##T)       \
    SET(less_equal, dtype, td_le_##T) \
    SET(greater, dtype, td_gt_##T)    \
    SET(greater_equal, dtype, td_ge_##T) SET(minimum, dtype, td_min_##T) SET(maximum, dtype, td_max_##T)
#define SET_BITS(dtype, T) \
    SET(bit_and, dtype, td_and_##T) SET(bit_or, dtype, td_or_##T) SET(bit_xor, dtype, td_xor_##T) SET(invert, dtype, td_not_##T)
#define SET_ARITHMETIC(dtype, T) \
    SET(add, dtype, td_add_##T)  \
    SET(subtract, dtype, td_sub_##T) SET(multiply, dtype, td_mul_##T) SET(negate, dtype, td_neg_##T) SET(power, dtype, td_pow_##T)
#define SET_DIVISION(dtype, T) \
    SET(floor_divide, dtype, td_floordiv_##T) SET(remainder, dtype, td_mod_##T) SET(absolute, dtype, td_abs_##T)
#define SET_INTEGER(dtype, T) \
    SET_ARITHMETIC(dtype, T)  \
    SET_DIVISION(dtype, T) SET_BITS(dtype, T) SET(shift_left, dtype, td_shl_##T) SET(shift_right, dtype, td_shr_##T)
#define SET_FUNCTIONS(dtype, T)          \
    SET(divide, dtype, td_div_##T)       \
    SET(square_root, dtype, td_sqrt_##T) \
    SET(exponential, dtype, td_exp_##T)  \
    SET(logarithm, dtype, td_log_##T) SET(sine, dtype, td_sin_##T) SET(cosine, dtype, td_cos_##T)
#define SET_FLOAT(dtype, T)                     \
    SET_ARITHMETIC(dtype, T)                    \
    SET_DIVISION(dtype, T)                      \
    SET_FUNCTIONS(dtype, T)                     \
    SET(tangent, dtype, td_tan_##T)             \
    SET(hyperbolic_tangent, dtype, td_tanh_##T) \
    SET(floor, dtype, td_floor_##T)             \
    SET(ceiling, dtype, td_ceil_##T) SET(truncate, dtype, td_trunc_##T) SET(round, dtype, td_round_##T)
#define SET_COMPLEX(dtype, T)        \
    SET_ARITHMETIC(dtype, T)         \
    SET_FUNCTIONS(dtype, T)          \
    SET(absolute, dtype, td_abs_##T) \
    SET(conjugate, dtype, td_conj_##T) SET(real_part, dtype, td_real_##T) SET(imaginary_part, dtype, td_imag_##T)
    // clang-format off
    FOR_EACH_REAL(SET_SELECT) FOR_EACH_COMPLEX(SET_SELECT)
    FOR_EACH_REAL(SET_EQUALITY) FOR_EACH_COMPLEX(SET_EQUALITY)
    FOR_EACH_REAL(SET_ORDER)
    SET(add, boolean, td_add_b1) SET(multiply, boolean, td_mul_b1) SET_BITS(boolean, b1)
    SET_INTEGER(int8, i8) SET_INTEGER(int16, i16) SET_INTEGER(int32, i32) SET_INTEGER(int64, i64)
    SET_INTEGER(uint8, u8) SET_INTEGER(uint16, u16) SET_INTEGER(uint32, u32) SET_INTEGER(uint64, u64)
    SET_FLOAT(float32, f32) SET_FLOAT(float64, f64) SET_COMPLEX(complex64, c64) SET_COMPLEX(complex128, c128)
    SET(round_float16, float32, td_round_float16) SET(round_bfloat16, float32, td_round_bfloat16)
    SET(odd_float32, float64, td_odd_from_f64)

    const auto convert = [&](DType to, DType from, HostLoop loop) {
        loops.conversions[static_cast<std::size_t>(to)][static_cast<std::size_t>(from)] = loop;
    };
#define CONVERT(to, T, from, F) \
    if constexpr (DType::to != DType::from) convert(DType::to, DType::from, loop_for<&td_##T##_from_##F>(&td_##T##_from_##F));
#define FROM_EACH(to, T) \
    CONVERT(to, T, boolean, b1) CONVERT(to, T, int8, i8) CONVERT(to, T, int16, i16) CONVERT(to, T, int32, i32) \
    CONVERT(to, T, int64, i64) CONVERT(to, T, uint8, u8) CONVERT(to, T, uint16, u16) CONVERT(to, T, uint32, u32) \
    CONVERT(to, T, uint64, u64) CONVERT(to, T, float32, f32) CONVERT(to, T, float64, f64)
    FOR_EACH_REAL(FROM_EACH) FOR_EACH_COMPLEX(FROM_EACH)
    CONVERT(complex64, c64, complex128, c128)
    CONVERT(complex128, c128, complex64, c64)

#define MOVE(dtype, T) \
    loops.loads[static_cast<std::size_t>(DType::dtype)] = &load<T, DType::dtype>; \
    loops.stores[static_cast<std::size_t>(DType::dtype)] = &store<T, DType::dtype>;
    FOR_EACH_REAL(MOVE) FOR_EACH_COMPLEX(MOVE) MOVE(float16, f32) MOVE(bfloat16, f32)
        // clang-format on
        // NOLINTEND(readability-identifier-naming,readability-static-definition-in-anonymous-namespace,bugprone-signed-char-misuse)
        loops.stream = &stream;
    loops.end_streams = &end_streams;
    return loops;
}

}  // namespace

#define TANDEM_LOOPS_(level) host_loops_##level
#define TANDEM_LOOPS(level) TANDEM_LOOPS_(level)
extern const HostLoops TANDEM_LOOPS(TANDEM_KERNEL_LEVEL);
const HostLoops TANDEM_LOOPS(TANDEM_KERNEL_LEVEL) = make_loops();

}  // namespace tandem::expression
