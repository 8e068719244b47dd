#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "fixture.hpp"

namespace tandem::test {
namespace {

template <class Source>
concept CanBeCopiedFrom = requires(Queue& queue, const Array& array, Source&& source) {
    copy(queue, std::forward<Source>(source), array);
};
template <class Destination>
concept CanBeCopiedTo = requires(Queue& queue, const Array& array, Destination&& destination) {
    copy(queue, array, std::forward<Destination>(destination));
};

using Floats = std::vector<float>;
using FourFloats = std::array<float, 4>;
using Bits = std::vector<bool>;
static_assert(CanBeCopiedFrom<Floats&> && CanBeCopiedFrom<const Floats&>);
static_assert(CanBeCopiedFrom<std::span<float>> && CanBeCopiedFrom<std::span<const float>&>);
static_assert(CanBeCopiedFrom<const FourFloats&> && CanBeCopiedFrom<float (&)[4]> && CanBeCopiedFrom<const HostArray<float>&>);
static_assert(CanBeCopiedFrom<const Bits&> && CanBeCopiedFrom<std::vector<long long>&>);
// Temporaries would be gone too soon.
static_assert(!CanBeCopiedFrom<Floats> && !CanBeCopiedFrom<const Floats> && !CanBeCopiedFrom<FourFloats>);
static_assert(!CanBeCopiedFrom<HostArray<float>> && !CanBeCopiedFrom<Bits>);
static_assert(!CanBeCopiedFrom<std::vector<std::string>&> && !CanBeCopiedFrom<std::vector<char>&>);
static_assert(CanBeCopiedTo<Floats&> && CanBeCopiedTo<std::span<float>> && CanBeCopiedTo<const std::span<float>&>);
static_assert(CanBeCopiedTo<FourFloats&> && CanBeCopiedTo<float (&)[4]> && CanBeCopiedTo<Bits&>);
static_assert(!CanBeCopiedTo<Floats> && !CanBeCopiedTo<FourFloats> && !CanBeCopiedTo<Bits>);
static_assert(!CanBeCopiedTo<const Floats&> && !CanBeCopiedTo<std::span<const float>> && !CanBeCopiedTo<const Bits&>);

}  // namespace

TEST_CASE("host memory to an array and back") {
    Queue queue(device());
    for (const std::int64_t size : sizes) {
        for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{12}}) {
            CAPTURE(size);
            CAPTURE(offset);
            const Buffer buffer = buffer_with(Bytes(static_cast<std::size_t>(size) * 4 + offset + 8, std::byte{0x5a}));
            const Array array(buffer, int32, {size}, offset);
            std::vector<std::int32_t> values(static_cast<std::size_t>(size));
            std::iota(values.begin(), values.end(), -5);
            copy(queue, values, array);
            CHECK(to_vector<std::int32_t>(queue, array) == values);
            const Bytes bytes = bytes_of(buffer);
            for (std::size_t i = 0; i < offset; ++i)
                CHECK(bytes[i] == std::byte{0x5a});
            for (std::size_t i = bytes.size() - 8; i < bytes.size(); ++i)
                CHECK(bytes[i] == std::byte{0x5a});
        }
    }
}

TEST_CASE("every contiguous range of elements is host memory") {
    Queue queue(device());
    const Array array = make_array(float32, {4});
    std::array<float, 4> values{1, 2, 3, 4};
    float plain[4] = {};
    copy(queue, values, array);
    copy(queue, array, plain);
    queue.synchronize();
    CHECK(std::equal(values.begin(), values.end(), plain));

    plain[3] = 5;
    copy(queue, plain, array);
    std::vector<float> some(6, -1);
    copy(queue, array, std::span(some).subspan(1, 4));
    queue.synchronize();
    CHECK(some == std::vector<float>{-1, 1, 2, 3, 5, -1});

    some[0] = 7;
    copy(queue, std::span<float>(some).first(4), array);
    copy(queue, array, values);
    queue.synchronize();
    CHECK(values == std::array<float, 4>{7, 1, 2, 3});
}

