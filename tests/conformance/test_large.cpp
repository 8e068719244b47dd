// Arrays beyond 1 GiB, which is PoCL's largest allocation: runs of their own, since they take gigabytes and seconds.
#include <algorithm>

#include "fixture.hpp"

namespace tandem::test {
namespace {

constexpr std::int64_t count = (std::int64_t{1} << 28) + 12'345'678;  // float32: 1.05 GiB
constexpr std::int64_t piece = 1 << 24;

// Small integers: their sums are exact.
float left_value(std::int64_t i) {
    return static_cast<float>(i % 1'000'003);
}
float right_value(std::int64_t i) {
    return static_cast<float>(i % 4'099);
}

template <class Value>
void fill(Queue& queue, const Array& array, Value&& value) {
    std::vector<float> values;
    for (std::int64_t first = 0; first < count; first += piece) {
        const std::int64_t n = std::min(piece, count - first);
        values.resize(static_cast<std::size_t>(n));
        for (std::int64_t i = 0; i < n; ++i)
            values[static_cast<std::size_t>(i)] = value(first + i);
        copy(queue, values, array.slice(0, first, first + n));
        queue.synchronize();
    }
}

template <class Value>
std::int64_t first_wrong(Queue& queue, const Array& array, Value&& value) {
    std::vector<float> values;
    for (std::int64_t first = 0; first < count; first += piece) {
        const std::int64_t n = std::min(piece, count - first);
        values.resize(static_cast<std::size_t>(n));
        copy(queue, array.slice(0, first, first + n), values);
        queue.synchronize();
        for (std::int64_t i = 0; i < n; ++i) {
            if (values[static_cast<std::size_t>(i)] != value(first + i)) return first + i;
        }
    }
    return -1;
}

}  // namespace

TEST_CASE("add and double beyond the largest allocation, at offsets that put elements across windows" *
          doctest::test_suite("large")) {
    Queue queue(device());
    const auto make = [&](std::size_t offset) {
        const Buffer buffer = make_buffer(static_cast<std::size_t>(count) * 4 + offset);
        return Array(buffer, float32, {count}, offset);
    };
    const Array left = make(0), right = make(3), out = make(4);
    fill(queue, left, left_value);
    fill(queue, right, right_value);
    add(queue, left, right, out);
    double exact = 0;  // a number below 2^53
    for (std::int64_t i = 0; i < count; ++i)
        exact += static_cast<double>(right_value(i));
    CHECK(item<float>(queue, sum(queue, right)) == static_cast<float>(exact));
    CHECK(item<float>(queue, max(queue, right)) == 4098.0F);
    CHECK(first_wrong(queue, out, [](std::int64_t i) { return left_value(i) + right_value(i); }) == -1);
    twice(queue, right);
    CHECK(first_wrong(queue, right, [](std::int64_t i) { return 2 * right_value(i); }) == -1);
    twice(queue, left, out);
    CHECK(first_wrong(queue, out, [](std::int64_t i) { return 2 * left_value(i); }) == -1);
}

TEST_CASE("a Fortran-order result beyond the largest allocation" * doctest::test_suite("large")) {
    Queue queue(device());
    const std::int64_t rows = 4, columns = count / 4;
    const Array in = make_array(float32, {count});
    fill(queue, in, right_value);
    const Array from = in.slice(0, 0, rows * columns).reshape({rows, columns});
    const Array to = make_array(float32, {rows, columns}, Order::fortran);
    twice(queue, from, to);
    std::vector<float> row(static_cast<std::size_t>(columns));
    for (std::int64_t r = 0; r < rows; ++r) {
        copy(queue, to.at(0, r), row);
        queue.synchronize();
        std::int64_t wrong = -1;
        for (std::int64_t c = 0; c < columns && wrong < 0; ++c) {
            if (row[static_cast<std::size_t>(c)] != 2 * right_value(r * columns + c)) wrong = c;
        }
        CHECK(wrong == -1);
    }
}

}  // namespace tandem::test
