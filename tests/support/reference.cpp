#include "reference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>

namespace tandem::test {
namespace {

__extension__ using Quad = __float128;

enum class Class : std::uint8_t { boolean, integer, real };

struct Format {
    Class kind;
    std::size_t component_bytes;
    int digits;  // of the significand, the hidden one included
    int exponent_bits;
};

Format format_of(DType dtype) {
    switch (dtype) {
        case DType::boolean:
            return {Class::boolean, 1, 0, 0};
        case DType::float16:
            return {Class::real, 2, 11, 5};
        case DType::bfloat16:
            return {Class::real, 2, 8, 8};
        case DType::float32:
        case DType::complex64:
            return {Class::real, 4, 24, 8};
        case DType::float64:
        case DType::complex128:
            return {Class::real, 8, 53, 11};
        default:
            return {Class::integer, size_bytes(dtype), 0, 0};
    }
}

std::uint64_t load(const std::byte* from, std::size_t bytes) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, from, bytes);
    return bits;
}

void store(std::byte* to, std::uint64_t bits, std::size_t bytes) {
    std::memcpy(to, &bits, bytes);
}

struct Fields {
    bool negative;
    std::uint64_t exponent, fraction;
};

Fields split(const Format& format, std::uint64_t bits) {
    const int fraction_bits = format.digits - 1;
    return {((bits >> (fraction_bits + format.exponent_bits)) & 1U) != 0,
            (bits >> fraction_bits) & ((1ULL << format.exponent_bits) - 1), bits & ((1ULL << fraction_bits) - 1)};
}

bool is_nan(const Format& format, std::uint64_t bits) {
    const Fields fields = split(format, bits);
    return fields.exponent == (1ULL << format.exponent_bits) - 1 && fields.fraction != 0;
}

std::uint64_t infinity(const Format& format) {
    return ((1ULL << format.exponent_bits) - 1) << (format.digits - 1);
}

// Exact: long double has 15 bits of exponent.
Quad power_of_two(int exponent) {
    return static_cast<Quad>(std::ldexp(1.0L, exponent));
}

// Exact: the value of finite bits.
Quad decode(const Format& format, std::uint64_t bits) {
    const Fields fields = split(format, bits);
    const int bias = (1 << (format.exponent_bits - 1)) - 1;
    const bool subnormal = fields.exponent == 0;
    const std::uint64_t significand = fields.fraction | (subnormal ? 0 : 1ULL << (format.digits - 1));
    const int exponent = (subnormal ? 1 : static_cast<int>(fields.exponent)) - bias - (format.digits - 1);
    const Quad value = static_cast<Quad>(significand) * power_of_two(exponent);
    return fields.negative ? -value : value;
}

// Rounds to nearest, ties to even. `value` is finite and not zero.
std::uint64_t encode(const Format& format, Quad value) {
    const std::uint64_t sign = value < 0 ? 1ULL << (format.digits - 1 + format.exponent_bits) : 0;
    if (value < 0) value = -value;
    const int bias = (1 << (format.exponent_bits - 1)) - 1;
    const int smallest = 1 - bias;  // the least exponent of a normal number
    int exponent = std::max(std::ilogb(static_cast<long double>(value)), smallest);
    if (value < power_of_two(exponent) && exponent > smallest) --exponent;  // the conversion had rounded up
    const Quad unit = power_of_two(exponent - (format.digits - 1));
    const Quad quotient = value / unit;
    auto significand = static_cast<std::uint64_t>(quotient);
    const Quad rest = quotient - static_cast<Quad>(significand);
    if (rest > Quad(0.5) || (rest == Quad(0.5) && (significand & 1U) != 0)) ++significand;
    if (significand == 1ULL << format.digits) {
        significand >>= 1U;
        ++exponent;
    }
    if (exponent > bias) return sign | infinity(format);
    const std::uint64_t hidden = 1ULL << (format.digits - 1);
    if (significand < hidden) return sign | significand;  // subnormal, or zero
    return sign | (static_cast<std::uint64_t>(exponent + bias) << (format.digits - 1)) | (significand - hidden);
}

