#include <algorithm>
#include <array>
#include <string>

#include "placed.hpp"

namespace tandem::test {
namespace {

struct Operation {
    Op op;
    void (*run)(Queue&, const Array&, const Array&, const Array&);
};

constexpr Operation operations[] = {
    {Op::add, [](Queue& queue, const Array& a, const Array& b, const Array& out) { add(queue, a, b, out); }},
    {Op::twice, [](Queue& queue, const Array& a, const Array&, const Array& out) { twice(queue, a, out); }},
    {Op::byteswap, [](Queue& queue, const Array& a, const Array&, const Array& out) { byteswap(queue, a, out); }},
};

}  // namespace

TEST_CASE("every operation on every dtype at every size") {
    Queue queue(device());
    for (const Operation& operation : operations) {
        for (const DType dtype : all_dtypes) {
            if (!supported(dtype)) continue;
            for (const std::int64_t size : sizes) {
                const std::string name =
                    std::string(to_string(operation.op)) + " " + std::string(to_string(dtype)) + " " + std::to_string(size);
                CAPTURE(name);
                const Placed a(dtype, size, 0, 1);
                const Placed b(dtype, size, 0, 2);
                const Placed out(dtype, size, 0, 3);
                operation.run(queue, a.array, b.array, out.array);
                check_result(out, reference(operation.op, dtype, a.elements, b.elements));
                CHECK(bytes_of(*a.buffer) == a.before);
                CHECK(bytes_of(*b.buffer) == b.before);
            }
        }
    }
}

TEST_CASE("every operation on every dtype at any byte offset") {
    Queue queue(device());
    constexpr std::array<std::array<std::size_t, 3>, 8> offsets{
        {{64, 64, 64}, {1, 1, 1}, {8, 8, 8}, {4, 4, 4}, {0, 4, 8}, {2, 6, 2}, {3, 0, 5}, {80, 128, 17}}};
    for (const Operation& operation : operations) {
        for (const DType dtype : all_dtypes) {
            if (!supported(dtype)) continue;
            for (const auto& at : offsets) {
                for (const std::int64_t size : {1, 3, 17, 1009}) {
                    const std::string name = std::string(to_string(operation.op)) + " " + std::string(to_string(dtype)) + " " +
                                             std::to_string(size) + " at " + std::to_string(at[0]) + " " + std::to_string(at[1]) +
                                             " " + std::to_string(at[2]);
                    CAPTURE(name);
                    const Placed a(dtype, size, at[0], 4);
                    const Placed b(dtype, size, at[1], 5);
                    const Placed out(dtype, size, at[2], 6);
                    operation.run(queue, a.array, b.array, out.array);
                    check_result(out, reference(operation.op, dtype, a.elements, b.elements));
                }
            }
        }
    }
}

TEST_CASE("in place, with each input as the output") {
    Queue queue(device());
    for (const DType dtype : all_dtypes) {
        if (!supported(dtype)) continue;
        CAPTURE(to_string(dtype));
        for (const std::size_t offset : {std::size_t{0}, std::size_t{3}}) {
            const Placed a(dtype, 1009, offset, 7);
            const Placed b(dtype, 1009, 16, 8);
            const Bytes sum = reference(Op::add, dtype, a.elements, b.elements);
            add(queue, a.array, b.array, a.array);
            check_result(a, sum);
            const Bytes second = reference(Op::add, dtype, sum, b.elements);
            add(queue, a.array, b.array, b.array);
            check_result(b, second);
            twice(queue, b.array);
            check_result(b, reference(Op::twice, dtype, second, {}));
            const Placed c(dtype, 257, offset, 9);
            add(queue, c.array, c.array, c.array);
            check_result(c, reference(Op::twice, dtype, c.elements, {}));
        }
    }
}

TEST_CASE("float64 on a device without it is refused with that reason") {
    if (device().info().has_float64) {
        CHECK(make_array(float64, {1}).count() == 1);
        return;
    }
    for (const DType dtype : {float64, complex128})
        CHECK_ERROR(ErrorCode::unsupported, "double precision", make_array(dtype, {1}));
}

}  // namespace tandem::test
