#pragma once
// The types that expressions compute in: NumPy's promotion rules, with bfloat16 among them.

#include "tandem/dtype.hpp"

namespace tandem::expression {

/// What NumPy calls a dtype's kind, in the order in which one casts to the next.
enum class Category : std::uint8_t { boolean, unsigned_integer, signed_integer, real, complex };
Category category(DType dtype) noexcept;
bool is_integer(DType dtype) noexcept;  ///< bool not included
bool is_complex(DType dtype) noexcept;
bool is_floating(DType dtype) noexcept;  ///< real, of any size

/// The type of a value. Weak ones are numbers without a size of their own, literals and C++ scalars, as Python's are to NumPy: an
/// int64 (uint64 where it is larger), float64 or complex128 that takes the size of what it meets.
struct ValueType {
    DType dtype = DType::float64;
    bool is_weak = false;

    friend bool operator==(ValueType, ValueType) noexcept = default;
};

/// The smallest type that holds the values of both, as numpy.promote_types has it: "safe" in its sense, so int64 and uint64 give
/// float64. bfloat16 takes part as float16 does, and both together give float32.
DType promote(DType left, DType right) noexcept;

/// The same where one or both may be weak, by NumPy's NEP 50: a weak number takes the other's type, or the smallest type of its
/// own kind and the other's size where the other's kind is below its own. Two weak ones give a weak one.
ValueType promote(ValueType left, ValueType right) noexcept;

/// What functions like sqrt compute in: floating-point types as they are, integers and bool in the smallest that holds them.
DType floating_type(DType dtype) noexcept;

/// The type of a complex one's components; others as they are.
DType component_type(DType dtype) noexcept;

/// Whether numpy.can_cast(from, to, "same_kind"): to the same kind in any size, or to a kind further up; never from signed to
/// unsigned.
bool is_same_kind(DType from, DType to) noexcept;

}  // namespace tandem::expression
