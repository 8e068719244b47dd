#pragma once
// Expressions with what NumPy makes of them: the cases of tests/data/make_expressions.py.

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <tandem/tandem.hpp>

namespace tandem::test {

inline std::vector<std::byte> bytes_of_hex(const std::string& text) {
    const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    std::vector<std::byte> bytes(text.size() / 2);
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>(16 * digit(text[2 * i]) + digit(text[2 * i + 1]));
    return bytes;
}

/// A real number of any floating dtype, exactly.
inline double real_at(DType dtype, const std::byte* at) {
    const auto get = [&](auto value) {
        std::memcpy(&value, at, sizeof value);
        return value;
    };
    switch (dtype) {
        case DType::float16:
            return static_cast<double>(static_cast<float>(get(Float16())));
        case DType::bfloat16:
            return static_cast<double>(static_cast<float>(get(BFloat16())));
        case DType::float32:
            return static_cast<double>(get(float{}));
        default:
            return get(double{});
    }
}

/// One unit in the last place of `dtype` at `value`.
inline double ulp_at(DType dtype, double value) {
    const int digits = dtype == float16 ? 11 : dtype == bfloat16 ? 8 : dtype == float32 ? 24 : 53;
    const int lowest = dtype == float16 ? -14 : dtype == bfloat16 || dtype == float32 ? -126 : -1022;
    if (!std::isfinite(value)) return 0;
    const int exponent = value == 0 ? lowest : std::max(std::ilogb(value), lowest);
    return std::ldexp(1.0, exponent - digits + 1);
}

/// Whether two real numbers differ by no more than `ulps` at `scale`. NaNs are equal; signs of zero count where nothing else may
/// differ.
inline bool is_near(DType dtype, double actual, double expected, double scale, double ulps) {
    if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
    if (actual == expected) return ulps != 0 || std::signbit(actual) == std::signbit(expected) || scale != expected;
    if (std::isinf(expected)) return false;
    if (std::isinf(actual)) {
        // Right where the tolerance leads past the largest number. Halves, since that is past a double's.
        const int top = dtype == float16 ? 16 : dtype == float64 || dtype == complex128 ? 1024 : 128;
        return std::signbit(actual) == std::signbit(expected) &&
               std::abs(scale) / 2 + ulps * ulp_at(dtype, scale) / 2 >= std::ldexp(1.0, top - 1);
    }
    return std::abs(actual - expected) <= ulps * ulp_at(dtype, scale);
}

/// The index of the first element that differs by more, or -1.
inline std::int64_t first_beyond(DType dtype, const std::vector<std::byte>& actual, const std::vector<std::byte>& expected,
                                 double ulps) {
    const std::size_t item = size_bytes(dtype);
    for (std::size_t at = 0; at < expected.size(); at += item) {
        bool is_right = false;
        if (dtype == complex64 || dtype == complex128) {
            const DType part = dtype == complex64 ? float32 : float64;
            const double x = real_at(part, &expected[at]), y = real_at(part, &expected[at + item / 2]);
            // An infinite component says nothing of the other.
            const double width = std::isinf(x) ? 0 : std::abs(x), height = std::isinf(y) ? 0 : std::abs(y);
            const double scale = std::max(width, height);
            is_right = is_near(part, real_at(part, &actual[at]), x, scale, ulps) &&
                       is_near(part, real_at(part, &actual[at + item / 2]), y, scale, ulps);
        } else if (dtype == float16 || dtype == bfloat16 || dtype == float32 || dtype == float64) {
            const double x = real_at(dtype, &expected[at]);
            is_right = is_near(dtype, real_at(dtype, &actual[at]), x, x, ulps);
        } else {
            is_right = std::memcmp(&actual[at], &expected[at], item) == 0;
        }
        if (!is_right) return static_cast<std::int64_t>(at / item);
    }
    return -1;
}

inline std::string hex_at(const std::vector<std::byte>& bytes, std::int64_t index, std::size_t item) {
    std::string text;
    for (std::size_t i = 0; i < item; ++i) {
        constexpr const char* digits = "0123456789abcdef";
        const auto byte = std::to_integer<unsigned>(bytes[static_cast<std::size_t>(index) * item + i]);
        text += digits[byte >> 4U];
        text += digits[byte & 15U];
    }
    return text;
}

/// Runs one case. `make(dtype, shape)` gives an array.
template <class Make>
void run_case(Queue& queue, const nlohmann::json& one, Make&& make) {
    std::vector<std::string> names;
    std::vector<Array> arrays;
    const auto is_supported = [&](const std::string& dtype) {
        return queue.device().info().has_float64 || (dtype != "float64" && dtype != "complex128");
    };
    const auto add_operand = [&](const nlohmann::json& operand, bool is_input) {
        const DType dtype = *parse_dtype(operand["dtype"].get<std::string>());
        const std::vector<std::byte> bytes = bytes_of_hex(operand["hex"]);
        names.push_back(operand["name"]);
        arrays.push_back(make(dtype, Shape{static_cast<std::int64_t>(bytes.size() / size_bytes(dtype))}));
        if (is_input)
            copy(queue, std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()),
                 arrays.back().view_as(uint8));
        queue.synchronize();  // the bytes go
    };
    for (const auto& operand : one["outputs"]) {
        if (!is_supported(operand["dtype"])) return;
        add_operand(operand, false);
    }
    for (const auto& operand : one["inputs"]) {
        if (!is_supported(operand["dtype"])) return;
        add_operand(operand, true);
    }
    std::vector<NamedOperand> operands;
    for (std::size_t i = 0; i < arrays.size(); ++i)
        operands.emplace_back(names[i], arrays[i]);
    const std::string text = one["text"];
    std::string types;
    for (const auto& operand : one["inputs"])
        types += operand["dtype"].get<std::string>() + " ";
    CAPTURE(text);
    CAPTURE(types);
    elementwise(queue, text, operands);
    for (std::size_t i = 0; i < one["outputs"].size(); ++i) {
        const auto& operand = one["outputs"][i];
        const std::vector<std::byte> expected = bytes_of_hex(operand["hex"]);
        std::vector<std::byte> actual(expected.size());
        copy(queue, arrays[i].view_as(uint8), std::span(reinterpret_cast<std::uint8_t*>(actual.data()), actual.size()));
        queue.synchronize();
        const DType dtype = arrays[i].dtype();
        const std::int64_t wrong = first_beyond(dtype, actual, expected, operand["ulps"].get<double>());
        if (wrong < 0) continue;
        std::string inputs;
        for (const auto& input : one["inputs"])
            inputs +=
                hex_at(bytes_of_hex(input["hex"]), wrong, size_bytes(*parse_dtype(input["dtype"].get<std::string>()))) + " ";
        FAIL_CHECK(std::string("output ") << names[i] << ", " << to_string(dtype) << ", element " << wrong << " of " << inputs
                                          << ": " << hex_at(actual, wrong, size_bytes(dtype)) << ", expected "
                                          << hex_at(expected, wrong, size_bytes(dtype)));
    }
}

}  // namespace tandem::test
