#pragma once
// Expressions: the operations that typed ones consist of, and the host's loops for them.
//
// What each operation means is written once, in kernels/expression_functions.h, which the host's loops here and the device
// sources of core/expression/source.cpp take in.
//
// Types    values are of any dtype; float16 and bfloat16 are carried as float32 and rounded where they are stored or cast.
// Exact    + - * and everything on integers and bools: the same bits on every backend. Division and square root of float32 on
//          OpenCL: within 2.5 and 3 units in the last place; functions as the device's library has them.
// Complex  quotients within 8, functions within 16 and powers within 64 units of the larger component's, and one whose
//          exponent is no whole number within as many more as twice the logarithm of the type's largest number. Results that fit
//          come right where steps towards them would overflow; infinities and NaNs as in NumPy.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tandem/dtype.hpp"

namespace tandem::expression {

// Columns: enumerator, name in kernels/expression_functions.h. The result is of the arguments' type, but
// comparisons' is bool, and that of `abs`, `real` and `imag` is real.
#define TANDEM_FOR_EACH_BINARY_STEP(X) \
    X(add, "add")                      \
    X(subtract, "sub")                 \
    X(multiply, "mul")                 \
    X(divide, "div")                   \
    X(floor_divide, "floordiv")        \
    X(remainder, "mod")                \
    X(power, "pow")                    \
    X(minimum, "min")                  \
    X(maximum, "max")                  \
    X(bit_and, "and")                  \
    X(bit_or, "or")                    \
    X(bit_xor, "xor")                  \
    X(shift_left, "shl")               \
    X(shift_right, "shr")
#define TANDEM_FOR_EACH_COMPARISON_STEP(X) \
    X(equal, "eq")                         \
    X(not_equal, "ne")                     \
    X(less, "lt")                          \
    X(less_equal, "le")                    \
    X(greater, "gt")                       \
    X(greater_equal, "ge")
#define TANDEM_FOR_EACH_UNARY_STEP(X) \
    X(negate, "neg")                  \
    X(invert, "not")                  \
    X(absolute, "abs")                \
    X(square_root, "sqrt")            \
    X(exponential, "exp")             \
    X(logarithm, "log")               \
    X(sine, "sin")                    \
    X(cosine, "cos")                  \
    X(tangent, "tan")                 \
    X(hyperbolic_tangent, "tanh")     \
    X(floor, "floor")                 \
    X(ceiling, "ceil")                \
    X(truncate, "trunc")              \
    X(round, "round")                 \
    X(conjugate, "conj")              \
    X(real_part, "real")              \
    X(imaginary_part, "imag")

enum class StepOp : std::uint8_t {
#define TANDEM_X(name, text) name,
    TANDEM_FOR_EACH_BINARY_STEP(TANDEM_X) TANDEM_FOR_EACH_COMPARISON_STEP(TANDEM_X) TANDEM_FOR_EACH_UNARY_STEP(TANDEM_X)
#undef TANDEM_X
        select,      ///< of a bool and two values
    convert,         ///< to the step's type
    round_float16,   ///< of a float32: to what float16 can hold
    round_bfloat16,  ///< of a float32: to what bfloat16 can hold
    odd_float32,     ///< of a float64: to float32, rounded to odd
    constant,        ///< a value that the expression's text or the call gives
    load,            ///< an element of an operand
};
inline constexpr int step_op_count = static_cast<int>(StepOp::load) + 1;

/// The part of the functions' names that says the operation; empty for those that have none.
constexpr std::string_view function_name(StepOp op) noexcept {
    switch (op) {
// clang-format off: it takes macros that end in no semicolon for statements
#define TANDEM_X(name, text) \
    case StepOp::name:       \
        return text;
        TANDEM_FOR_EACH_BINARY_STEP(TANDEM_X)
        TANDEM_FOR_EACH_COMPARISON_STEP(TANDEM_X)
        TANDEM_FOR_EACH_UNARY_STEP(TANDEM_X)
#undef TANDEM_X
        // clang-format on
        case StepOp::select:
            return "where";
        default:
            return {};
    }
}

/// The type that values of `dtype` are computed in.
constexpr DType carrier(DType dtype) noexcept {
    return dtype == DType::float16 || dtype == DType::bfloat16 ? DType::float32 : dtype;
}

/// One pass over `count` elements of dense arrays: `out` and up to three arguments, aligned to their types. An array may be `out`
/// itself where its elements are as large.
using HostLoop = void (*)(void* out, const void* a, const void* b, const void* c, std::int64_t count);
/// Elements from memory of any alignment and stride into a dense array of carriers, and back.
using HostLoad = void (*)(void* out, const std::byte* from, std::int64_t stride_bytes, std::int64_t count);
using HostStore = void (*)(std::byte* to, std::int64_t stride_bytes, const void* in, std::int64_t count);
/// A copy past the caches, which saves reading the lines that are about to be overwritten. `HostLoops::end_streams` follows the
/// last one, before others may see what was written.
using HostStream = void (*)(std::byte* to, const void* in, std::int64_t size_bytes);

/// The host's loops for one instruction set. Null where a type lacks an operation.
struct HostLoops {
    std::array<std::array<HostLoop, dtype_count>, step_op_count> by_argument{};  ///< [operation][dtype of its last argument]
    std::array<std::array<HostLoop, dtype_count>, dtype_count> conversions{};    ///< [to][from]
    std::array<HostLoad, dtype_count> loads{};
    std::array<HostStore, dtype_count> stores{};
    HostStream stream = nullptr;
    void (*end_streams)() = nullptr;
};

}  // namespace tandem::expression
