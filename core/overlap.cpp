#include "core/overlap.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

#include "core/driver.hpp"

namespace tandem {
namespace {

std::int64_t item_bytes(const Array& array) noexcept {
    return static_cast<std::int64_t>(size_bytes(array.dtype()));
}

// How far apart two neighbours along `dimension` are; 0 where there is one element, whose stride may be any number.
std::int64_t step(const Array& array, std::size_t dimension) noexcept {
    return array.shape()[dimension] > 1 ? std::abs(array.strides_bytes()[dimension]) : 0;
}

// Strides of dimensions with one element say nothing.
bool same_layout(const Array& left, const Array& right) noexcept {
    if (left.is_dense(Order::c) && right.is_dense(Order::c)) return true;
    for (std::size_t d = 0; d < left.dimensions(); ++d) {
        if (left.shape()[d] > 1 && left.strides_bytes()[d] != right.strides_bytes()[d]) return false;
    }
    return true;
}

// Which sums of strides there are: the sums of `stride * x` over all terms, each x chosen freely from [0, count).
class StrideSums {
public:
    void add(std::int64_t stride, std::int64_t count) noexcept {
        if (stride > 0 && count > 1) terms_[terms_count_++] = {stride, count, 0, 0};
    }

    /// True where one of the sums lies in [low, high], or where `steps` are too few to tell; takes the steps that it needs from
    /// them. Once for each object.
    bool reaches(std::int64_t low, std::int64_t high, int& steps) noexcept {
        simplify(low, high);
        steps_ = steps;
        const bool found = search(0, low, high);
        steps = steps_;
        return found;
    }

private:
    struct Term {
        std::int64_t stride, count;
        std::int64_t span;     // the largest sum of this term and the smaller ones
        std::int64_t divisor;  // the greatest common one of their strides
    };

    // The same question in fewer terms, of descending strides.
    void simplify(std::int64_t& low, std::int64_t& high) noexcept {
        const auto begin = terms_.begin();
        std::sort(begin, begin + static_cast<std::ptrdiff_t>(terms_count_),
                  [](const Term& a, const Term& b) { return a.stride < b.stride; });
        std::size_t kept = 0;
        for (std::size_t i = 0; i < terms_count_; ++i) {
            const Term term = terms_[i];
            const std::int64_t ratio = kept == 0 ? 0 : term.stride / terms_[kept - 1].stride;
            if (kept == 0 && term.stride <= high - low + 1) {
                // Its steps are no longer than the interval: wherever the others come to in a longer one, it leads into this.
                low -= term.stride * (term.count - 1);
            } else if (kept != 0 && term.stride % terms_[kept - 1].stride == 0 && ratio <= terms_[kept - 1].count) {
                terms_[kept - 1].count += ratio * (term.count - 1);  // together they are the multiples of the smaller stride
            } else {
                terms_[kept++] = term;
            }
        }
        std::int64_t span = 0, divisor = 0;
        for (std::size_t i = 0; i < kept; ++i) {
            terms_[i].span = span += terms_[i].stride * (terms_[i].count - 1);
            terms_[i].divisor = divisor = std::gcd(divisor, terms_[i].stride);
        }
        std::reverse(begin, begin + static_cast<std::ptrdiff_t>(kept));
        terms_count_ = kept;
    }

    // Whether the terms from `depth` on reach into [low, high].
    bool search(std::size_t depth, std::int64_t low, std::int64_t high) noexcept {
        if (depth == terms_count_) return low <= 0 && high >= 0;
        const Term& term = terms_[depth];
        low = std::max<std::int64_t>(low, 0);
        high = std::min(high, term.span);
        if (low > high || high / term.divisor * term.divisor < low) return false;
        const std::int64_t below = term.span - term.stride * (term.count - 1);
        const std::int64_t first = low > below ? (low - below + term.stride - 1) / term.stride : 0;
        const std::int64_t last = std::min(term.count - 1, high / term.stride);
        for (std::int64_t x = last; x >= first; --x) {
            if (--steps_ < 0) return true;
            if (search(depth + 1, low - x * term.stride, high - x * term.stride)) return true;
        }
        return false;
    }

