#pragma once
// Elementwise expressions: what a line of text says, as one kernel.

#include <array>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string_view>
#include <type_traits>

#include <tandem/array.hpp>
#include <tandem/dtype.hpp>
#include <tandem/queue.hpp>

namespace tandem {

/// A number for an expression.
///
/// From a C++ integer, floating-point number or std::complex it is weak, as Python's numbers are to NumPy (NEP 50): it takes the
/// type of what it meets, so `2.0 * x` has x's type where that is floating. From bool, Float16 or BFloat16, or with a dtype, it
/// has that type, whatever it meets.
class Scalar {
public:
    Scalar(bool value) noexcept : dtype_(boolean) { set(static_cast<std::uint8_t>(value)); }
    template <std::integral T>
    Scalar(T value) noexcept : dtype_(std::is_signed_v<T> || sizeof(T) < 8 ? int64 : uint64), is_weak_(true) {
        set(static_cast<std::uint64_t>(value));
    }
    template <std::floating_point T>
    Scalar(T value) noexcept : dtype_(float64), is_weak_(true) {
        set(static_cast<double>(value));
    }
    template <std::floating_point T>
    Scalar(std::complex<T> value) noexcept : dtype_(complex128), is_weak_(true) {
        set(std::complex<double>(value));
    }
    Scalar(Float16 value) noexcept : dtype_(float16) { set(value.bits); }
    Scalar(BFloat16 value) noexcept : dtype_(bfloat16) { set(value.bits); }

    /// The number as exactly `dtype`. Throws invalid_argument where an integer does not fit it, and for a complex number where
    /// `dtype` is real.
    Scalar(Scalar value, DType dtype);

    [[nodiscard]] DType dtype() const noexcept { return dtype_; }
    [[nodiscard]] bool is_weak() const noexcept { return is_weak_; }
    /// The bytes of an element of `dtype`; those behind it are 0.
    [[nodiscard]] const std::array<std::byte, 16>& bytes() const noexcept { return bytes_; }

private:
    template <class T>
    void set(T value) noexcept {
        std::memcpy(bytes_.data(), &value, sizeof value);
    }

    DType dtype_;
    bool is_weak_ = false;
    std::array<std::byte, 16> bytes_{};
};

/// A name in an expression, and what it stands for. Refers to the array, so it is for use within the call that it is written in.
struct NamedOperand {
    NamedOperand(std::string_view its_name, const Array& its_array) noexcept : name(its_name), array(&its_array) {}
    template <class T>
    requires std::constructible_from<Scalar, T> NamedOperand(std::string_view its_name, T its_value)
    noexcept : name(its_name), scalar(its_value) {}

    std::string_view name;
    const Array* array = nullptr;
    Scalar scalar{false};  ///< where there is no array
};

/// Computes what `expression` says for every element, in one kernel: `elementwise(queue, "out = a * x + y", {{"out", out},
/// {"a", 2.0}, {"x", x}, {"y", y}})`. Queues the work and returns.
///
/// Text     statements "name = value", separated by ';', done in order; a name that is no operand is one for later statements. At
///          most 8192 bytes, 1024 operations, 10 arrays and 16 different numbers.
///          Operators, from loosest to tightest, as Python has them:  c ? a : b   ||   &&   < <= > >= == !=   |   ^   &   << >>
///          + -   * / // %   unary - + ~ !   **.  Functions: abs sqrt exp log sin cos tan tanh floor ceil trunc round real imag
///          conj min max pow floor_divide where(c, a, b), and casts by a dtype's name, short or long: f32(x), int64(x); i8 is one
///          byte. Numbers: 12, 0xff, 1.5e-3, 2j; true, false.
/// Types    any mix of dtypes. Results have the types that NumPy's promotion gives (numpy.result_type; NEP 50 for weak numbers,
///          which literals are too, and what is made of them alone): `/` of integers is float64, `//` rounds down, abs of complex
///          is real; sqrt and the like of integers of 8, 16 and more bits compute in float16, float32 and float64. bfloat16 takes
///          part as float16 does; both together give float32. Weak integers must fit the integer type that they take.
///          Assigning casts as NumPy's "same_kind": to any size of the value's kind, and from bool to integer to real to complex,
///          but not back, nor from signed to unsigned: write the cast.
/// Values   integers wrap; division by an integer 0 gives 0; a negative power of an integer is cut to a whole number; shifts by
/// the
///          width and more move everything out. float16 and bfloat16 are computed in float32 and rounded where they are stored or
///          cast, once for the whole expression. min and max give NaN where either is. Casts from floating point to integers drop
///          the fraction, take what is out of range to the nearest there is, and NaN to 0. round goes to even. + - * are not
///          contracted. Functions are as exact as the device's own library.
/// Shapes   all outputs have one shape, and inputs broadcast to it as in NumPy. Any strides and offsets. An input may be an
/// output,
///          element for element; an output that overlaps an operand in any other way is refused, as is one in which a byte
///          belongs to two elements. Zero elements do nothing.
///
/// Compiled at its first use for these dtypes on this device, which takes as long as the device's compiler; then taken from
/// memory, and by later processes from the disk. Throws invalid_argument naming the column where the text can't be understood or
/// types don't fit, or the operand whose name, shape or place does not; unsupported where something is float64 on a device
/// without it; unavailable where the device's compiler can't be opened. Native calls: cuLaunchKernel; clEnqueueNDRangeKernel.
void elementwise(Queue& queue, std::string_view expression, std::span<const NamedOperand> operands);
void elementwise(Queue& queue, std::string_view expression, std::initializer_list<NamedOperand> operands);

}  // namespace tandem
