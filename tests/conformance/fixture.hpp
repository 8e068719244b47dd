#pragma once
// What every conformance test has: the device and memory kind that this process was started for.

#include <doctest/doctest.h>

#include <array>
#include <string>

#include "reference.hpp"
#include "tandem/tandem.hpp"

namespace tandem::test {

/// From the command line; see main.cpp.
struct Options {
    std::string device;
    MemoryKind kind = MemoryKind::device;
    std::size_t window_bytes = 0;  ///< not 0: the device is opened as if this were its largest allocation
    bool large = false;            ///< the tests of arrays beyond 1 GiB, and no others
};
const Options& options();

/// The device under test. The same for all tests of the process.
Device device();

inline constexpr std::array all_dtypes{
#define TANDEM_X(name, type, code) DType::name,
    TANDEM_FOR_EACH_DTYPE(TANDEM_X)
#undef TANDEM_X
};

/// Sizes at which vector paths, tails and work-group edges go wrong.
inline constexpr std::array<std::int64_t, 7> sizes{0, 1, 7, 255, 256, 257, 100'003};

/// Uninitialised memory of the kind under test. Adopted memory lies 80 bytes behind a page's start, and the device must keep it.
Buffer make_buffer(std::size_t size_bytes);
Array make_array(DType dtype, Shape shape, Order order = Order::c);

/// A buffer of the kind under test with `bytes` in it.
Buffer buffer_with(std::span<const std::byte> bytes);

/// All bytes of a buffer, after everything that uses it.
Bytes bytes_of(const Buffer& buffer);

/// True where the device under test works on host memory itself.
bool is_host_memory_native();

/// The elements of an array of any layout, in C order, fetched byte by byte from a copy of its buffer: independent of the
/// library's own gathering.
Bytes elements_of(const Buffer& buffer, const Array& array);

/// The error that `call` throws; fails the test where it throws none.
template <class Call>
Error error_of(Call&& call) {
    try {
        call();
    } catch (const Error& error) {
        return error;
    }
    FAIL("an error was expected");
    return {ErrorCode::internal, ""};
}

}  // namespace tandem::test

// The call throws tandem::Error with `expected` as its code and `words` in its message.
#define CHECK_ERROR(expected, words, ...)                                               \
    do {                                                                                \
        const ::tandem::Error error_ = ::tandem::test::error_of([&] { __VA_ARGS__; });  \
        INFO(std::string(error_.what()));                                               \
        CHECK_MESSAGE(error_.code() == (expected), ::tandem::to_string(error_.code())); \
        CHECK(std::string(error_.what()).find(words) != std::string::npos);             \
        CHECK(std::string(error_.what()).find('\n') == std::string::npos);              \
    } while (false)