TEST_CASE("both 64-bit integers of C++ are int64") {
    Queue queue(device());
    const std::vector<long long> values{1, -2, std::int64_t{1} << 40};
    const Array array = make_array(int64, {3});
    copy(queue, values, array);
    CHECK(to_vector<long long>(queue, array) == values);
    CHECK(to_vector<long>(queue, array) == std::vector<long>(values.begin(), values.end()));
    CHECK(to_vector<unsigned long long>(queue, array.view_as(uint64))[1] == ~1ULL);
    CHECK(array.map<long long>(Access::read)[2] == values[2]);
    CHECK_ERROR(ErrorCode::invalid_argument, "uint64", (void)to_vector<unsigned long long>(queue, array));
}

TEST_CASE("a vector of bits is unpacked and packed") {
    Queue queue(device());
    for (const std::int64_t size : sizes) {
        CAPTURE(size);
        std::vector<bool> bits(static_cast<std::size_t>(size));
        for (std::size_t i = 0; i < bits.size(); ++i)
            bits[i] = i % 3 == 0 || i % 7 == 2;
        const Array array = make_array(boolean, {size, 2}).slice(1, 1, 2);
        copy(queue, bits, array);
        CHECK(to_vector<bool>(queue, array) == bits);
        std::vector<bool> same(bits.size());
        copy(queue, array, same);
        CHECK(same == bits);
    }
    std::vector<bool> three(3);
    CHECK_ERROR(ErrorCode::invalid_argument, "3 elements of bool", copy(queue, three, make_array(boolean, {4})));
    CHECK_ERROR(ErrorCode::invalid_argument, "3 elements of bool", copy(queue, make_array(boolean, {4}), three));
    CHECK_ERROR(ErrorCode::invalid_argument, "uint8", (void)to_vector<bool>(queue, make_array(uint8, {4})));
}

TEST_CASE("host elements are in C order whatever the array's order") {
    Queue queue(device());
    std::vector<std::int16_t> values(6 * 5);
    std::iota(values.begin(), values.end(), std::int16_t{0});
    const Buffer buffer = buffer_with(Bytes(values.size() * 4));
    for (const Array& array :
         {Array(buffer, int16, {6, 5}, 0, Order::fortran), Array(buffer, int16, {6, 10}).slice(1, 9, -11, -2)}) {
        copy(queue, values, array);
        CHECK(to_vector<std::int16_t>(queue, array) == values);
        Bytes expected(values.size() * 2);
        std::memcpy(expected.data(), values.data(), expected.size());
        CHECK(elements_of(buffer, array) == expected);
    }
}

