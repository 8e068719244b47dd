#include <algorithm>
#include <cstring>

#include "fixture.hpp"

namespace tandem::test {

TEST_CASE("what is written through a map is read back") {
    for (const std::int64_t size : sizes) {
        CAPTURE(size);
        const Bytes expected = make_elements(uint8, static_cast<std::size_t>(size), 1);
        const Buffer buffer = buffer_with(expected);
        CHECK(buffer.size_bytes() == expected.size());
        CHECK(buffer.kind() == options().kind);
        CHECK(buffer.device() == device());
        CHECK(bytes_of(buffer) == expected);
    }
}

TEST_CASE("a map for reading and writing keeps what it does not touch") {
    const Bytes before = make_elements(uint8, 5000, 2);
    const Buffer buffer = buffer_with(before);
    {
        HostView view = buffer.map(Access::read_write);
        REQUIRE(view.size_bytes() == before.size());
        CHECK(std::memcmp(view.data(), before.data(), before.size()) == 0);
        view.data()[4097] ^= std::byte{0xff};
    }
    Bytes expected = before;
    expected[4097] ^= std::byte{0xff};
    CHECK(bytes_of(buffer) == expected);
}

TEST_CASE("a host view can be moved and ended more than once") {
    const Buffer buffer = buffer_with(make_elements(uint8, 100, 3));
    HostView first = buffer.map(Access::read_write);
    first.data()[0] = std::byte{42};
    HostView second = std::move(first);
    CHECK(first.data() == nullptr);
    CHECK(first.size_bytes() == 0);
    second.data()[1] = std::byte{43};
    HostView third;
    third = std::move(second);
    third.unmap();
    third.unmap();
    CHECK(bytes_of(buffer)[0] == std::byte{42});
    CHECK(bytes_of(buffer)[1] == std::byte{43});
}

TEST_CASE("zero bytes take nothing and map to nothing") {
    const Buffer buffer = make_buffer(0);
    CHECK(buffer.size_bytes() == 0);
    CHECK(buffer.memory() == nullptr);
    CHECK(buffer.map(Access::read_write).size_bytes() == 0);
    const Array array(buffer, float64, {4, 0, 3});
    CHECK(array.count() == 0);
    CHECK(array.shape() == Shape{4, 0, 3});
    CHECK(array.map<double>(Access::read).size() == 0);
}

TEST_CASE("more memory than there is gives out_of_memory and the device goes on") {
    const std::size_t too_much = std::size_t{1} << 52U;
    for (int round = 0; round < 3; ++round)
        CHECK_ERROR(ErrorCode::out_of_memory, std::to_string(too_much), make_buffer(too_much));
    const Bytes expected = make_elements(uint8, 1000, 4);
    CHECK(bytes_of(buffer_with(expected)) == expected);
}

TEST_CASE("an array keeps the memory of a buffer that is gone") {
    const Bytes expected = make_elements(int32, 1000, 5);
    Array array;
    {
        const Buffer buffer = buffer_with(expected);
        array = Array(buffer, int32, {10, 100});
    }
    const auto view = array.map<std::int32_t>(Access::read);
    CHECK(std::memcmp(view.data(), expected.data(), expected.size()) == 0);
}

TEST_CASE("a mapped array is a range of its elements") {
    const Array array = make_array(float32, {10, 100});
    {
        auto elements = array.map<float>(Access::write);
        REQUIRE(elements.size() == 1000);
        float next = 0;
        for (float& element : elements)
            element = next++;
    }
    float sum = 0;
    for (const float element : array.map<float>(Access::read))
        sum += element;
    CHECK(sum == 499'500.0F);
    CHECK_ERROR(ErrorCode::invalid_argument, "float64", (void)array.map<double>(Access::read));
    CHECK_ERROR(ErrorCode::invalid_argument, "gaps", (void)array.slice(1, 0, 50).map<float>(Access::read));
    CHECK(array.slice(0, 3, 5).map<float>(Access::read)[0] == 300.0F);
    CHECK(array.transpose().map<float>(Access::read)[1] == 1.0F);
}

}  // namespace tandem::test
