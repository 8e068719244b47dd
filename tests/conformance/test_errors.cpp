// Every documented error of arrays and operations, provoked once. That the arguments are as they were is part of it.
#include <limits>

#include "fixture.hpp"

namespace tandem::test {

TEST_CASE("operands that differ") {
    Queue queue(device());
    const Array a = make_array(float32, {3, 4});
    const Array b = make_array(int32, {3, 4});
    const Array c = make_array(float32, {4, 3});
    CHECK_ERROR(ErrorCode::invalid_argument, "left is float32 (3, 4), right is int32 (3, 4): dtypes", add(queue, a, b, a));
    CHECK_ERROR(ErrorCode::invalid_argument, "left is float32 (3, 4), right is float32 (4, 3): shapes", add(queue, a, c, a));
    CHECK_ERROR(ErrorCode::invalid_argument, "the output is float32 (4, 3): shapes", add(queue, a, a, c));
    CHECK_ERROR(ErrorCode::invalid_argument, "the output is int32 (3, 4): dtypes", twice(queue, a, b));
    CHECK_ERROR(ErrorCode::invalid_argument, "shapes", copy(queue, a, c));
    CHECK_ERROR(ErrorCode::invalid_argument, "dtypes", copy(queue, a, b));
    CHECK_ERROR(ErrorCode::invalid_argument, "no device", twice(queue, Array()));
}

TEST_CASE("memory that overlaps other than element for element") {
    Queue queue(device());
    const Bytes content = make_elements(float32, 100, 1);
    const Buffer buffer = buffer_with(content);
    const Array whole(buffer, float32, {100});
    const Array head = whole.slice(0, 0, 99), tail = whole.slice(0, 1, 100);
    CHECK_ERROR(ErrorCode::invalid_argument, "overlaps", twice(queue, head, tail));
    CHECK_ERROR(ErrorCode::invalid_argument, "overlaps left", add(queue, tail, head, head));
    CHECK_ERROR(ErrorCode::invalid_argument, "overlaps right", add(queue, head, tail, head));
    CHECK_ERROR(ErrorCode::invalid_argument, "overlap", copy(queue, head, tail));
    CHECK_ERROR(ErrorCode::invalid_argument, "overlaps", twice(queue, whole, whole.slice(0, 99, -101, -1)));
    const Array shifted(buffer, float32, {99}, 1);
    CHECK_ERROR(ErrorCode::invalid_argument, "overlaps", twice(queue, head, shifted));
    const Array repeated(buffer, float32, {10, 10}, Strides{0, 4}, 0);
    CHECK_ERROR(ErrorCode::invalid_argument, "two elements", twice(queue, repeated));
    const Array meshed(buffer, float32, {4, 2}, Strides{8, 16}, 0);
    CHECK_ERROR(ErrorCode::invalid_argument, "two elements", twice(queue, meshed));
    const Array square(buffer, float32, {10, 10});
    CHECK_ERROR(ErrorCode::invalid_argument, "overlaps", twice(queue, square, square.transpose()));
    CHECK_ERROR(ErrorCode::invalid_argument, "overlaps", twice(queue, square.slice(1, 0, 6), square.slice(1, 4, 10)));
    CHECK_ERROR(ErrorCode::invalid_argument, "overlaps", twice(queue, square.slice(0, 0, 9, 4), square.slice(0, 2, 7, 2)));
    CHECK(bytes_of(buffer) == content);
}

TEST_CASE("arrays and queues of different devices") {
    const Device other = open_device(device().info().backend == "host" ? "" : "host");
    if (other == device()) return;  // nothing but this host here
    Queue queue(device());
    const Array here = make_array(float32, {4});
    const Array there = empty(other, float32, {4});
    CHECK_ERROR(ErrorCode::invalid_argument, other.spec(), add(queue, here, there, here));
    CHECK_ERROR(ErrorCode::invalid_argument, other.spec(), twice(queue, there));
    std::vector<float> host(4);
    CHECK_ERROR(ErrorCode::invalid_argument, other.spec(), copy(queue, host, there));
}

TEST_CASE("views that do not fit their buffer") {
    const Buffer buffer = make_buffer(100);
    CHECK_ERROR(ErrorCode::out_of_range, "100", Array(buffer, float32, {26}));
    CHECK_ERROR(ErrorCode::out_of_range, "offset 1", Array(buffer, float32, {25}, 1));
    CHECK_ERROR(ErrorCode::out_of_range, "100", Array(buffer, float32, {25}, Strides{-4}, 0));
    CHECK_ERROR(ErrorCode::out_of_range, "100",
                Array(buffer, float32, {2}, Strides{std::numeric_limits<std::int64_t>::max()}, 0));
    CHECK_ERROR(ErrorCode::out_of_range, "", Array(buffer, float32, {std::int64_t{1} << 40, std::int64_t{1} << 40}));
    CHECK_ERROR(ErrorCode::invalid_argument, "strides", Array(buffer, float32, {5}, Strides{4, 4}, 0));
    CHECK_ERROR(ErrorCode::invalid_argument, "-1", Array(buffer, float32, {-1}));
    CHECK_ERROR(ErrorCode::invalid_argument, "64", Array(buffer, float32, Shape(65, 1)));
    const Array array(buffer, float32, {5, 5});
    CHECK_ERROR(ErrorCode::out_of_range, "axis 2", (void)array.slice(2, 0, 1));
    CHECK_ERROR(ErrorCode::invalid_argument, "step", (void)array.slice(0, 0, 1, 0));
    CHECK_ERROR(ErrorCode::out_of_range, "index 5", (void)array.at(0, 5));
    CHECK_ERROR(ErrorCode::out_of_range, "axis 2", (void)array.at(2, 0));
    CHECK_ERROR(ErrorCode::invalid_argument, "counts", (void)array.reshape({4, 6}));
    CHECK_ERROR(ErrorCode::invalid_argument, "counts", (void)array.reshape({-1, 4}));
    CHECK_ERROR(ErrorCode::invalid_argument, "-1", (void)array.reshape({-1, -1}));
    CHECK_ERROR(ErrorCode::invalid_argument, "copy", (void)array.transpose().reshape({25}));
    CHECK_ERROR(ErrorCode::invalid_argument, "multiple", (void)array.view_as(float64));
    CHECK_ERROR(ErrorCode::invalid_argument, "gaps", (void)array.transpose().view_as(uint8));
    CHECK_ERROR(ErrorCode::invalid_argument, "no dimension", (void)array.at(0, 0).at(0, 0).view_as(uint8));
}

TEST_CASE("host memory that does not match the array") {
    Queue queue(device());
    const Array array = make_array(float32, {10});
    std::vector<float> nine(9);
    std::vector<std::int32_t> ints(10);
    CHECK_ERROR(ErrorCode::invalid_argument, "9 elements of float32", copy(queue, nine, array));
    CHECK_ERROR(ErrorCode::invalid_argument, "9 elements of float32", copy(queue, array, nine));
    CHECK_ERROR(ErrorCode::invalid_argument, "int32", copy(queue, ints, array));
    CHECK_ERROR(ErrorCode::invalid_argument, "null",
                copy(queue, std::span<const float>(static_cast<float*>(nullptr), 10), array));
}

}  // namespace tandem::test
