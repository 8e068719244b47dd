#pragma once
// Element types: the list, their names and sizes, and the C++ types that stand for them.

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include <tandem/half.hpp>

namespace tandem {

// The one list of element types; everything that needs "each type" expands it.
// Columns: enumerator, C++ type, NumPy's type code without the byte order ("" where NumPy has none).
#define TANDEM_FOR_EACH_DTYPE(X)            \
    X(boolean, bool, "b1")                  \
    X(int8, std::int8_t, "i1")              \
    X(int16, std::int16_t, "i2")            \
    X(int32, std::int32_t, "i4")            \
    X(int64, std::int64_t, "i8")            \
    X(uint8, std::uint8_t, "u1")            \
    X(uint16, std::uint16_t, "u2")          \
    X(uint32, std::uint32_t, "u4")          \
    X(uint64, std::uint64_t, "u8")          \
    X(float16, ::tandem::Float16, "f2")     \
    X(bfloat16, ::tandem::BFloat16, "")     \
    X(float32, float, "f4")                 \
    X(float64, double, "f8")                \
    X(complex64, std::complex<float>, "c8") \
    X(complex128, std::complex<double>, "c16")

enum class DType : std::uint8_t {
#define TANDEM_X(name, type, code) name,
    TANDEM_FOR_EACH_DTYPE(TANDEM_X)
#undef TANDEM_X
};

// `td::float32` reads better at a call than `td::DType::float32`.
#define TANDEM_X(name, type, code) inline constexpr DType name = DType::name;
TANDEM_FOR_EACH_DTYPE(TANDEM_X)
#undef TANDEM_X

inline constexpr int dtype_count = 0
#define TANDEM_X(name, type, code) +1
    TANDEM_FOR_EACH_DTYPE(TANDEM_X)
#undef TANDEM_X
    ;

/// Bytes of one element.
constexpr std::size_t size_bytes(DType dtype) noexcept {
    switch (dtype) {
#define TANDEM_X(name, type, code) \
    case DType::name:              \
        return sizeof(type);
        TANDEM_FOR_EACH_DTYPE(TANDEM_X)
#undef TANDEM_X
    }
    return 0;
}

/// Bytes of the unit that a byte swap works on: a complex number is two of them.
constexpr std::size_t component_bytes(DType dtype) noexcept {
    const bool is_complex = dtype == DType::complex64 || dtype == DType::complex128;
    return is_complex ? size_bytes(dtype) / 2 : size_bytes(dtype);
}

/// The library's name for `dtype`, which is NumPy's: "bool", "int8" ... "bfloat16" ... "complex128".
std::string_view to_string(DType dtype) noexcept;

/// NumPy's code for `dtype` with the byte order of this machine, as a `.npy` header has it: "<f4", "|b1".
/// bfloat16, which NumPy lacks, is written as "<V2", as its other writers do.
std::string_view numpy_code(DType dtype) noexcept;

/// The dtype that `text` names: the library's name ("float32"), a short one ("f32", "bf16", "c64"), or NumPy's
/// code ("f4", also "=f4", "|u1" and with this machine's order "<f4"); empty for anything else. Where the two kinds of code
/// overlap, NumPy's counts: "i8" and "u8" are 8 bytes, "c16" is complex128.
std::optional<DType> parse_dtype(std::string_view text) noexcept;

namespace detail {
template <class T>
struct DTypeOf;
#define TANDEM_X(name, type, code)                  \
    template <>                                     \
    struct DTypeOf<type> {                          \
        static constexpr DType value = DType::name; \
    };
TANDEM_FOR_EACH_DTYPE(TANDEM_X)
#undef TANDEM_X
// The 64-bit integers that <cstdint> did not choose: `long long` where std::int64_t is `long`.
template <class T>
concept OtherInt64 = std::is_same_v<T, long long> && !std::is_same_v<T, std::int64_t>;
template <class T>
concept OtherUint64 = std::is_same_v<T, unsigned long long> && !std::is_same_v<T, std::uint64_t>;
template <OtherInt64 T>
struct DTypeOf<T> : DTypeOf<std::int64_t> {};
template <OtherUint64 T>
struct DTypeOf<T> : DTypeOf<std::uint64_t> {};
}  // namespace detail

/// The dtype of a C++ type: `dtype_of<float> == float32`.
template <class T>
inline constexpr DType dtype_of = detail::DTypeOf<T>::value;

}  // namespace tandem
