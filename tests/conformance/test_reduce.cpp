// Expected values are exact: elements are integers in units of a power of two, and are added up as such.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <string>

#include "reduce_support.hpp"

namespace tandem::test {
namespace {

__extension__ using Wide = __int128;
__extension__ using Quad = __float128;

constexpr ReduceOp reduce_ops[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max};

bool is_real(DType dtype) {
    return dtype >= float16;
}
bool is_signed(DType dtype) {
    return dtype >= int8 && dtype <= int64;
}
std::size_t components(DType dtype) {
    return is_complex(dtype) ? 2 : 1;
}
// The unit in which floating point elements are integers.
Quad unit(DType dtype) {
    return is_real(dtype) ? Quad(std::ldexp(1.0, dtype == float16 ? -12 : -30)) : Quad(1);
}

// A component of `units`, which it can hold.
void store(DType dtype, Wide units, std::byte* to) {
    if (!is_real(dtype)) {
        const auto bits = static_cast<std::uint64_t>(units);
        std::memcpy(to, &bits, size_bytes(dtype));
        return;
    }
    const auto value = static_cast<double>(static_cast<Quad>(units) * unit(dtype));
    const auto single = static_cast<float>(value);
    const Float16 half(single);
    const BFloat16 brain(single);
    const void* from = component_bytes(dtype) == 8 ? static_cast<const void*>(&value) : &single;
    if (dtype == float16) from = &half;
    if (dtype == bfloat16) from = &brain;
    std::memcpy(to, from, component_bytes(dtype));
}

// Elements and what they are in units: one number for each component.
struct Elements {
    DType dtype;
    std::vector<Wide> units;

