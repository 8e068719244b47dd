#include "core/overlap.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <limits>
#include <random>
#include <set>

#include "core/driver.hpp"
#include "tandem/tandem.hpp"

namespace tandem {
namespace {

// An address and a size, and no bytes: layouts of any extent can be asked about.
class Nowhere : public driver::Memory {
public:
    Nowhere(std::uint64_t address, std::size_t size_bytes)
        : driver::Memory(size_bytes, MemoryKind::device, {ZeroCopy::no, "nowhere"}), address_(address) {}
    [[nodiscard]] std::uint64_t address() const noexcept override { return address_; }

private:
    std::uint64_t address_;
};

Buffer buffer_at(std::uint64_t address, std::size_t size_bytes) {
    static const Device device = open_device("host");
    return {device, std::make_shared<Nowhere>(address, size_bytes), size_bytes, MemoryKind::device};
}

// The address of each element, in C order.
std::vector<std::int64_t> addresses_of(const Array& array) {
    std::vector<std::int64_t> addresses{static_cast<std::int64_t>(array.memory()->address() + array.offset_bytes())};
    for (std::size_t d = 0; d < array.dimensions(); ++d) {
        std::vector<std::int64_t> next;
        for (const std::int64_t address : addresses) {
            for (std::int64_t i = 0; i < array.shape()[d]; ++i)
                next.push_back(address + i * array.strides_bytes()[d]);
        }
        addresses = std::move(next);
    }
    return addresses;
}

bool apart_by_counting(const Array& array) {
    std::set<std::int64_t> bytes;
    for (const std::int64_t address : addresses_of(array)) {
        for (std::int64_t k = 0; k < static_cast<std::int64_t>(size_bytes(array.dtype())); ++k) {
            if (!bytes.insert(address + k).second) return false;
        }
    }
    return true;
}

Overlap overlap_by_counting(const Array& left, const Array& right) {
    const auto a = addresses_of(left), b = addresses_of(right);
    if (a == b && !a.empty()) return Overlap::same;
    const auto item = static_cast<std::int64_t>(size_bytes(left.dtype()));
    for (const std::int64_t one : a) {
        for (const std::int64_t other : b) {
            if (std::abs(one - other) < item) return Overlap::partial;
        }
    }
    return Overlap::none;
}

// Layouts as they come up (multiples of the item, of each other) and as they don't, around a common place so that they meet.
class RandomLayouts {
public:
    explicit RandomLayouts(unsigned seed) : random_(seed) {}

