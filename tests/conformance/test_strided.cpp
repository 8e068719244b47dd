#include <numeric>
#include <string>

#include "fixture.hpp"

namespace tandem::test {
namespace {

constexpr DType dtypes[] = {boolean, uint8, int16, float16, bfloat16, float32, int64, complex64};

// True where `before` and `after`, the bytes of a buffer, are the same but for the elements of `array`.
bool is_intact_outside(const Array& array, const Bytes& before, const Bytes& after) {
    std::vector<bool> written(after.size(), false);
    std::vector<std::int64_t> index(array.dimensions(), 0);
    for (std::int64_t i = 0; i < array.count(); ++i) {
        auto at = static_cast<std::int64_t>(array.offset_bytes());
        for (std::size_t d = 0; d < index.size(); ++d)
            at += index[d] * array.strides_bytes()[d];
        for (std::size_t k = 0; k < size_bytes(array.dtype()); ++k)
            written[static_cast<std::size_t>(at) + k] = true;
        for (std::size_t d = index.size(); d-- > 0;) {
            if (++index[d] < array.shape()[d]) break;
            index[d] = 0;
        }
    }
    for (std::size_t k = 0; k < after.size(); ++k) {
        if (!written[k] && after[k] != before[k]) return false;
    }
    return true;
}

// `out` becomes `in` doubled, and then `in`; both are views of `buffer` without a common byte.
void check_apart(const Buffer& buffer, const Array& in, const Array& out) {
    Queue queue(device());
    const Bytes before = bytes_of(buffer);
    const Bytes elements = elements_of(buffer, in);
    twice(queue, in, out);
    const Bytes doubled = reference(Op::twice, in.dtype(), elements, {});
    CHECK(first_difference(in.dtype(), elements_of(buffer, out), doubled) == -1);
    CHECK(is_intact_outside(out, before, bytes_of(buffer)));
    copy(queue, in, out);
    CHECK(first_difference(in.dtype(), elements_of(buffer, out), reference(Op::copy, in.dtype(), elements, {})) == -1);
    CHECK(is_intact_outside(out, before, bytes_of(buffer)));
}

// Three arrays made from three buffers by one recipe each; the operation's result is compared element by element.
template <class MakeLeft, class MakeRight, class MakeOut>
void check_layouts(DType dtype, std::int64_t elements, MakeLeft&& make_left, MakeRight&& make_right, MakeOut&& make_out) {
    Queue queue(device());
    for (const std::size_t offset : {std::size_t{0}, std::size_t{1}}) {
        const std::string name = std::string(to_string(dtype)) + " at offset " + std::to_string(offset);
        CAPTURE(name);
        const auto bytes = static_cast<std::size_t>(elements) * size_bytes(dtype) + offset;
        const auto buffer = [&](std::uint64_t seed) {
            Bytes content = make_elements(dtype, static_cast<std::size_t>(elements) + 1, seed);
            content.resize(bytes);
            return buffer_with(content);
        };
        const Buffer left_buffer = buffer(1), right_buffer = buffer(2), out_buffer = buffer(3);
        const Array left = make_left(left_buffer, offset);
        const Array right = make_right(right_buffer, offset);
        const Array out = make_out(out_buffer, offset);
        REQUIRE(left.shape() == out.shape());
        REQUIRE(right.shape() == out.shape());

        const Bytes left_elements = elements_of(left_buffer, left);
        const Bytes right_elements = elements_of(right_buffer, right);
        // What the output's buffer must hold: the sum in the view's elements, everything else untouched.
        const Bytes before = bytes_of(out_buffer);
        add(queue, left, right, out);
        const Bytes actual = elements_of(out_buffer, out);
        CHECK(first_difference(dtype, actual, reference(Op::add, dtype, left_elements, right_elements)) == -1);

        const Bytes after = bytes_of(out_buffer);
        CHECK(is_intact_outside(out, before, after));
    }
}

}  // namespace

TEST_CASE("C order, Fortran order and both together") {
    for (const DType dtype : dtypes) {
        const auto c = [&](const Buffer& buffer, std::size_t offset) { return Array(buffer, dtype, {13, 7, 11}, offset); };
        const auto f = [&](const Buffer& buffer, std::size_t offset) {
            return Array(buffer, dtype, {13, 7, 11}, offset, Order::fortran);
        };
        check_layouts(dtype, 1001, f, f, f);
        check_layouts(dtype, 1001, c, f, c);
        check_layouts(dtype, 1001, f, c, c);
        check_layouts(dtype, 1001, c, c, f);
    }
}

TEST_CASE("slices with steps, backwards too") {
    for (const DType dtype : dtypes) {
        const auto whole = [&](const Buffer& buffer, std::size_t offset) { return Array(buffer, dtype, {20, 50}, offset); };
        check_layouts(
            dtype, 1000, [&](const Buffer& b, std::size_t o) { return whole(b, o).slice(0, 0, 20, 2).slice(1, 1, 50, 7); },
            [&](const Buffer& b, std::size_t o) { return whole(b, o).slice(0, 19, -21, -2).slice(1, 43, 0, -6).slice(1, 0, 7); },
            [&](const Buffer& b, std::size_t o) { return whole(b, o).slice(0, 3, 13).slice(1, 48, -51, -7); });
        check_layouts(
            dtype, 1000, [&](const Buffer& b, std::size_t o) { return whole(b, o).slice(1, 10, 20); },
            [&](const Buffer& b, std::size_t o) { return whole(b, o).slice(1, 30, 40); },
            [&](const Buffer& b, std::size_t o) { return whole(b, o).slice(1, 0, 10); });
        const auto reversed = [&](const Buffer& b, std::size_t o) {
            return whole(b, o).slice(0, 19, -21, -1).slice(1, 49, -51, -1);
        };
        check_layouts(dtype, 1000, reversed, reversed, reversed);
    }
}

TEST_CASE("one element repeated along an input's dimension") {
    for (const DType dtype : dtypes) {
        const auto item = static_cast<std::int64_t>(size_bytes(dtype));
        check_layouts(
            dtype, 300,
            [&](const Buffer& b, std::size_t o) {
                return Array(b, dtype, {12, 25}, Strides{0, item}, o);
            },
            [&](const Buffer& b, std::size_t o) {
                return Array(b, dtype, {12, 25}, Strides{item, 0}, o);
            },
            [&](const Buffer& b, std::size_t o) {
                return Array(b, dtype, {12, 25}, o);
            });
    }
}

TEST_CASE("more dimensions than a kernel walks") {
    for (const DType dtype : {uint8, float32, complex64}) {
        // Ten dimensions of which every other one is sliced, so that none can be merged.
        const auto sliced = [&](const Buffer& buffer, std::size_t offset) {
            Array array(buffer, dtype, Shape(9, 3), offset);
            for (std::size_t d = 0; d < 9; ++d)
                array = array.slice(d, 0, 3, 2);
            return array;
        };
        const auto transposed = [&](const Buffer& buffer, std::size_t offset) { return sliced(buffer, offset).transpose(); };
        check_layouts(dtype, 19'683, sliced, sliced, sliced);
        check_layouts(dtype, 19'683, sliced, transposed, sliced);
        const auto many = [&](const Buffer& buffer, std::size_t offset) {
            return Array(buffer, dtype, Shape(max_dimensions, 1), offset);
        };
        check_layouts(dtype, 1, many, many, many);
    }
}

TEST_CASE("columns of one buffer are apart, and can be added to each other") {
    Queue queue(device());
    const Bytes content = make_elements(int32, 300, 1);
    const Buffer buffer = buffer_with(content);
    const Array table(buffer, int32, {100, 3});
    const Array first = table.slice(1, 0, 1), second = table.slice(1, 1, 2), third = table.slice(1, 2, 3);
    const Bytes expected = reference(Op::add, int32, elements_of(buffer, first), elements_of(buffer, second));
    add(queue, first, second, third);
    CHECK(elements_of(buffer, third) == expected);
    CHECK(first_difference(int32, elements_of(buffer, second), elements_of(buffer_with(content), second)) == -1);
}

TEST_CASE("views of one buffer without a common byte, however they interleave") {
    for (const DType dtype : dtypes) {
        for (const std::int64_t n : {8, 60}) {
            CAPTURE(to_string(dtype));
            CAPTURE(n);
            const Buffer buffer = buffer_with(make_elements(dtype, static_cast<std::size_t>(n * n), 1));
            const Array square(buffer, dtype, {n, n});
            check_apart(buffer, square.slice(0, 0, n, 2), square.slice(0, 1, n, 2));
            check_apart(buffer, square.slice(0, n, -n - 1, -2), square.slice(0, 0, n, 2));
            check_apart(buffer, square.slice(1, 0, n, 2), square.slice(1, n, -n - 1, -2));
            check_apart(buffer, square.slice(1, 0, n / 2), square.slice(1, n / 2, n));
            check_apart(buffer, square.slice(0, 0, n / 2).slice(1, n / 2, n),
                        square.slice(0, n / 2, n).slice(1, 0, n / 2).transpose());
            const Array table(buffer, dtype, {n * n / 5, 5});
            check_apart(buffer, table.slice(1, 0, 2), table.slice(1, 2, 4));
        }
    }
}

TEST_CASE("an output of elements that interleave, but don't share a byte") {
    for (const DType dtype : dtypes) {
        CAPTURE(to_string(dtype));
        const auto item = static_cast<std::int64_t>(size_bytes(dtype));
        const Buffer buffer = buffer_with(make_elements(dtype, 2000, 1));
        // In items: 0, 3, 2, 5, 4, 7, and so on for as many rows as are wanted.
        for (const std::int64_t rows : {3, 400}) {
            const Array in(buffer, dtype, {rows, 2}, static_cast<std::size_t>(1000 * item));
            check_apart(buffer, in, Array(buffer, dtype, {rows, 2}, Strides{2 * item, 3 * item}, 0));
            check_apart(buffer, in,
                        Array(buffer, dtype, {rows, 2}, Strides{2 * item, -3 * item}, static_cast<std::size_t>(3 * item)));
        }
    }
}

TEST_CASE("zero elements of any shape do nothing") {
    Queue queue(device());
    const Buffer buffer = make_buffer(0);
    const Array none(buffer, float32, {3, 0, 5});
    add(queue, none, none, none);
    twice(queue, none);
    const Buffer some = buffer_with(make_elements(float32, 10, 1));
    const Array empty_slice = Array(some, float32, {10}).slice(0, 5, 5);
    CHECK(empty_slice.count() == 0);
    add(queue, empty_slice, empty_slice, empty_slice);
    queue.synchronize();
}

TEST_CASE("a scalar is an array without dimensions") {
    Queue queue(device());
    const Buffer buffer = buffer_with(make_elements(int64, 1, 1));
    const Bytes before = bytes_of(buffer);
    twice(queue, Array(buffer, int64, {}));
    CHECK(bytes_of(buffer) == reference(Op::twice, int64, before, {}));
}

}  // namespace tandem::test
