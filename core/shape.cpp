#include <algorithm>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include <tandem/error.hpp>
#include <tandem/shape.hpp>

namespace tandem {

std::string to_string(const Shape& shape) {
    std::string text = "(";
    for (std::size_t i = 0; i < shape.size(); ++i) {
        fmt::format_to(std::back_inserter(text), "{}{}", i == 0 ? "" : ", ", shape[i]);
    }
    text += shape.size() == 1 ? ",)" : ")";
    return text;
}

std::int64_t element_count(const Shape& shape, std::size_t item_bytes) {
    if (shape.size() > max_dimensions) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("shape of {} dimensions: at most {} are possible", shape.size(), max_dimensions));
    }
    bool any_zero = false;
    bool overflow = item_bytes > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
    // An item of no bytes still has to be counted, so that the count itself must fit.
    std::int64_t bytes = overflow ? 0 : std::max<std::int64_t>(1, static_cast<std::int64_t>(item_bytes));
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) {
        if (extent < 0) {
            throw Error(ErrorCode::invalid_argument, fmt::format("shape {}: a dimension is negative", to_string(shape)));
        }
        if (extent == 0) {
            any_zero = true;
            continue;
        }
        overflow = overflow || __builtin_mul_overflow(bytes, extent, &bytes);
        count = overflow ? 0 : count * extent;
    }
    if (overflow) {
        throw Error(ErrorCode::out_of_range,
                    fmt::format("shape {} of {}-byte items: more than 2^63 - 1 bytes", to_string(shape), item_bytes));
    }
    return any_zero ? 0 : count;
}

Strides dense_strides(const Shape& shape, std::size_t item_bytes, Order order) {
    static_cast<void>(element_count(shape, item_bytes));  // no product below can overflow after it
    Strides strides(shape.size());
    auto step = static_cast<std::int64_t>(item_bytes);
    for (std::size_t i = 0; i < shape.size(); ++i) {
        const std::size_t dimension = order == Order::c ? shape.size() - 1 - i : i;
        strides[dimension] = step;
        // A dimension of zero counts as one: the strides beside it stay what they would be without it.
        step *= std::max<std::int64_t>(1, shape[dimension]);
    }
    return strides;
}

}  // namespace tandem
