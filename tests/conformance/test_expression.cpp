// Elementwise expressions against NumPy's results, exact sums, and arithmetic that can't be inexact.

#include <algorithm>
#include <limits>
#include <string>

#include "expression_cases.hpp"
#include "placed.hpp"

extern "C" const char tandem_expression_cases_begin[];

namespace tandem::test {
namespace {

template <class T>
Bytes as_bytes(const std::vector<T>& values) {
    const auto* first = reinterpret_cast<const std::byte*>(values.data());
    return {first, first + values.size() * sizeof(T)};
}

template <class T>
Array array_of(Queue& queue, const std::vector<T>& values, Shape shape) {
    const Array array = make_array(dtype_of<T>, std::move(shape));
    copy(queue, values, array);
    queue.synchronize();
    return array;
}

}  // namespace

TEST_CASE("expression: what NumPy makes of every operation") {
    Queue queue(device());
    const nlohmann::json cases = nlohmann::json::parse(tandem_expression_cases_begin)["cases"];
    REQUIRE(cases.size() > 40);
    for (const auto& one : cases)
        run_case(queue, one, [](DType dtype, const Shape& shape) { return make_array(dtype, shape); });
}

TEST_CASE("expression: every dtype at every size and offset") {
    Queue queue(device());
    constexpr std::array<std::array<std::size_t, 3>, 5> offsets{{{0, 0, 0}, {1, 1, 1}, {4, 4, 4}, {0, 4, 8}, {3, 16, 5}}};
    for (const DType dtype : all_dtypes) {
        if (!supported(dtype)) continue;
        for (const auto& at : offsets) {
            for (const std::int64_t size : sizes) {
                if (size > 1000 && at != offsets[0] && at != offsets[4]) continue;
                const std::string name = std::string(to_string(dtype)) + " " + std::to_string(size) + " at " +
                                         std::to_string(at[0]) + " " + std::to_string(at[1]) + " " + std::to_string(at[2]);
                CAPTURE(name);
                const Placed a(dtype, size, at[0], 1);
                const Placed b(dtype, size, at[1], 2);
                const Placed out(dtype, size, at[2], 3);
                elementwise(queue, "out = a + b", {{"out", out.array}, {"a", a.array}, {"b", b.array}});
                check_result(out, reference(Op::add, dtype, a.elements, b.elements));
                CHECK(bytes_of(*a.buffer) == a.before);
                if (dtype != uint8 && dtype != float16 && dtype != float32) continue;
                elementwise(queue, "a = a + b", {{"a", a.array}, {"b", b.array}});
                check_result(a, reference(Op::add, dtype, a.elements, b.elements));
            }
        }
    }
}

TEST_CASE("expression: dtypes of several sizes in one kernel") {
    Queue queue(device());
    for (const std::int64_t size : sizes) {
        for (const std::size_t offset : {std::size_t{0}, std::size_t{3}}) {
            CAPTURE(size);
            CAPTURE(offset);
            const auto count = static_cast<std::size_t>(size);
            std::vector<std::uint8_t> bytes(count);
            std::vector<std::int16_t> words(count);
            std::vector<std::int64_t> longs(count), sums(count);
            std::vector<float> products(count);
            for (std::size_t i = 0; i < count; ++i) {
                bytes[i] = static_cast<std::uint8_t>(i * 7);
                words[i] = static_cast<std::int16_t>(i * 31 - 1000);
                longs[i] = static_cast<std::int64_t>(i) << 33U;
                sums[i] = longs[i] + words[i] - 3 * bytes[i];
                products[i] = static_cast<float>(bytes[i]) * static_cast<float>(words[i]) + 0.5F;  // below 2^24: exact
            }
            const Placed b(uint8, as_bytes(bytes), offset), w(int16, as_bytes(words), 2 * offset),
                l(int64, as_bytes(longs), offset), s(int64, size, 8, 4), p(float32, size, offset, 5);
            elementwise(queue, "s = l + w - n * i16(b); p = f32(b) * w + 0.5;",
                        {{"s", s.array}, {"p", p.array}, {"b", b.array}, {"w", w.array}, {"l", l.array}, {"n", 3}});
            check_result(s, as_bytes(sums));
            check_result(p, as_bytes(products));
        }
    }
}

TEST_CASE("expression: results larger than caches") {
    if (options().window_bytes != 0) return;  // where pieces are small
    Queue queue(device());
    constexpr std::int64_t count = (std::int64_t{17} << 20U) / 4 + 5;
    for (const std::size_t offset : {std::size_t{0}, std::size_t{20}, std::size_t{3}}) {
        CAPTURE(offset);
        const Placed a(float32, count, 0, 1), b(float32, count, 0, 2), out(float32, count, offset, 3);
        elementwise(queue, "out = a + b", {{"out", out.array}, {"a", a.array}, {"b", b.array}});
        check_result(out, reference(Op::add, float32, a.elements, b.elements));
        elementwise(queue, "a = a + b", {{"a", a.array}, {"b", b.array}});
        check_result(a, reference(Op::add, float32, a.elements, b.elements));
    }
}

TEST_CASE("expression: bfloat16 and float16 are rounded once where they are stored") {
    Queue queue(device());
    const std::vector<float> x{1.0F, 1.0F, -2.5F, 300.0F, 1.0F / 3};
    const std::vector<float> y{0x1p-9F, 0x1p-8F, 1.25F, 300.0F, 7.0F};
    std::vector<BFloat16> a, b, expected;
    std::vector<Float16> c, d, halves;
    for (std::size_t i = 0; i < x.size(); ++i) {
        a.emplace_back(x[i]);
        b.emplace_back(y[i]);
        c.emplace_back(x[i]);
        d.emplace_back(y[i]);
        const float p = static_cast<float>(a[i]), q = static_cast<float>(b[i]);
        expected.emplace_back(p + q - p * q);
        const float r = static_cast<float>(c[i]), t = static_cast<float>(d[i]);
        halves.emplace_back(r + t - r * t);
    }
    const Array pa = array_of(queue, a, {5}), pb = array_of(queue, b, {5}), po = make_array(bfloat16, {5});
    const Array qa = array_of(queue, c, {5}), qb = array_of(queue, d, {5}), qo = make_array(float16, {5});
    elementwise(queue, "o = a + b - a * b", {{"o", po}, {"a", pa}, {"b", pb}});
    elementwise(queue, "o = a + b - a * b", {{"o", qo}, {"a", qa}, {"b", qb}});
    const auto brains = to_vector<BFloat16>(queue, po);
    const auto small = to_vector<Float16>(queue, qo);
    for (std::size_t i = 0; i < x.size(); ++i) {
        CHECK(brains[i].bits == expected[i].bits);
        CHECK(small[i].bits == halves[i].bits);
    }
    if (!supported(float64)) return;
    // A tie in float32 that float64 breaks: 1 + 2^-11 + 2^-40 is above the middle of two float16.
    const Array wide = array_of(queue, std::vector<double>{1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-11, 1 + 0x1p-11 - 0x1p-40}, {3});
    const Array narrow = make_array(float16, {3});
    cast(queue, wide, narrow);
    const auto rounded = to_vector<Float16>(queue, narrow);
    CHECK(rounded[0].bits == 0x3c01);
    CHECK(rounded[1].bits == 0x3c00);
    CHECK(rounded[2].bits == 0x3c00);
}

TEST_CASE("expression: casts of what does not fit") {
    Queue queue(device());
    const float nan = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
    const Array in =
        array_of(queue, std::vector<float>{nan, infinite, -infinite, 1e30F, -1e30F, 2.9F, -2.9F, 300.0F, -0.5F}, {9});
    const Array i = make_array(int32, {9}), b = make_array(int8, {9}), u = make_array(uint8, {9}), t = make_array(boolean, {9}),
                l = make_array(int64, {9}), w = make_array(uint64, {9});
    elementwise(queue, "i = int32(x); b = i8(x); u = u8(x); t = bool(x); l = i64(x); w = u64(x)",
                {{"i", i}, {"b", b}, {"u", u}, {"t", t}, {"l", l}, {"w", w}, {"x", in}});
    CHECK(to_vector<std::int32_t>(queue, i) ==
          std::vector<std::int32_t>{0, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, 2, -2, 300, 0});
    CHECK(to_vector<std::int8_t>(queue, b) == std::vector<std::int8_t>{0, 127, -128, 127, -128, 2, -2, 127, 0});
    CHECK(to_vector<std::uint8_t>(queue, u) == std::vector<std::uint8_t>{0, 255, 0, 255, 0, 2, 0, 255, 0});
    CHECK(to_vector<bool>(queue, t) == std::vector<bool>{true, true, true, true, true, true, true, true, true});
    CHECK(to_vector<std::int64_t>(queue, l) ==
          std::vector<std::int64_t>{0, INT64_MAX, INT64_MIN, INT64_MAX, INT64_MIN, 2, -2, 300, 0});
    CHECK(to_vector<std::uint64_t>(queue, w) == std::vector<std::uint64_t>{0, UINT64_MAX, 0, UINT64_MAX, 0, 2, 0, 300, 0});
    const Array z = array_of(queue, std::vector<std::complex<float>>{{0, 0}, {0, 1}, {2.5F, 1}}, {3});
    const Array zt = make_array(boolean, {3}), zi = make_array(int16, {3});
    cast(queue, z, zt);
    cast(queue, z, zi);
    CHECK(to_vector<bool>(queue, zt) == std::vector<bool>{false, true, true});
    CHECK(to_vector<std::int16_t>(queue, zi) == std::vector<std::int16_t>{0, 0, 2});
}

TEST_CASE("expression: broadcasting and strides") {
    Queue queue(device());
    // Every operand's element says where it is.
    const auto numbered = [&](Shape shape) {
        const std::int64_t count = element_count(shape);
        std::vector<std::int32_t> values(static_cast<std::size_t>(count));
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<std::int32_t>(i);
        return array_of(queue, values, std::move(shape));
    };
    struct Layout {
        Array a, b, out;
    };
    const Array big = numbered({9, 14, 11});
    const auto output = [](Shape shape) { return make_array(int64, std::move(shape)); };
    const std::vector<Layout> layouts{
        {numbered({5, 7}), numbered({7}), output({5, 7})},
        {numbered({5, 1}), numbered({1, 7}), output({5, 7})},
        {numbered({}), numbered({300}), output({300})},
        {numbered({1}), numbered({}), output({4, 3})},
        {numbered({3, 1, 5}), numbered({4, 1}), output({2, 3, 4, 5})},
        {big.slice(0, 1, 8, 2), big.slice(0, 8, 0, -2), output({4, 14, 11})},
        {big.transpose(), numbered({14, 1}), output({11, 14, 9})},
        {big.slice(2, 3, 9, 3).slice(1, 13, 2, -1), numbered({11, 2}), output({9, 11, 2})},
        {big.slice(1, 2, 10), big.slice(1, 10, 2, -1), output({8, 9, 11}).slice(0, 0, 8).reshape({9, 8, 11})},
        {big, big, output({9, 28, 11}).slice(1, 1, 28, 2)},
        {big, big.at(0, 4), output({11, 14, 9}).transpose()},
        {numbered({2, 1, 2, 1, 2, 1, 2, 1}), numbered({2, 1, 2, 1, 2, 1, 2}), output({2, 2, 2, 2, 2, 2, 2, 2})},
        {numbered({0, 3}), numbered({1, 1}), output({0, 3})},
    };
    for (const Layout& layout : layouts) {
        const std::string name =
            to_string(layout.a.shape()) + " " + to_string(layout.b.shape()) + " " + to_string(layout.out.shape());
        CAPTURE(name);
        elementwise(queue, "out = 1000000 * int64(a) + b", {{"out", layout.out}, {"a", layout.a}, {"b", layout.b}});
        const auto a = to_vector<std::int32_t>(queue, layout.a), b = to_vector<std::int32_t>(queue, layout.b);
        const auto actual = to_vector<std::int64_t>(queue, layout.out);
        const Shape& shape = layout.out.shape();
        const auto at = [&](const Array& in, std::size_t flat) {
            std::size_t index = 0, step = 1;
            for (std::size_t d = shape.size(); d-- > 0;) {
                const auto size = static_cast<std::size_t>(shape[d]);
                const std::size_t position = flat % size;
                flat /= size;
                if (d + in.dimensions() < shape.size()) continue;
                const auto extent = static_cast<std::size_t>(in.shape()[d + in.dimensions() - shape.size()]);
                if (extent != 1) index += position * step;
                step *= extent;
            }
            return index;
        };
        std::int64_t wrong = 0;
        for (std::size_t i = 0; i < actual.size(); ++i)
            wrong += actual[i] != std::int64_t{1000000} * a[at(layout.a, i)] + b[at(layout.b, i)] ? 1 : 0;
        CHECK(wrong == 0);
    }
}

TEST_CASE("expression: odd strides and offsets, element for element") {
    Queue queue(device());
    for (const DType dtype : {int16, float32, complex64}) {
        CAPTURE(to_string(dtype));
        const std::size_t item = size_bytes(dtype);
        const auto stride = static_cast<std::int64_t>(item + 3);
        const Bytes content = make_elements(dtype, 300, 7);
        const Buffer a = buffer_with(content), b = buffer_with(make_elements(dtype, 300, 8)), o = buffer_with(content);
        const Array left(a, dtype, {5, 17}, Strides{17 * stride, stride}, 1), right(b, dtype, {17}, Strides{stride}, 2),
            out(o, dtype, {5, 17}, Strides{stride, 5 * stride}, 3);
        elementwise(queue, "out = a + b", {{"out", out}, {"a", left}, {"b", right}});
        Bytes repeated;
        const Bytes row = elements_of(b, right);
        for (int i = 0; i < 5; ++i)
            repeated.insert(repeated.end(), row.begin(), row.end());
        CHECK(first_difference(dtype, elements_of(o, out), reference(Op::add, dtype, elements_of(a, left), repeated)) == -1);
    }
}

TEST_CASE("expression: statements are done in order") {
    Queue queue(device());
    const Array x = array_of(queue, std::vector<std::int32_t>{1, 2, 3}, {3}),
                y = array_of(queue, std::vector<std::int32_t>{10, 20, 30}, {3});
    elementwise(queue, "old = x; x = y; y = old", {{"x", x}, {"y", y}});
    CHECK(to_vector<std::int32_t>(queue, x) == std::vector<std::int32_t>{10, 20, 30});
    CHECK(to_vector<std::int32_t>(queue, y) == std::vector<std::int32_t>{1, 2, 3});
    elementwise(queue, "x = x + y; y = x * 2", {{"x", x}, {"y", y}});
    CHECK(to_vector<std::int32_t>(queue, y) == std::vector<std::int32_t>{22, 44, 66});
    // What is read after it was assigned has the output's type.
    const Array b = make_array(int8, {3}), s = make_array(int32, {3});
    elementwise(queue, "b = i32(x) * 10; s = b; s = s + b", {{"b", b}, {"s", s}, {"x", x}});
    // x is 11, 22, 33.
    CHECK(to_vector<std::int8_t>(queue, b) == std::vector<std::int8_t>{110, 220 - 256, 330 - 256});
    CHECK(to_vector<std::int32_t>(queue, s) == std::vector<std::int32_t>{2 * 110, 2 * (220 - 256), 2 * (330 - 256)});
    const Array flag = array_of(queue, std::vector<std::uint8_t>{0, 1, 200}, {3}).view_as(boolean), o = make_array(uint8, {3});
    elementwise(queue, "o = u8(flag) + u8(!flag && x > 0 || x == 22)", {{"o", o}, {"flag", flag}, {"x", x}});
    CHECK(to_vector<std::uint8_t>(queue, o) == std::vector<std::uint8_t>{1, 2, 1});
}

TEST_CASE("expression: the family of operations") {
    Queue queue(device());
    const std::vector<float> left{4, -9, 0.25F, 7}, right{2, 3, -1, 0.5F};
    const Array a = array_of(queue, left, {4}), b = array_of(queue, right, {4}), out = make_array(float32, {4});
    const auto result = [&] { return to_vector<float>(queue, out); };
    subtract(queue, a, b, out);
    CHECK(result() == std::vector<float>{2, -12, 1.25F, 6.5F});
    multiply(queue, a, b, out);
    CHECK(result() == std::vector<float>{8, -27, -0.25F, 3.5F});
    divide(queue, a, b, out);
    CHECK(result() == std::vector<float>{2, -3, -0.25F, 14});
    scale(queue, 3, a, out);
    CHECK(result() == std::vector<float>{12, -27, 0.75F, 21});
    axpy(queue, 2.0, a, out);
    CHECK(result() == std::vector<float>{20, -45, 1.25F, 35});
    fill(queue, out, 1.5);
    CHECK(result() == std::vector<float>{1.5F, 1.5F, 1.5F, 1.5F});
    abs(queue, a, out);
    CHECK(result() == std::vector<float>{4, 9, 0.25F, 7});
    minimum(queue, a, b, out);
    CHECK(result() == std::vector<float>{2, -9, -1, 0.5F});
    maximum(queue, a, b, out);
    CHECK(result() == std::vector<float>{4, 3, 0.25F, 7});
    const Array condition = array_of(queue, std::vector<std::int32_t>{1, 0, -3, 0}, {4});
    where(queue, condition, a, b, out);
    CHECK(result() == std::vector<float>{4, 3, 0.25F, 0.5F});
    const Array whole = make_array(int32, {4});
    cast(queue, a, whole);
    CHECK(to_vector<std::int32_t>(queue, whole) == std::vector<std::int32_t>{4, -9, 0, 7});
    fill(queue, whole, -7);
    CHECK(to_vector<std::int32_t>(queue, whole) == std::vector<std::int32_t>{-7, -7, -7, -7});
    const Array one = array_of(queue, std::vector<float>{1}, {1}), result_of_one = make_array(float32, {1});
    exp(queue, one, result_of_one);
    CHECK(is_near(float32, to_vector<float>(queue, result_of_one)[0], 2.718281828459045, 2.7, 3));
    log(queue, result_of_one, result_of_one);
    CHECK(is_near(float32, to_vector<float>(queue, result_of_one)[0], 1, 1, 4));
    fill(queue, one, 2);
    sqrt(queue, one, result_of_one);
    CHECK(is_near(float32, to_vector<float>(queue, result_of_one)[0], 1.4142135623730951, 1.4, 3));
}

TEST_CASE("expression: numbers that C++ gives") {
    Queue queue(device());
    const Array x = array_of(queue, std::vector<float>{1, 2}, {2}), z = make_array(complex64, {2}),
                i = array_of(queue, std::vector<std::int8_t>{100, -100}, {2});
    elementwise(queue, "z = x * w + f", {{"z", z}, {"x", x}, {"w", std::complex<double>(0, 2)}, {"f", true}});
    CHECK(to_vector<std::complex<float>>(queue, z) == std::vector<std::complex<float>>{{1, 2}, {1, 4}});
    elementwise(queue, "i = i + n", {{"i", i}, {"n", 100}});
    CHECK(to_vector<std::int8_t>(queue, i) == std::vector<std::int8_t>{-56, 0});
    // Numbers alone are worked out once, in full precision.
    elementwise(queue, "x = x * (a - 1) / 3", {{"x", x}, {"a", 1 + 0x1p-40}});
    CHECK(to_vector<float>(queue, x)[1] == doctest::Approx(2 * 0x1p-40 / 3));
    const Array f = make_array(float32, {2});
    elementwise(queue, "f = a * b + 3", {{"f", f}, {"a", 2}, {"b", Scalar(2.5, float32)}});
    CHECK(to_vector<float>(queue, f) == std::vector<float>{8, 8});
}

TEST_CASE("expression: every error once") {
    Queue queue(device());
    const Array x = array_of(queue, std::vector<float>{1, 2, 3, 4}, {4}), y = make_array(float32, {2, 3}),
                i = make_array(int8, {4}), out = make_array(float32, {4});
    constexpr auto invalid = ErrorCode::invalid_argument;
    CHECK_ERROR(invalid, "elementwise: column 10: expected an operand",
                elementwise(queue, "out = x +", {{"out", out}, {"x", x}}));
    CHECK_ERROR(invalid, "column 11: 'q' is not among", elementwise(queue, "out = x + q", {{"out", out}, {"x", x}}));
    CHECK_ERROR(invalid, "operand 'y' is not used", elementwise(queue, "out = x", {{"out", out}, {"x", x}, {"y", y}}));
    CHECK_ERROR(invalid, "two operands 'x'", elementwise(queue, "out = x", {{"out", out}, {"x", x}, {"x", y}}));
    CHECK_ERROR(invalid, "'1x' can't be an operand's name", elementwise(queue, "out = x", {{"out", out}, {"1x", x}}));
    CHECK_ERROR(invalid, "y has shape (2, 3), which does not broadcast to (4,) of out",
                elementwise(queue, "out = x + y", {{"out", out}, {"x", x}, {"y", y}}));
    CHECK_ERROR(invalid, "outputs must have one shape", elementwise(queue, "out = x; y = 1", {{"out", out}, {"x", x}, {"y", y}}));
    CHECK_ERROR(invalid, "column 7: 300 does not fit int8", elementwise(queue, "i = i + 300", {{"i", i}}));
    CHECK_ERROR(invalid, "column 7: -129 does not fit int8", elementwise(queue, "i = i + n", {{"i", i}, {"n", -129}}));
    CHECK_ERROR(invalid, "\"same kind\"", elementwise(queue, "i = x", {{"i", i}, {"x", x}}));
    CHECK_ERROR(invalid, "out overlaps x in memory, but not element for element",
                elementwise(queue, "out = x", {{"out", x.slice(0, 1, 4)}, {"x", x.slice(0, 0, 3)}}));
    CHECK_ERROR(invalid, "out overlaps x in memory, but not element for element",
                elementwise(queue, "out = x", {{"out", x}, {"x", x.slice(0, 0, 1)}}));
    CHECK_ERROR(invalid, "out overlaps x in memory, but not element for element",
                elementwise(queue, "out = x", {{"out", x.slice(0, 0, 2)}, {"x", x.view_as(uint16).slice(0, 0, 2)}}));
    CHECK_ERROR(invalid, "and both are outputs", elementwise(queue, "a = 1; b = 2", {{"a", x}, {"b", x}}));
    const Buffer bytes = make_buffer(64);
    CHECK_ERROR(invalid, "bytes that belong to two elements",
                elementwise(queue, "out = 1", {{"out", Array(bytes, float32, {3, 4}, Strides{0, 4}, 0)}}));
    CHECK_ERROR(invalid, "no device", elementwise(queue, "out = 1", {{"out", Array()}}));
    CHECK_ERROR(invalid, "subtract: right has shape (2, 3)", subtract(queue, x, y, out));
    CHECK_ERROR(invalid, "fill: column 1: out, which is int8, does not take float64", fill(queue, i, 1.5));
    {
        const auto view = x.map<float>(Access::read);
        CHECK_ERROR(invalid, "x is mapped for the host", elementwise(queue, "x = x + 1", {{"x", x}}));
    }
    if (device().info().backend != "host") {
        const Array elsewhere = empty(open_device("host"), float32, {4});
        CHECK_ERROR(invalid, "x is on host:0", elementwise(queue, "out = x", {{"out", out}, {"x", elsewhere}}));
    }
    if (!device().info().has_float64) {
        const Array ints = make_array(int32, {4});
        CHECK_ERROR(ErrorCode::unsupported, "float64", elementwise(queue, "out = f32(n / n)", {{"out", out}, {"n", ints}}));
    }
    Queue moved(device());
    const Queue taken = std::move(moved);
    CHECK_ERROR(invalid, "moved", elementwise(moved, "x = x + 1", {{"x", x}}));
    CHECK(to_vector<float>(queue, x) == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("expression: arrays dropped right after the call") {
    Queue queue(device());
    const Array out = make_array(int32, {100'003});
    {
        const Array a = make_array(int32, {100'003}), b = make_array(int32, {100'003});
        fill(queue, a, 40);
        fill(queue, b, 2);
        elementwise(queue, "out = a + b", {{"out", out}, {"a", a}, {"b", b}});
    }
    const auto values = to_vector<std::int32_t>(queue, out);
    CHECK(std::all_of(values.begin(), values.end(), [](std::int32_t value) { return value == 42; }));
}

}  // namespace tandem::test