    [[nodiscard]] std::size_t count() const { return units.size() / components(dtype); }
    [[nodiscard]] Bytes bytes() const {
        Bytes all(units.size() * component_bytes(dtype));
        for (std::size_t i = 0; i < units.size(); ++i)
            store(dtype, units[i], all.data() + i * component_bytes(dtype));
        return all;
    }
};

// All that the type holds for integers; for floating point numbers of either sign, of all digits and several magnitudes.
Elements make(DType dtype, std::int64_t count, std::uint64_t seed) {
    Elements elements{dtype, std::vector<Wide>(static_cast<std::size_t>(count) * components(dtype))};
    std::uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
    const auto next = [&] {  // xorshift64*
        state ^= state >> 12U;
        state ^= state << 25U;
        state ^= state >> 27U;
        return state * 0x2545f4914f6cdd1dU;
    };
    const auto bits = static_cast<int>(8 * size_bytes(dtype));
    for (Wide& units : elements.units) {
        const std::uint64_t random = next();
        if (is_real(dtype)) {
            const auto magnitude = static_cast<Wide>(random >> static_cast<unsigned>(64 - digits(dtype)));
            units = (magnitude << static_cast<int>(random % (dtype == float16 ? 6 : 20))) * ((random & 64U) != 0 ? 1 : -1);
        } else if (dtype == boolean) {
            units = static_cast<Wide>((random >> 8U) % 3 == 0 ? 0 : random % 256);
        } else {
            units = is_signed(dtype) ? Wide{static_cast<std::int64_t>(random) >> (64 - bits)}
                                     : static_cast<Wide>(random >> static_cast<unsigned>(64 - bits));
        }
    }
    return elements;
}

// Checks `actual`, an element's bytes, against the sum of `elements`: by the bound in include/tandem/reduce.hpp, which for
// integers is zero.
void check_sum(const Elements& elements, const Bytes& actual) {
    const DType dtype = elements.dtype;
    for (std::size_t c = 0; c < components(dtype); ++c) {
        Wide exact = 0;
        Wide magnitude = 0;
        for (std::size_t i = c; i < elements.units.size(); i += components(dtype)) {
            const Wide units = dtype == boolean ? Wide{elements.units[i] != 0} : elements.units[i];
            exact += units;
            magnitude += units < 0 ? -units : units;
        }
        if (!is_real(dtype)) {
            CHECK(load_as<std::uint64_t>(actual.data()) == static_cast<std::uint64_t>(exact));
            continue;
        }
        const Quad value = static_cast<Quad>(load_real(dtype, actual.data() + c * component_bytes(dtype))) / unit(dtype);
        const Quad difference =
            value > static_cast<Quad>(exact) ? value - static_cast<Quad>(exact) : static_cast<Quad>(exact) - value;
        const int wide = component_bytes(dtype) == 8 ? 58 : 0;
        const Quad factor = static_cast<Quad>(std::ldexp(1.0, -31 - wide)) +
                            static_cast<Quad>(std::ldexp(static_cast<double>(elements.count()), -54 - wide));
        const Quad rounding = static_cast<Quad>(std::ldexp(1.0, -digits(dtype)));
        const Quad bound = rounding * static_cast<Quad>(exact < 0 ? -exact : exact) + factor * static_cast<Quad>(magnitude);
        CHECK_MESSAGE(difference <= bound, static_cast<double>(value)
                                               << " for " << static_cast<double>(static_cast<Quad>(exact)));
    }
}

void check_extremum(ReduceOp op, const Elements& elements, const Bytes& actual) {
    const std::size_t each = components(elements.dtype);
    std::vector<Wide> best(elements.units.begin(), elements.units.begin() + static_cast<std::ptrdiff_t>(each));
    for (std::size_t i = each; i < elements.units.size(); i += each) {
        const auto at = elements.units.begin() + static_cast<std::ptrdiff_t>(i);
        const std::vector<Wide> one(at, at + static_cast<std::ptrdiff_t>(each));
        if (op == ReduceOp::min ? one < best : best < one) best = one;
    }
    if (elements.dtype == boolean) {
        const auto is_true = [](Wide units) { return units != 0; };
        best[0] = op == ReduceOp::min ? std::all_of(elements.units.begin(), elements.units.end(), is_true)
                                      : std::any_of(elements.units.begin(), elements.units.end(), is_true);
    }
    CHECK(first_difference(elements.dtype, actual, Elements{elements.dtype, best}.bytes()) == -1);
}

void check_reduced(ReduceOp op, const Elements& elements, Queue& queue, const Array& result) {
    CHECK(result.dtype() == result_dtype(op, elements.dtype));
    CHECK(result.dimensions() == 0);
    const Bytes actual = item_bytes(queue, result);
    if (op == ReduceOp::sum) {
        check_sum(elements, actual);
    } else {
        check_extremum(op, elements, actual);
    }
}

}  // namespace

TEST_CASE("every reduction of every dtype at every size") {
    Queue queue(device());
    // In windows of a few kilobytes a million elements are thousands of calls.
    const std::int64_t prime = options().window_bytes != 0 ? 100'003 : 1'000'003;
    for (const DType dtype : all_dtypes) {
        if (!supported(dtype)) continue;
        for (const std::int64_t size : {std::int64_t{0}, std::int64_t{1}, std::int64_t{7}, std::int64_t{255}, std::int64_t{256},
                                        std::int64_t{257}, prime}) {
            const Elements elements = make(dtype, size, static_cast<std::uint64_t>(size) + 1);
            const Placed in(elements.dtype, elements.bytes());
            for (const ReduceOp op : reduce_ops) {
                const std::string name =
                    std::string(to_string(op)) + " " + std::string(to_string(dtype)) + " " + std::to_string(size);
                CAPTURE(name);
                if (size == 0 && op != ReduceOp::sum) {
                    CHECK_ERROR(ErrorCode::invalid_argument, "there are no elements", (void)reduce(queue, op, in.array));
                } else {
                    check_reduced(op, elements, queue, reduce(queue, op, in.array));
                }
            }
        }
    }
}

TEST_CASE("every reduction of every dtype at any byte offset") {
    Queue queue(device());
    for (const DType dtype : all_dtypes) {
        if (!supported(dtype)) continue;
        for (const std::size_t offset : {1U, 2U, 3U, 4U, 8U, 12U, 17U}) {
            for (const std::int64_t size : {1, 3, 37, 5003}) {
                const Elements elements = make(dtype, size, offset);
                const Placed in(elements.dtype, elements.bytes(), offset);
                for (const ReduceOp op : reduce_ops) {
                    const std::string name = std::string(to_string(op)) + " " + std::string(to_string(dtype)) + " " +
                                             std::to_string(size) + " at " + std::to_string(offset);
                    CAPTURE(name);
                    check_reduced(op, elements, queue, reduce(queue, op, in.array));
                }
            }
        }
    }
}

TEST_CASE("every reduction of arrays of any layout") {
    // Extents and strides in elements; elements that no index reaches are the largest there are, or NaN.
    struct Layout {
        Shape shape;
        Strides strides;
        std::int64_t first;
    };
    const Layout layouts[] = {
        {{30, 70}, {1, 30}, 0},                                                  // Fortran order
        {{5, 7, 11}, {7, 1, 35}, 0},                                             // dense, its dimensions in another order
        {{1000}, {3}, 0},                                                        // gaps
        {{1000}, {-1}, 999},                                                     // backwards
        {{40, 50}, {-60, -1}, 40 * 60 - 1},                                      // rows backwards, with gaps
        {{50, 40}, {1, 61}, 0},                                                  // Fortran order with gaps
        {{3, 4, 500}, {2200, 530, 1}, 7},                                        // long rows
        {{900, 2}, {4, 1}, 1},                                                   // short rows
        {{3, 2, 3, 2, 3, 2, 3, 2}, {7000, 3200, 1000, 480, 150, 70, 20, 9}, 0},  // more dimensions than a kernel walks
        {{1, 13, 1}, {5, 2, 9}, 3},
    };
    Queue queue(device());
    for (const DType dtype : all_dtypes) {
        if (!supported(dtype)) continue;
        for (const Layout& layout : layouts) {
            for (const std::size_t offset : {std::size_t{0}, std::size_t{3}}) {
                const std::int64_t count = element_count(layout.shape);
                const Elements elements = make(dtype, count, offset + 5);
                const Bytes dense = elements.bytes();
                const std::size_t item = size_bytes(dtype);
                std::vector<std::int64_t> places;
                for (std::int64_t i = 0; i < count; ++i) {
                    std::int64_t rest = i;
                    std::int64_t place = layout.first;
                    for (std::size_t d = layout.shape.size(); d-- > 0;) {
                        place += rest % layout.shape[d] * layout.strides[d];
                        rest /= layout.shape[d];
                    }
                    places.push_back(place);
                }
                const auto span = static_cast<std::size_t>(*std::max_element(places.begin(), places.end())) + 1;
                Bytes all(offset + span * item, std::byte{0x7f});
                for (std::size_t i = 0; i < places.size(); ++i)
                    std::memcpy(all.data() + offset + static_cast<std::size_t>(places[i]) * item, dense.data() + i * item, item);
                const Buffer buffer = buffer_with(all);
                Strides strides = layout.strides;
                for (std::int64_t& stride : strides)
                    stride *= static_cast<std::int64_t>(item);
                const Array in(buffer, dtype, layout.shape, strides, offset + static_cast<std::size_t>(layout.first) * item);
                for (const ReduceOp op : reduce_ops) {
                    const std::string name = std::string(to_string(op)) + " " + std::string(to_string(dtype)) + " " +
                                             to_string(layout.shape) + " at " + std::to_string(offset);
                    CAPTURE(name);
                    check_reduced(op, elements, queue, reduce(queue, op, in));
                }
            }
        }
    }
}

TEST_CASE("an element that an array has several times counts each time") {
    Queue queue(device());
    const Placed in(float32, reals(float32, {3.0, 0.5}));
    const Array repeated(*in.buffer, float32, {1000, 2}, Strides{0, 4}, 0);
    CHECK(item<float>(queue, sum(queue, repeated)) == 3500.0F);
    CHECK(item<float>(queue, min(queue, repeated)) == 0.5F);
    CHECK(item<float>(queue, max(queue, repeated)) == 3.0F);
}

TEST_CASE("a reduction of uneven pieces is that of the whole") {
    Queue queue(device());
    for (const DType dtype : all_dtypes) {
        if (!supported(dtype)) continue;
        const Elements elements = make(dtype, 20'011, 3);
        const Placed in(elements.dtype, elements.bytes());
        for (const ReduceOp op : reduce_ops) {
            CAPTURE(to_string(dtype));
            CAPTURE(to_string(op));
            Reduction reduction(device(), op, dtype);
            std::int64_t at = 0;
            for (std::int64_t size = 0; at < 20'011; size = size * 3 + 1) {
                const std::int64_t end = std::min<std::int64_t>(at + size, 20'011);
                reduction.add(queue, in.array.slice(0, at, end));
                at = end;
                CHECK(reduction.count() == end);
            }
            const Array result = reduction.result(queue);
            check_reduced(op, elements, queue, result);
            // What has been given out stays as it is when more is added.
            const Bytes before = item_bytes(queue, result);
            reduction.add(queue, in.array.slice(0, 0, 1000));
            CHECK(item_bytes(queue, result) == before);
        }
    }
}

TEST_CASE("the same reduction gives the same bits each time") {
    Queue queue(device());
    const Elements elements = make(float32, 50'021, 9);
    const Placed in(elements.dtype, elements.bytes());
    const Bytes first = item_bytes(queue, sum(queue, in.array));
    for (int i = 0; i < 5; ++i)
        CHECK(item_bytes(queue, sum(queue, in.array)) == first);
}

TEST_CASE("reductions run in their queue's order and keep what they use") {
    Queue queue(device());
    constexpr std::int64_t count = 200'003;
    std::vector<std::int32_t> ones(count, 1);
    Array x = make_array(int32, {count});
    copy(queue, ones, x);
    twice(queue, x);
    const Array two = sum(queue, x);
    twice(queue, x);
    const Array four = sum(queue, x);
    const Array least = min(queue, x);
    x = Array();  // its memory is in use
    const Array six = empty_like(two);
    add(queue, two, four, six);
    CHECK(item<std::int64_t>(queue, six) == 6 * count);
    CHECK(item<std::int32_t>(queue, least) == 4);

    // Another queue, ordered by an event.
    Queue other(device());
    Array y = make_array(int32, {count});
    copy(queue, ones, y);
    Reduction total(device(), ReduceOp::sum, int32);
    total.add(queue, y);
    other.wait(queue.record());
    total.add(other, y);
    CHECK(item<std::int64_t>(other, total.result(other)) == 2 * count);
    queue.synchronize();
}

TEST_CASE("reductions of what they can't reduce are refused") {
    Queue queue(device());
    const Placed in(float32, make(float32, 10, 1).bytes());
    Reduction integers(device(), ReduceOp::sum, int32);
    CHECK_ERROR(ErrorCode::invalid_argument, "float32 (10,), the reduction is of int32", integers.add(queue, in.array));
    CHECK(integers.count() == 0);
    CHECK(item<std::int64_t>(queue, integers.result(queue)) == 0);
    const Reduction none(device(), ReduceOp::max, float32);
    CHECK_ERROR(ErrorCode::invalid_argument, "max: there are no elements", (void)none.result(queue));
    CHECK_ERROR(ErrorCode::invalid_argument, "no device", (void)sum(queue, Array()));
    {
        HostView view = in.buffer->map(Access::write);
        CHECK_ERROR(ErrorCode::invalid_argument, "mapped for the host", (void)sum(queue, in.array));
        view.unmap();
    }
    Queue moved = std::move(queue);
    CHECK_ERROR(ErrorCode::invalid_argument, "moved from", (void)min(queue, in.array));  // NOLINT(bugprone-use-after-move)
    if (device().info().backend != "host") {
        const Device host = open_device("host");
        Queue elsewhere(host);
        CHECK_ERROR(ErrorCode::invalid_argument, "the queue on host:0", (void)sum(elsewhere, in.array));
        Reduction there(host, ReduceOp::sum, float32);
        CHECK_ERROR(ErrorCode::invalid_argument, "the reduction is on host:0", there.add(moved, in.array));
        CHECK_ERROR(ErrorCode::invalid_argument, "the reduction is on host:0", (void)there.result(moved));
    }
    if (!device().info().has_float64) {
        for (const DType dtype : {float64, complex128})
            CHECK_ERROR(ErrorCode::unsupported, "double precision", Reduction(device(), ReduceOp::sum, dtype));
    }
}

TEST_CASE("item is the one element of an array and nothing else") {
    Queue queue(device());
    const Placed in(int16, make(int16, 10, 1).bytes());
    CHECK(item<std::int16_t>(queue, in.array.slice(0, 3, 4)) == to_vector<std::int16_t>(queue, in.array)[3]);
    CHECK_ERROR(ErrorCode::invalid_argument, "one element of int16 is asked for, the array is int16 (10,)",
                (void)item<std::int16_t>(queue, in.array));
    CHECK_ERROR(ErrorCode::invalid_argument, "one element of float32 is asked for, the array is int16 (1,)",
                (void)item<float>(queue, in.array.slice(0, 3, 4)));
    CHECK_ERROR(ErrorCode::invalid_argument, "the array is int16 (0,)", (void)item<std::int16_t>(queue, in.array.slice(0, 3, 3)));
}

}  // namespace tandem::test
