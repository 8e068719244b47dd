#include "core/expression/types.hpp"

#include <algorithm>
#include <utility>

namespace tandem::expression {
namespace {

// The floating type that holds every value of an integer type of that size.
DType floating_for_integer(std::size_t bytes) noexcept {
    return bytes <= 1 ? DType::float16 : bytes == 2 ? DType::float32 : DType::float64;
}

DType signed_integer(std::size_t bytes) noexcept {
    return bytes == 1 ? DType::int8 : bytes == 2 ? DType::int16 : bytes == 4 ? DType::int32 : DType::int64;
}

DType larger(DType left, DType right) noexcept {
    return size_bytes(left) >= size_bytes(right) ? left : right;
}

DType promote_floating(DType left, DType right) noexcept {
    if (left == right) return left;
    if (size_bytes(left) == 2 && size_bytes(right) == 2) return DType::float32;
    return larger(left, right);
}

DType promote_integers(DType left, DType right) noexcept {
    if (category(left) == category(right)) return larger(left, right);
    const DType with_sign = category(left) == Category::signed_integer ? left : right;
    const DType without = with_sign == left ? right : left;
    if (size_bytes(with_sign) > size_bytes(without)) return with_sign;
    return size_bytes(without) == 8 ? DType::float64 : signed_integer(2 * size_bytes(without));
}

DType complex_of(DType floating) noexcept {
    return floating == DType::float64 ? DType::complex128 : DType::complex64;
}

}  // namespace

Category category(DType dtype) noexcept {
    switch (dtype) {
        case DType::boolean:
            return Category::boolean;
        case DType::int8:
        case DType::int16:
        case DType::int32:
        case DType::int64:
            return Category::signed_integer;
        case DType::uint8:
        case DType::uint16:
        case DType::uint32:
        case DType::uint64:
            return Category::unsigned_integer;
        case DType::complex64:
        case DType::complex128:
            return Category::complex;
        default:
            return Category::real;
    }
}

bool is_integer(DType dtype) noexcept {
    return category(dtype) == Category::signed_integer || category(dtype) == Category::unsigned_integer;
}

bool is_complex(DType dtype) noexcept {
    return category(dtype) == Category::complex;
}

bool is_floating(DType dtype) noexcept {
    return category(dtype) == Category::real;
}

DType component_type(DType dtype) noexcept {
    return dtype == DType::complex64 ? DType::float32 : dtype == DType::complex128 ? DType::float64 : dtype;
}

DType floating_type(DType dtype) noexcept {
    return dtype == DType::boolean || is_integer(dtype) ? floating_for_integer(size_bytes(dtype)) : dtype;
}

DType promote(DType left, DType right) noexcept {
    if (left == right || right == DType::boolean) return left;
    if (left == DType::boolean) return right;
    if (is_integer(left) && is_integer(right)) return promote_integers(left, right);
    const DType floating = promote_floating(component_type(floating_type(left)), component_type(floating_type(right)));
    // An integer of one byte fits into bfloat16's eight digits as well as into float16's eleven.
    for (const auto& [narrow, other] : {std::pair{left, right}, std::pair{right, left}}) {
        if (other == DType::bfloat16 && is_integer(narrow) && size_bytes(narrow) == 1) return other;
    }
    return is_complex(left) || is_complex(right) ? complex_of(floating) : floating;
}

ValueType promote(ValueType left, ValueType right) noexcept {
    if (left.is_weak == right.is_weak) {
        if (!left.is_weak) return {promote(left.dtype, right.dtype), false};
        // Weak numbers have one size; an int64 beside a uint64 stays an integer.
        const Category kind = std::max(category(left.dtype), category(right.dtype));
        if (kind >= Category::real) return {kind == Category::real ? DType::float64 : DType::complex128, true};
        return {left.dtype == right.dtype ? left.dtype : DType::uint64, true};
    }
    const ValueType weak = left.is_weak ? left : right;
    const DType other = left.is_weak ? right.dtype : left.dtype;
    if (is_integer(weak.dtype)) return {other == DType::boolean ? DType::int64 : other, false};
    if (is_floating(weak.dtype)) return {is_floating(other) || is_complex(other) ? other : DType::float64, false};
    if (is_complex(other)) return {other, false};
    return {is_floating(other) ? complex_of(other) : DType::complex128, false};
}

bool is_same_kind(DType from, DType to) noexcept {
    return from == DType::boolean || category(from) <= category(to);
}

}  // namespace tandem::expression
