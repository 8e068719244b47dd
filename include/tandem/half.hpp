#pragma once
// 16-bit floating point as storage: C++20 has no standard types for them.
//
// The conversions are always inlined, since the host kernels are compiled for several instruction sets and must not share a copy.

#include <bit>
#include <cstdint>

namespace tandem {

/// IEEE 754 binary16. Conversions to float are exact; conversions from float round to nearest, ties to even.
struct Float16 {
    std::uint16_t bits = 0;

    Float16() = default;
    explicit Float16(float value) noexcept : bits(from_float(value)) {}
    static Float16 from_bits(std::uint16_t bits) noexcept {
        Float16 half;
        half.bits = bits;
        return half;
    }
    explicit operator float() const noexcept { return to_float(bits); }

    [[gnu::always_inline]] static float to_float(std::uint16_t bits) noexcept {
        const std::uint32_t sign = (bits & 0x8000U) << 16U;
        const std::uint32_t magnitude = bits & 0x7fffU;
        if (magnitude >= 0x7c00U) {  // infinity and NaN, payload kept
            return std::bit_cast<float>(sign | 0x7f800000U | ((magnitude & 0x03ffU) << 13U));
        }
        // Scaling by 2^112 moves the exponent bias from 15 to 127 and normalises subnormals on the way.
        const float scaled = std::bit_cast<float>(magnitude << 13U) * 0x1p112F;
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
    }

    [[gnu::always_inline]] static std::uint16_t from_float(float value) noexcept {
        const auto word = std::bit_cast<std::uint32_t>(value);
        const auto sign = static_cast<std::uint16_t>((word >> 16U) & 0x8000U);
        std::uint32_t magnitude = word & 0x7fffffffU;
        if (magnitude > 0x7f800000U) {  // NaN: quiet, the payload's upper bits kept
            return static_cast<std::uint16_t>(sign | 0x7e00U | ((magnitude >> 13U) & 0x03ffU));
        }
        if (magnitude >= 0x477ff000U) {  // rounds to 2^16 or more, or is infinite
            return static_cast<std::uint16_t>(sign | 0x7c00U);
        }
        if (magnitude < 0x38800000U) {  // below 2^-14: subnormal, rounded by adding 0.5 in units of 2^-24
            const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
            return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000U));
        }
        magnitude += 0x0fffU + ((magnitude >> 13U) & 1U);  // round to nearest, ties to even
        return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U) >> 13U));
    }
};

/// The upper half of a binary32. Conversions to float are exact; from float they round to nearest, ties to even.
struct BFloat16 {
    std::uint16_t bits = 0;

    BFloat16() = default;
    explicit BFloat16(float value) noexcept : bits(from_float(value)) {}
    static BFloat16 from_bits(std::uint16_t bits) noexcept {
        BFloat16 brain;
        brain.bits = bits;
        return brain;
    }
    explicit operator float() const noexcept { return to_float(bits); }

    [[gnu::always_inline]] static float to_float(std::uint16_t bits) noexcept {
        return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
    }

    [[gnu::always_inline]] static std::uint16_t from_float(float value) noexcept {
        auto word = std::bit_cast<std::uint32_t>(value);
        if ((word & 0x7fffffffU) > 0x7f800000U) {  // NaN: quiet, sign and upper payload kept
            return static_cast<std::uint16_t>((word >> 16U) | 0x0040U);
        }
        word += 0x7fffU + ((word >> 16U) & 1U);
        return static_cast<std::uint16_t>(word >> 16U);
    }
};

}  // namespace tandem
