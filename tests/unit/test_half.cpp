#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include <tandem/half.hpp>

using tandem::BFloat16;
using tandem::Float16;

namespace {

// A 16-bit format by its definition, in double, which holds every value and every midpoint of both exactly.
struct Format {
    int fraction_bits;
    int bias;

    [[nodiscard]] int exponent_bits() const { return 15 - fraction_bits; }
    [[nodiscard]] int largest_exponent() const { return (1 << exponent_bits()) - 1; }

    [[nodiscard]] double value(std::uint16_t bits) const {
        const int exponent = (bits >> fraction_bits) & largest_exponent();
        const int fraction = bits & ((1 << fraction_bits) - 1);
        const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
        if (exponent == largest_exponent()) {
            return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
        }
        const int significand = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
        return sign * std::ldexp(significand, std::max(exponent, 1) - bias - fraction_bits);
    }
};

constexpr Format half_format{.fraction_bits = 10, .bias = 15};
constexpr Format brain_format{.fraction_bits = 7, .bias = 127};

bool is_nan(const Format& format, std::uint16_t bits) {
    return std::isnan(format.value(bits));
}

// The two neighbours of each midpoint, the midpoint itself and the value, through `from_float` to the nearest with ties to even.
template <class T>
void check_rounding(const Format& format) {
    const auto infinity = static_cast<std::uint16_t>(format.largest_exponent() << format.fraction_bits);
    int failures = 0;
    for (std::uint16_t bits = 0; bits < infinity; ++bits) {
        const auto above = static_cast<std::uint16_t>(bits + 1);
        // Behind the largest finite value the next would be a power of two, which is infinity's place.
        const double upper =
            above == infinity ? 2 * format.value(bits) - format.value(static_cast<std::uint16_t>(bits - 1)) : format.value(above);
        const double middle = (format.value(bits) + upper) / 2;
        const auto even = (bits & 1U) == 0 ? bits : above;
        const auto middle_float = static_cast<float>(middle);
        // Bfloat16's smallest midpoint is a float too: all comparisons here are exact.
        failures += static_cast<double>(middle_float) != middle ? 1 : 0;
        const float below_middle = std::nextafter(middle_float, 0.0F);
        const float above_middle = std::nextafter(middle_float, std::numeric_limits<float>::infinity());
        for (const float sign : {1.0F, -1.0F}) {
            const std::uint16_t sign_bit = sign < 0 ? 0x8000 : 0;
            failures += T(sign * middle_float).bits != (even | sign_bit) ? 1 : 0;
            failures += T(sign * below_middle).bits != (bits | sign_bit) ? 1 : 0;
            failures += T(sign * above_middle).bits != (above | sign_bit) ? 1 : 0;
        }
    }
    CHECK(failures == 0);
}

template <class T>
void check_all_patterns(const Format& format) {
    int failures = 0;
    for (std::uint32_t pattern = 0; pattern <= 0xffff; ++pattern) {
        const auto bits = static_cast<std::uint16_t>(pattern);
        const auto value = static_cast<float>(T::from_bits(bits));
        if (is_nan(format, bits)) {
            // Still a NaN of the same sign, there and back.
            failures += std::isnan(value) && std::signbit(value) == ((bits & 0x8000) != 0) ? 0 : 1;
            const std::uint16_t back = T(value).bits;
            failures += is_nan(format, back) && (back & 0x8000) == (bits & 0x8000) ? 0 : 1;
            continue;
        }
        failures += static_cast<double>(value) == format.value(bits) ? 0 : 1;
        failures += std::signbit(value) == ((bits & 0x8000) != 0) ? 0 : 1;
        failures += T(value).bits == bits ? 0 : 1;
    }
    CHECK(failures == 0);
}

}  // namespace

TEST_CASE("half: all 65536 patterns of Float16 are exact, there and back") {
    check_all_patterns<Float16>(half_format);
}

TEST_CASE("half: all 65536 patterns of BFloat16 are exact, there and back") {
    check_all_patterns<BFloat16>(brain_format);
}

TEST_CASE("half: Float16 rounds to nearest, ties to even, at every midpoint") {
    check_rounding<Float16>(half_format);
}

TEST_CASE("half: BFloat16 rounds to nearest, ties to even, at every midpoint") {
    check_rounding<BFloat16>(brain_format);
}

TEST_CASE("half: NaN payloads never become infinity") {
    for (std::uint32_t payload = 1; payload < 0x800000U; payload = payload * 2 + 1) {
        for (const std::uint32_t sign : {0U, 0x80000000U}) {
            const auto nan = std::bit_cast<float>(sign | 0x7f800000U | payload);
            CHECK(is_nan(half_format, Float16(nan).bits));
            CHECK(is_nan(brain_format, BFloat16(nan).bits));
        }
    }
}

TEST_CASE("half: extremes") {
    CHECK(Float16(65504.0F).bits == 0x7bff);
    CHECK(Float16(65519.996F).bits == 0x7bff);
    CHECK(Float16(65520.0F).bits == 0x7c00);
    CHECK(Float16(std::numeric_limits<float>::max()).bits == 0x7c00);
    CHECK(Float16(-std::numeric_limits<float>::infinity()).bits == 0xfc00);
    CHECK(Float16(0x1p-24F).bits == 0x0001);
    CHECK(Float16(0x1p-25F).bits == 0x0000);
    CHECK(Float16(std::nextafter(0x1p-25F, 1.0F)).bits == 0x0001);
    CHECK(Float16(-0.0F).bits == 0x8000);
    CHECK(Float16(std::numeric_limits<float>::denorm_min()).bits == 0x0000);
    CHECK(BFloat16(std::numeric_limits<float>::max()).bits == 0x7f80);
    CHECK(BFloat16(1.0F).bits == 0x3f80);
    CHECK(BFloat16(-0.0F).bits == 0x8000);
    CHECK(BFloat16(std::numeric_limits<float>::denorm_min()).bits == 0x0000);
}

TEST_CASE("half: sums and products through float are those of exact arithmetic, rounded once") {
    // Float has more than twice the digits of either format, plus two: rounding twice changes nothing.
    std::mt19937 random(1);
    int failures = 0;
    for (int i = 0; i < 200000; ++i) {
        const auto left = static_cast<std::uint16_t>(random());
        const auto right = static_cast<std::uint16_t>(random());
        const double a = half_format.value(left);
        const double b = half_format.value(right);
        if (!std::isfinite(a) || !std::isfinite(b)) {
            continue;
        }
        const auto float_a = static_cast<float>(Float16::from_bits(left));
        const auto float_b = static_cast<float>(Float16::from_bits(right));
        // Doubles hold the exact sum and product; the nearest Float16 is one of the two patterns beside them.
        for (const auto& [exact, computed] :
             {std::pair(a + b, Float16(float_a + float_b)), std::pair(a * b, Float16(float_a * float_b))}) {
            const double value = half_format.value(computed.bits);
            if (std::abs(exact) >= 65520) {
                failures += std::isinf(value) ? 0 : 1;
                continue;
            }
            const double error = std::abs(value - exact);
            for (const int step : {-1, 1}) {
                const auto neighbour = static_cast<std::uint16_t>(computed.bits + step);
                const double other = half_format.value(neighbour);
                const bool nearer = std::isfinite(other) && std::abs(other - exact) < error;
                const bool tie_to_odd = std::abs(other - exact) == error && (computed.bits & 1U) != 0 && other != value;
                failures += nearer || tie_to_odd ? 1 : 0;
            }
        }
    }
    CHECK(failures == 0);
}