    std::array<Term, 2 * max_dimensions> terms_;
    std::size_t terms_count_ = 0;
    int steps_ = 0;
};

// True where each dimension's stride is at least what the dimensions of smaller strides span, as in every slice of a dense array.
bool is_nested(const Array& array) noexcept {
    std::array<std::size_t, max_dimensions> order;
    std::size_t kept = 0;
    for (std::size_t d = 0; d < array.dimensions(); ++d) {
        if (array.shape()[d] > 1) order[kept++] = d;
    }
    std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept),
              [&](std::size_t a, std::size_t b) { return step(array, a) < step(array, b); });
    std::int64_t span = item_bytes(array);
    for (std::size_t i = 0; i < kept; ++i) {
        const std::int64_t stride = step(array, order[i]);
        if (stride < span) return false;
        span += stride * (array.shape()[order[i]] - 1);
    }
    return true;
}

}  // namespace

ByteRange byte_range(const Array& array) noexcept {
    const auto start = static_cast<std::int64_t>(array.offset_bytes());
    if (array.is_dense(Order::c)) return {start, start + static_cast<std::int64_t>(array.size_bytes())};
    ByteRange bytes{start, start + item_bytes(array)};
    for (std::size_t d = 0; d < array.dimensions(); ++d) {
        const std::int64_t span = array.strides_bytes()[d] * (array.shape()[d] - 1);
        (span < 0 ? bytes.first : bytes.end) += span;
    }
    return bytes;
}

Overlap overlap(const Array& left, const Array& right) noexcept {
    if (left.count() == 0 || right.count() == 0) return Overlap::none;
    struct Place {
        std::int64_t start, first, end;
    };
    // What is shared may be here at several addresses.
    const std::uint64_t identity = left.memory()->shared_identity;
    const bool is_alias = identity != 0 && identity == right.memory()->shared_identity;
    const auto placed = [&](const Array& array) {
        const auto memory = is_alias ? 0 : static_cast<std::int64_t>(array.memory()->address());
        const ByteRange range = byte_range(array);
        return Place{memory + static_cast<std::int64_t>(array.offset_bytes()), memory + range.first, memory + range.end};
    };
    const Place a = placed(left);
    const Place b = placed(right);
    if (a.end <= b.first || b.end <= a.first) return Overlap::none;
    if (a.start == b.start) return same_layout(left, right) ? Overlap::same : Overlap::partial;
    // From the lowest element of `left` to the highest of `right`, and back by strides of either: two elements share a byte where
    // that leaves less than an item between them.
    StrideSums sums;
    for (const Array* array : {&left, &right}) {
        for (std::size_t d = 0; d < array->dimensions(); ++d)
            sums.add(step(*array, d), array->shape()[d]);
    }
    const std::int64_t distance = b.end - item_bytes(right) - a.first;
    int steps = overlap_steps;
    return sums.reaches(distance - item_bytes(left) + 1, distance + item_bytes(right) - 1, steps) ? Overlap::partial
                                                                                                  : Overlap::none;
}

bool elements_are_apart(const Array& array) noexcept {
    if (array.is_dense(Order::c) || array.is_dense(Order::fortran) || is_nested(array)) return true;
    const std::int64_t item = item_bytes(array);
    for (std::size_t d = 0; d < array.dimensions(); ++d) {
        if (array.shape()[d] > 1 && step(array, d) < item) return false;
    }
    // Two elements are apart by a sum of strides, each times a difference of two indices. The first difference that isn't zero
    // may be taken to be positive; those behind it are of either sign, and count from their lowest on.
    int steps = overlap_steps;
    for (std::size_t first = 0; first < array.dimensions(); ++first) {
        if (array.shape()[first] == 1) continue;
        StrideSums sums;
        std::int64_t lowest = step(array, first);
        sums.add(step(array, first), array.shape()[first] - 1);
        for (std::size_t d = first + 1; d < array.dimensions(); ++d) {
            lowest -= step(array, d) * (array.shape()[d] - 1);
            sums.add(step(array, d), 2 * array.shape()[d] - 1);
        }
        if (sums.reaches(1 - item - lowest, item - 1 - lowest, steps)) return false;
    }
    return true;
}

}  // namespace tandem