std::uint64_t add_reals(const Format& format, std::uint64_t left, std::uint64_t right) {
    const std::uint64_t inf = infinity(format);
    const std::uint64_t sign = 1ULL << (format.digits - 1 + format.exponent_bits);
    const std::uint64_t nan = inf | (1ULL << (format.digits - 2));
    if (is_nan(format, left) || is_nan(format, right)) return nan;
    const bool left_infinite = (left & ~sign) == inf;
    const bool right_infinite = (right & ~sign) == inf;
    if (left_infinite || right_infinite) {
        if (left_infinite && right_infinite && left != right) return nan;
        return left_infinite ? left : right;
    }
    const Quad sum = decode(format, left) + decode(format, right);  // 113 digits: exact enough that one rounding is the true one
    if (sum == 0) return (left & right & sign);                     // -0 from two -0 alone
    return encode(format, sum);
}

std::uint64_t add(const Format& format, std::uint64_t left, std::uint64_t right) {
    switch (format.kind) {
        case Class::boolean:
            return left != 0 || right != 0 ? 1 : 0;
        case Class::integer:
            return left + right;
        case Class::real:
            return add_reals(format, left, right);
    }
    return 0;
}

}  // namespace

Bytes reference(Op op, DType dtype, std::span<const std::byte> left, std::span<const std::byte> right) {
    const Format format = format_of(dtype);
    const std::size_t step = format.component_bytes;
    Bytes out(left.size());
    for (std::size_t i = 0; i < left.size(); i += step) {
        const std::uint64_t a = load(&left[i], step);
        switch (op) {
            case Op::add:
                store(&out[i], add(format, a, load(&right[i], step)), step);
                break;
            case Op::twice:
                store(&out[i], add(format, a, a), step);
                break;
            case Op::copy:
                store(&out[i], format.kind == Class::boolean ? (a != 0 ? 1 : 0) : a, step);
                break;
            case Op::byteswap:
                if (format.kind == Class::boolean) {
                    store(&out[i], a != 0 ? 1 : 0, step);
                } else {
                    std::reverse_copy(&left[i], &left[i] + step, &out[i]);
                }
                break;
        }
    }
    return out;
}

Bytes make_elements(DType dtype, std::size_t count, std::uint64_t seed) {
    const Format format = format_of(dtype);
    const std::size_t step = format.component_bytes;
    Bytes elements(count * size_bytes(dtype));
    std::mt19937_64 random(seed * 1000003 + static_cast<std::uint64_t>(dtype));
    std::vector<std::uint64_t> special{0, 1, ~0ULL, 1ULL << (8 * step - 1), (1ULL << (8 * step - 1)) - 1};
    if (format.kind == Class::real) {
        const std::uint64_t inf = infinity(format);
        const std::uint64_t sign = 1ULL << (8 * step - 1);
        const std::uint64_t smallest_normal = 1ULL << (format.digits - 1);
        const std::uint64_t nan = inf | (1ULL << (format.digits - 2));
        special = {0, sign, 1, sign | 1, smallest_normal - 1, smallest_normal, inf - 1, sign | (inf - 1), inf, sign | inf, nan};
    }
    for (std::size_t i = 0; i < elements.size(); i += step) {
        std::uint64_t bits = random();
        const std::uint64_t choice = random();
        if (choice % 16 == 0) {
            bits = special[(choice >> 8U) % special.size()];
        } else if (format.kind == Class::boolean) {
            bits = (choice >> 8U) % 3;  // 2 is a true that is not 1
        } else if (format.kind == Class::real && choice % 4 != 1) {
            // Random exponents rarely meet: most sums would be the larger operand. Keep these near one another.
            const int bias = (1 << (format.exponent_bits - 1)) - 1;
            const std::uint64_t exponent = static_cast<std::uint64_t>(bias) - 4 + (choice >> 8U) % 8;
            bits = (bits & ~(((1ULL << format.exponent_bits) - 1) << (format.digits - 1))) | (exponent << (format.digits - 1));
        }
        store(&elements[i], bits, step);
    }
    return elements;
}

std::int64_t first_difference(DType dtype, std::span<const std::byte> actual, std::span<const std::byte> expected) {
    if (actual.size() != expected.size()) return 0;
    if (std::equal(actual.begin(), actual.end(), expected.begin())) return -1;
    const Format format = format_of(dtype);
    const std::size_t step = format.component_bytes;
    for (std::size_t i = 0; i < actual.size(); i += step) {
        const std::uint64_t a = load(&actual[i], step);
        const std::uint64_t b = load(&expected[i], step);
        if (a == b) continue;
        if (format.kind == Class::real && is_nan(format, a) && is_nan(format, b)) continue;
        return static_cast<std::int64_t>(i / size_bytes(dtype));
    }
    return -1;
}

}  // namespace tandem::test
