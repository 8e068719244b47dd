// Reductions of floating point: what cancels, what is not finite, and how complex numbers are ordered.

#include <algorithm>
#include <complex>
#include <limits>
#include <string>

#include "reduce_support.hpp"

namespace tandem::test {

TEST_CASE("sums whose large terms cancel are exact") {
    Queue queue(device());
    for (const DType dtype : real_dtypes) {
        if (!supported(dtype)) continue;
        CAPTURE(to_string(dtype));
        // 1 is lost beside `large` in the type itself.
        const double large = std::ldexp(1.0, digits(dtype) + 1);
        std::vector<double> values;
        for (int i = 0; i < 1024; ++i)
            values.insert(values.end(), {large, 1.0, -large});
        const Placed in(dtype, reals(dtype, values));
        CHECK(real_of(queue, sum(queue, in.array)) == 1024.0);
        // The large terms far apart.
        std::stable_sort(values.begin(), values.end());
        const Placed sorted(dtype, reals(dtype, values), 2);
        if (dtype != float16) CHECK(real_of(queue, sum(queue, sorted.array)) == 1024.0);  // whose sums leave its range
        // The sum is no number of the type: nearly half way between two, it is rounded once.
        const double odd = std::ldexp(1.0, digits(dtype)) + 1.0;
        const Placed half_way(dtype, reals(dtype, {odd - 1.0, 1.0, std::ldexp(1.0, -14)}));
        CHECK(real_of(queue, sum(queue, half_way.array)) == odd + 1.0);
        const Placed below(dtype, reals(dtype, {odd + 1.0, -1.0, -std::ldexp(1.0, -14)}));
        CHECK(real_of(queue, sum(queue, below.array)) == odd - 1.0);
    }
}

TEST_CASE("infinities and NaN come through sums as they do in plain ones") {
    const double infinity = std::numeric_limits<double>::infinity();
    const double nan = std::numeric_limits<double>::quiet_NaN();
    Queue queue(device());
    for (const DType dtype : real_dtypes) {
        if (!supported(dtype)) continue;
        const double largest = dtype == float16              ? 65504.0
                               : dtype == bfloat16           ? std::ldexp(255.0, 120)
                               : component_bytes(dtype) == 4 ? static_cast<double>(std::numeric_limits<float>::max())
                                                             : std::numeric_limits<double>::max();
        struct Case {
            double first, second, expected;
        };
        const Case cases[] = {{infinity, 1.0, infinity},
                              {-infinity, 1.0, -infinity},
                              {infinity, infinity, infinity},
                              {infinity, -infinity, nan},
                              {nan, 1.0, nan},
                              {nan, infinity, nan},
                              {largest, largest, infinity},
                              {-largest, -largest, -infinity},
                              {largest, -1.0, largest},
                              {largest, 0.0, largest}};
        for (const Case& each : cases) {
            for (const std::size_t size : {2U, 300U, 5003U}) {
                // Side by side, so that they meet early, and far apart.
                for (const std::size_t second : {std::size_t{1}, size - 1}) {
                    std::vector<double> values(size, 0.0);
                    values[0] = each.first;
                    values[second] = each.second;
                    const Placed in(dtype, reals(dtype, values));
                    const double actual = real_of(queue, sum(queue, in.array));
                    CAPTURE(to_string(dtype));
                    CAPTURE(size);
                    CAPTURE(each.first);
                    CAPTURE(each.second);
                    if (std::isnan(each.expected)) {
                        CHECK(std::isnan(actual));
                    } else {
                        CHECK(actual == each.expected);
                    }
                }
            }
        }
    }
}

TEST_CASE("a NaN anywhere is the smallest and the largest") {
    const double infinity = std::numeric_limits<double>::infinity();
    Queue queue(device());
    for (const DType dtype : real_dtypes) {
        if (!supported(dtype)) continue;
        CAPTURE(to_string(dtype));
        for (const std::size_t size : {1U, 7U, 300U, 5003U}) {
            std::vector<double> values(size, 1.0);
            for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
                values[at] = std::numeric_limits<double>::quiet_NaN();
                const Placed in(dtype, reals(dtype, values), 4);
                CHECK(std::isnan(real_of(queue, min(queue, in.array))));
                CHECK(std::isnan(real_of(queue, max(queue, in.array))));
                values[at] = infinity;
                const Placed large(dtype, reals(dtype, values));
                CHECK(real_of(queue, max(queue, large.array)) == infinity);
                CHECK(real_of(queue, min(queue, large.array)) == (size == 1 ? infinity : 1.0));
                values[at] = -infinity;
                const Placed small(dtype, reals(dtype, values));
                CHECK(real_of(queue, min(queue, small.array)) == -infinity);
                values[at] = 1.0;
            }
        }
    }
    // A complex number is one where either part is.
    const auto nan = std::numeric_limits<float>::quiet_NaN();
    for (const std::complex<float> bad : {std::complex<float>(nan, 0.0F), std::complex<float>(-5.0F, nan)}) {
        std::vector<std::complex<float>> values(301, {2.0F, 3.0F});
        values[150] = bad;
        Bytes bytes(values.size() * 8);
        std::memcpy(bytes.data(), values.data(), bytes.size());
        const Placed in(complex64, bytes);
        for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
            const auto best = item<std::complex<float>>(queue, reduce(queue, op, in.array));
            CHECK((std::isnan(best.real()) || std::isnan(best.imag())));
        }
    }
}

TEST_CASE("complex numbers are ordered by real parts, then imaginary ones") {
    Queue queue(device());
    using C = std::complex<float>;
    std::vector<C> values(1000, C(0.0F, 0.0F));
    values[10] = C(-1.0F, 5.0F);
    values[500] = C(-1.0F, 4.0F);
    values[998] = C(2.0F, -7.0F);
    values[999] = C(2.0F, -6.0F);
    Bytes bytes(values.size() * sizeof(C));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    const Placed in(complex64, bytes);
    CHECK(item<C>(queue, min(queue, in.array)) == C(-1.0F, 4.0F));
    CHECK(item<C>(queue, max(queue, in.array)) == C(2.0F, -6.0F));
}

TEST_CASE("what cancels between pieces leaves nothing behind") {
    Queue queue(device());
    for (const DType dtype : real_dtypes) {
        if (!supported(dtype)) continue;
        CAPTURE(to_string(dtype));
        const double large = dtype == float16 ? 32768.0 : std::ldexp(1.0, digits(dtype) + 6);
        const Placed first(dtype, reals(dtype, {large, 1.0}));
        const Placed second(dtype, reals(dtype, {std::ldexp(1.0, -9)}));
        const Placed third(dtype, reals(dtype, {-large}));
        Reduction total(device(), ReduceOp::sum, dtype);
        for (int i = 0; i < 4; ++i) {
            total.add(queue, first.array);
            total.add(queue, second.array);
            total.add(queue, third.array);
        }
        CHECK(real_of(queue, total.result(queue)) == (dtype == bfloat16 ? 4.0 : 4.0 + std::ldexp(1.0, -7)));
        Reduction moved = std::move(total);
        moved.add(queue, second.array);
        CHECK(moved.count() == 17);
        CHECK_ERROR(ErrorCode::invalid_argument, "moved from", total.add(queue, first.array));  // NOLINT(bugprone-use-after-move)
    }
}

}  // namespace tandem::test
