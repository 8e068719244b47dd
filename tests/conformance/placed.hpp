#pragma once
// Elements anywhere in a buffer, and whether an operation has written to them alone.

#include <algorithm>
#include <optional>

#include "fixture.hpp"

namespace tandem::test {

inline bool supported(DType dtype) {
    return device().info().has_float64 || (dtype != float64 && dtype != complex128);
}

/// Elements at an offset into a buffer, with a guard of known bytes around them.
struct Placed {
    Placed(DType dtype, Bytes bytes, std::size_t offset = 0)
        : elements(std::move(bytes)), before(offset + elements.size() + guard, std::byte{0xa5}) {
        std::copy(elements.begin(), elements.end(), before.begin() + static_cast<std::ptrdiff_t>(offset));
        buffer.emplace(buffer_with(before));
        array = Array(*buffer, dtype, {static_cast<std::int64_t>(elements.size() / size_bytes(dtype))}, offset);
    }
    Placed(DType dtype, std::int64_t count, std::size_t offset, std::uint64_t seed)
        : Placed(dtype, make_elements(dtype, static_cast<std::size_t>(count), seed), offset) {}

    static constexpr std::size_t guard = 64;
    Bytes elements, before;
    std::optional<Buffer> buffer;
    Array array;
};

/// The array has `expected`, and its guard what it had.
inline void check_result(const Placed& out, const Bytes& expected) {
    Bytes after = out.before;
    std::copy(expected.begin(), expected.end(), after.begin() + static_cast<std::ptrdiff_t>(out.array.offset_bytes()));
    const Bytes actual = bytes_of(*out.buffer);
    const std::size_t offset = out.array.offset_bytes();
    const std::span<const std::byte> written = std::span(actual).subspan(offset, expected.size());
    const std::int64_t difference = first_difference(out.array.dtype(), written, expected);
    CHECK_MESSAGE(difference == -1, "first wrong element: " << difference);
    CHECK(std::equal(actual.begin(), actual.begin() + static_cast<std::ptrdiff_t>(offset), after.begin()));
    CHECK(std::equal(actual.end() - Placed::guard, actual.end(), after.end() - Placed::guard));
}

}  // namespace tandem::test
