#include <doctest/doctest.h>

#include <limits>

#include <tandem/error.hpp>
#include <tandem/shape.hpp>

#include "expect_error.hpp"

using tandem::dense_strides;
using tandem::element_count;
using tandem::ErrorCode;
using tandem::Order;
using tandem::Shape;
using tandem::Strides;
using tandem::test::expect_error;

namespace {
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
}

TEST_CASE("shape: text is Python's") {
    CHECK(tandem::to_string(Shape{}) == "()");
    CHECK(tandem::to_string(Shape{3}) == "(3,)");
    CHECK(tandem::to_string(Shape{3, 4}) == "(3, 4)");
    CHECK(tandem::to_string(Shape{0, 1, largest}) == "(0, 1, 9223372036854775807)");
}

TEST_CASE("shape: element count") {
    CHECK(element_count({}) == 1);
    CHECK(element_count({7}) == 7);
    CHECK(element_count({2, 3, 4}) == 24);
    CHECK(element_count({0}) == 0);
    CHECK(element_count({3, 0, 4}) == 0);
    CHECK(element_count(Shape(64, 1)) == 1);
    CHECK(element_count({largest}) == largest);
    CHECK(element_count({largest / 8}, 8) == largest / 8);
    CHECK(element_count({5}, 0) == 5);
}

TEST_CASE("shape: what is no shape") {
    expect_error(ErrorCode::invalid_argument, {"(3, -1)", "negative"}, [] { return element_count({3, -1}); });
    expect_error(ErrorCode::invalid_argument, {"65 dimensions", "64"}, [] { return element_count(Shape(65, 1)); });
    expect_error(ErrorCode::out_of_range, {"(9223372036854775807, 2)", "2^63"}, [] { return element_count({largest, 2}); });
    expect_error(ErrorCode::out_of_range, {"8-byte"}, [] { return element_count({largest / 8 + 1}, 8); });
    expect_error(ErrorCode::out_of_range, {"2^63"}, [] { return element_count({1}, std::numeric_limits<std::size_t>::max()); });
    // Items of no bytes have to be countable too.
    expect_error(ErrorCode::out_of_range, {"0-byte"}, [] { return element_count({largest, 2}, 0); });
}

TEST_CASE("shape: overflow beside a zero, wherever it stands") {
    for (const Shape& shape : {Shape{largest, 2, 0}, Shape{0, largest, 2}, Shape{largest, 0, 2}}) {
        expect_error(ErrorCode::out_of_range, {tandem::to_string(shape), "2^63"}, [&] { return element_count(shape); });
    }
    expect_error(ErrorCode::out_of_range, {"4-byte"}, [] { return element_count({largest, 0}, 4); });
    CHECK(element_count({largest, 0}) == 0);
}

TEST_CASE("shape: dense strides") {
    CHECK(dense_strides({}, 4) == Strides{});
    CHECK(dense_strides({5}, 4) == Strides{4});
    CHECK(dense_strides({2, 3, 4}, 8) == Strides{96, 32, 8});
    CHECK(dense_strides({2, 3, 4}, 8, Order::fortran) == Strides{8, 16, 48});
    CHECK(dense_strides({3, 0, 4}, 8) == Strides{32, 32, 8});
    CHECK(dense_strides({3, 0, 4}, 8, Order::fortran) == Strides{8, 24, 24});
    CHECK(dense_strides({2, 2}, 0) == Strides{0, 0});
    expect_error(ErrorCode::out_of_range, {"2^63"}, [] { return dense_strides({largest, largest}, 1); });
    expect_error(ErrorCode::invalid_argument, {"negative"}, [] { return dense_strides({-1}, 1); });
}