TEST_CASE("between two buffers of one device, at any offsets") {
    Queue queue(device());
    for (const std::size_t from : {0U, 1U, 64U, 127U}) {
        for (const std::size_t to : {0U, 3U, 256U}) {
            const Bytes content = make_elements(uint8, 20'000, 1);
            const Buffer source = buffer_with(content);
            const Buffer destination = buffer_with(Bytes(20'000, std::byte{7}));
            copy(queue, Array(source, uint8, {19'000}, from), Array(destination, uint8, {19'000}, to));
            Bytes expected(20'000, std::byte{7});
            std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(from), 19'000,
                        expected.begin() + static_cast<std::ptrdiff_t>(to));
            CHECK(bytes_of(destination) == expected);
        }
    }
}

TEST_CASE("between layouts of one device, every dtype") {
    Queue queue(device());
    for (const DType dtype : all_dtypes) {
        if (!device().info().has_float64 && (dtype == float64 || dtype == complex128)) continue;
        CAPTURE(to_string(dtype));
        const Buffer source = buffer_with(make_elements(dtype, 1001, 1));
        const Buffer destination = buffer_with(make_elements(dtype, 1001, 2));
        const Array from(source, dtype, {7, 11, 13});
        const Array to(destination, dtype, {7, 11, 13}, 0, Order::fortran);
        copy(queue, from, to);
        CHECK(first_difference(dtype, elements_of(destination, to), reference(Op::copy, dtype, elements_of(source, from), {})) ==
              -1);
    }
}

TEST_CASE("an array copied onto itself stays as it is") {
    Queue queue(device());
    const Bytes content = make_elements(float32, 100, 1);
    const Buffer buffer = buffer_with(content);
    const Array array(buffer, float32, {100});
    copy(queue, array, array);
    queue.synchronize();
    CHECK(bytes_of(buffer) == content);
}

TEST_CASE("to and from every other device") {
    for (const BackendInfo& backend : list_backends()) {
        for (const DeviceInfo& info : backend.devices) {
            const Device other = open_device(info.spec);
            if (other == device()) continue;
            CAPTURE(info.spec);
            for (const std::int64_t size : {std::int64_t{1}, std::int64_t{1009}, std::int64_t{5'000'011}}) {
                const Bytes content = make_elements(float32, static_cast<std::size_t>(size), 3);
                const Buffer source = buffer_with(content);
                const Array here(source, float32, {size});
                const Array there = empty(other, float32, {size});
                Queue queue(device());
                copy(queue, here, there);
                // The other device works on it, and it comes back through that device's queue, into strides.
                Queue other_queue(other);
                twice(other_queue, there);
                const Buffer back = buffer_with(Bytes(static_cast<std::size_t>(size) * 8));
                const Array every_other = Array(back, float32, {size, 2}).slice(1, 0, 1);
                copy(other_queue, there.reshape({size, 1}), every_other);
                CHECK(first_difference(float32, elements_of(back, every_other), reference(Op::twice, float32, content, {})) ==
                      -1);
            }
        }
    }
}

TEST_CASE("views: slices, transposes, reshapes and reinterpretations agree with the elements") {
    std::vector<std::int32_t> values(2 * 3 * 4);
    std::iota(values.begin(), values.end(), 0);
    Queue queue(device());
    const Buffer buffer = buffer_with(std::as_bytes(std::span(values)));
    const Array array(buffer, int32, {2, 3, 4});
    const auto elements = [&](const Array& view) { return to_vector<std::int32_t>(queue, view); };
    CHECK(elements(array.slice(2, 1, 3)) == std::vector<std::int32_t>{1, 2, 5, 6, 9, 10, 13, 14, 17, 18, 21, 22});
    CHECK(elements(array.slice(1, -1, -100, -2)) ==
          std::vector<std::int32_t>{8, 9, 10, 11, 0, 1, 2, 3, 20, 21, 22, 23, 12, 13, 14, 15});
    CHECK(array.slice(0, 5, 9).shape() == Shape{0, 3, 4});
    CHECK(elements(array.at(0, 1).at(0, -1)) == std::vector<std::int32_t>{20, 21, 22, 23});
    CHECK(array.transpose().shape() == Shape{4, 3, 2});
    CHECK(elements(array.transpose().at(0, 2)) == std::vector<std::int32_t>{2, 14, 6, 18, 10, 22});
    CHECK(array.reshape({4, -1}).shape() == Shape{4, 6});
    CHECK(elements(array.reshape({4, -1}).at(0, 3)) == std::vector<std::int32_t>{18, 19, 20, 21, 22, 23});
    CHECK(elements(array.slice(0, 1, 2).slice(1, 0, 2).reshape({8})) ==
          std::vector<std::int32_t>{12, 13, 14, 15, 16, 17, 18, 19});
    CHECK(array.slice(2, 0, 4, 2).reshape({2, 6}).strides_bytes() == Strides{48, 8});
    CHECK(array.view_as(uint8).shape() == Shape{2, 3, 16});
    CHECK(array.view_as(int64).shape() == Shape{2, 3, 2});
    CHECK(to_vector<std::int64_t>(queue, array.view_as(int64).at(0, 0).at(0, 0)) ==
          std::vector<std::int64_t>{std::int64_t{1} << 32, (std::int64_t{3} << 32) + 2});
    CHECK(array.view_as(float32).view_as(int32).shape() == array.shape());
}

}  // namespace tandem::test