    std::int64_t pick(std::int64_t low, std::int64_t high) {
        return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
    }
    DType dtype() {
        constexpr DType dtypes[] = {uint8, int16, float32, float64};
        return dtypes[pick(0, 3)];
    }
    Shape shape() {
        Shape shape(static_cast<std::size_t>(pick(0, 4)));
        for (std::int64_t& length : shape)
            length = pick(0, 30) == 0 ? 0 : pick(1, 4);
        return shape;
    }
    Strides strides(const Shape& shape, DType dtype) {
        const auto item = static_cast<std::int64_t>(size_bytes(dtype));
        const std::int64_t unit = pick(0, 2) == 0 ? 1 : item;
        Strides strides;
        for (std::size_t d = 0; d < shape.size(); ++d) {
            const std::int64_t stride = pick(0, 5) == 0 && d > 0 ? strides[d - 1] * pick(1, 3) : unit * pick(0, 24);
            strides.push_back(pick(0, 2) == 0 ? -stride : stride);
        }
        return strides;
    }
    Array array(const Shape& shape, const Strides& strides, DType dtype) {
        return {buffer_at(static_cast<std::uint64_t>(1 << 20), 1 << 16), dtype, shape, strides,
                static_cast<std::size_t>(32'768 + pick(-60, 60))};
    }

private:
    std::mt19937 random_;
};

}  // namespace

TEST_CASE("overlap: two random arrays, as counting their bytes has it") {
    RandomLayouts random(1);
    int seen[3] = {}, wrong = 0;
    for (int round = 0; round < 20'000; ++round) {
        const DType dtype = random.dtype();
        const Shape shape = random.shape();
        const Array left = random.array(shape, random.strides(shape, dtype), dtype);
        const bool alike = random.pick(0, 2) == 0;
        const Array right = random.array(shape, alike ? left.strides_bytes() : random.strides(shape, dtype), dtype);
        const Overlap expected = overlap_by_counting(left, right);
        ++seen[static_cast<int>(expected)];
        const bool is_right =
            overlap(left, right) == expected && overlap(right, left) == expected;  // NOLINT(readability-suspicious-call-argument)
        if (!is_right && wrong++ < 3) {
            FAIL_CHECK(to_string(dtype), " of ", to_string(shape), " at ", left.offset_bytes(), " by ",
                       to_string(left.strides_bytes()), " and at ", right.offset_bytes(), " by ",
                       to_string(right.strides_bytes()), ": ", static_cast<int>(overlap(left, right)), ", but ",
                       static_cast<int>(expected));
        }
    }
    CHECK(wrong == 0);
    for (const int times : seen)
        CHECK(times > 20);
}

TEST_CASE("overlap: the elements of one random array, as counting their bytes has it") {
    RandomLayouts random(2);
    int apart = 0, wrong = 0;
    constexpr int rounds = 20'000;
    for (int round = 0; round < rounds; ++round) {
        const DType dtype = random.dtype();
        const Shape shape = random.shape();
        const Array array = random.array(shape, random.strides(shape, dtype), dtype);
        const bool expected = apart_by_counting(array);
        apart += expected ? 1 : 0;
        if (elements_are_apart(array) != expected && wrong++ < 3) {
            FAIL_CHECK(to_string(dtype), " of ", to_string(shape), " by ", to_string(array.strides_bytes()), ": ",
                       expected ? "apart" : "not apart");
        }
    }
    CHECK(wrong == 0);
    CHECK(apart > rounds / 10);
    CHECK(apart < rounds * 9 / 10);
}

TEST_CASE("overlap: what slices leave between them, at any size") {
    const std::int64_t n = std::int64_t{1} << 20;
    const Array square(buffer_at(0, std::size_t{1} << 42), float32, {n, n});
    const auto rows = [&](std::int64_t first, std::int64_t step) { return square.slice(0, first, n, step); };
    const auto columns = [&](std::int64_t first, std::int64_t step) { return square.slice(1, first, n, step); };
    CHECK(overlap(rows(0, 2), rows(1, 2)) == Overlap::none);
    CHECK(overlap(columns(0, 2), columns(1, 2)) == Overlap::none);
    CHECK(overlap(columns(0, 2).slice(0, 1, n, 2), columns(0, 2).slice(0, 0, n, 2)) == Overlap::none);
    CHECK(overlap(square.slice(1, 0, n / 2), square.slice(1, n / 2, n)) == Overlap::none);
    CHECK(overlap(square.slice(1, 0, n / 2 + 1), square.slice(1, n / 2 - 1, n)) == Overlap::partial);
    CHECK(overlap(square, square.transpose()) == Overlap::partial);
    // Of a square, the part left of the middle and its mirror image right of it, transposed.
    const Array corner = square.slice(0, 0, n / 2).slice(1, n / 2, n);
    CHECK(overlap(corner, square.slice(0, n / 2, n).slice(1, 0, n / 2).transpose()) == Overlap::none);
    CHECK(overlap(corner, corner.slice(0, n, -n - 1, -1)) == Overlap::partial);
    CHECK(elements_are_apart(columns(0, 3).slice(0, n, -n - 1, -5).transpose()));
    CHECK(elements_are_apart(Array(buffer_at(0, 64), float32, {3, 2}, Strides{8, 12}, 0)));
    CHECK_FALSE(elements_are_apart(Array(buffer_at(0, 64), float32, {3, 2}, Strides{8, 16}, 0)));
    CHECK_FALSE(elements_are_apart(Array(buffer_at(0, 64), float32, {3, 2}, Strides{8, 10}, 0)));
}

TEST_CASE("overlap: two memories that share bytes") {
    const Array one(buffer_at(1000, 100), uint8, {50, 2}), other(buffer_at(1001, 100), uint8, {50, 2});
    CHECK(overlap(one, other) == Overlap::partial);
    CHECK(overlap(one.slice(1, 0, 1), other.slice(1, 0, 1)) == Overlap::none);
    CHECK(overlap(one.slice(0, 1, 50), Array(buffer_at(1002, 100), uint8, {49, 2})) == Overlap::same);
}

TEST_CASE("overlap: strides that are never taken may be any number") {
    constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
    const Buffer buffer = buffer_at(0, 100);
    const Array odd(buffer, float32, {1, 5, 1}, Strides{lowest, 8, lowest}, 0);
    CHECK(elements_are_apart(odd));
    CHECK(overlap(odd, Array(buffer, float32, {1, 5, 1}, Strides{0, 8, 3}, 0)) == Overlap::same);
    CHECK(overlap(odd, Array(buffer, float32, {1, 5, 1}, Strides{0, 8, 3}, 4)) == Overlap::none);
    const std::int64_t many = std::int64_t{1} << 62;
    CHECK_FALSE(elements_are_apart(Array(buffer, uint8, {many, 1}, Strides{0, 0}, 0)));
    CHECK(overlap(Array(buffer, uint8, {many}, Strides{0}, 0), Array(buffer, uint8, {many}, Strides{0}, 1)) == Overlap::none);
}

TEST_CASE("overlap: a layout that no short search can tell is taken to share bytes, and soon") {
    // Elements at all sums of 40 large numbers with nothing in common.
    std::mt19937_64 random(3);
    const Shape shape(40, 2);
    Strides strides;
    for (std::size_t d = 0; d < shape.size(); ++d)
        strides.push_back(static_cast<std::int64_t>((random() >> 8U) / 64));
    const Buffer buffer = buffer_at(0, std::size_t{1} << 62U);
    const Array tangled(buffer, uint8, shape, strides, 0);
    const Array other(buffer, uint8, shape, strides, 12'345);
    const auto start = std::chrono::steady_clock::now();
    CHECK_FALSE(elements_are_apart(tangled));
    CHECK(overlap(tangled, other) == Overlap::partial);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::milliseconds(200));
}

}  // namespace tandem
