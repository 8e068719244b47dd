#include "tandem/array.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "core/driver.hpp"
#include "core/elementwise.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

__extension__ using Wide = __int128;  // a caller's strides may be anything

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

std::int64_t item_bytes(const Array& array) {
    return static_cast<std::int64_t>(size_bytes(array.dtype()));
}

// What `list` holds; leaves `value` alone in its place.
std::vector<std::int64_t> take(std::vector<std::int64_t>& list, std::int64_t value) noexcept {
    std::vector<std::int64_t> taken = std::move(list);
    list.clear();
    try {
        list.push_back(value);
    } catch (const std::bad_alloc&) {
        // Without dimensions, then; there are no elements either way.
    }
    return taken;
}

}  // namespace

Array::Array(const Buffer& buffer, DType dtype, Shape shape, std::size_t offset_bytes, Order order)
    : device_(buffer.device()),
      memory_(buffer.memory()),
      buffer_bytes_(buffer.size_bytes()),
      kind_(buffer.kind()),
      dtype_(dtype),
      offset_bytes_(offset_bytes),
      shape_(std::move(shape)),
      zero_copy_(buffer.zero_copy()),
      residency_(buffer.residency()) {
    element_count(shape_, tandem::size_bytes(dtype));  // refuses what can't be a shape before strides are made of it
    strides_bytes_ = dense_strides(shape_, tandem::size_bytes(dtype), order);
    finish();
}

Array::Array(const Buffer& buffer, DType dtype, Shape shape, Strides strides_bytes, std::size_t offset_bytes)
    : device_(buffer.device()),
      memory_(buffer.memory()),
      buffer_bytes_(buffer.size_bytes()),
      kind_(buffer.kind()),
      dtype_(dtype),
      offset_bytes_(offset_bytes),
      shape_(std::move(shape)),
      strides_bytes_(std::move(strides_bytes)),
      zero_copy_(buffer.zero_copy()),
      residency_(buffer.residency()) {
    if (shape_.size() != strides_bytes_.size()) {
        throw Error(ErrorCode::invalid_argument, fmt::format("array of shape {}: {} strides for {} dimensions", to_string(shape_),
                                                             strides_bytes_.size(), shape_.size()));
    }
    element_count(shape_, tandem::size_bytes(dtype));
    finish();
}

Array::Array(Array&& other) noexcept
    : device_(std::exchange(other.device_, Device(nullptr))),
      memory_(std::move(other.memory_)),
      buffer_bytes_(std::exchange(other.buffer_bytes_, 0)),
      kind_(std::exchange(other.kind_, MemoryKind::device)),
      dtype_(std::exchange(other.dtype_, DType::float32)),
      dense_c_(std::exchange(other.dense_c_, true)),
      dense_fortran_(std::exchange(other.dense_fortran_, true)),
      count_(std::exchange(other.count_, 0)),
      offset_bytes_(std::exchange(other.offset_bytes_, 0)),
      shape_(take(other.shape_, 0)),
      strides_bytes_(take(other.strides_bytes_, 4)),
      zero_copy_(std::exchange(other.zero_copy_, ZeroCopy::yes)),
      residency_(std::move(other.residency_)) {
    other.residency_ = "no bytes";
}

Array& Array::operator=(Array&& other) noexcept {
    if (this == &other) return *this;
    std::destroy_at(this);
    return *std::construct_at(this, std::move(other));
}

void Array::finish() {
    count_ = element_count(shape_, tandem::size_bytes(dtype_));
    const auto density = [&](Order order) {
        const Strides dense = dense_strides(shape_, tandem::size_bytes(dtype_), order);
        for (std::size_t d = 0; d < shape_.size(); ++d) {
            if (shape_[d] > 1 && strides_bytes_[d] != dense[d]) return false;
        }
        return true;
    };
    dense_c_ = count_ == 0 || density(Order::c);
    dense_fortran_ = count_ == 0 || density(Order::fortran);
    if (count_ == 0) return;

    Wide lowest = static_cast<Wide>(offset_bytes_);
    Wide end = lowest + static_cast<Wide>(tandem::size_bytes(dtype_));
    for (std::size_t d = 0; d < shape_.size(); ++d) {
        const Wide span = static_cast<Wide>(strides_bytes_[d]) * (shape_[d] - 1);
        (span < 0 ? lowest : end) += span;
    }
    if (lowest >= 0 && end <= static_cast<Wide>(buffer_bytes_)) return;
    const auto shown = [](Wide value) { return static_cast<std::int64_t>(std::clamp<Wide>(value, -largest, largest)); };
    throw Error(ErrorCode::out_of_range,
                fmt::format("array of {} at offset {}: its elements take bytes {} to {} of a buffer of {}", describe(*this),
                            offset_bytes_, shown(lowest), shown(end), buffer_bytes_));
}

const Device& Array::device() const {
    if (device_ == Device(nullptr)) throw Error(ErrorCode::invalid_argument, "this array is empty and has no device");
    return device_;
}

Array Array::slice(std::size_t axis, std::int64_t start, std::int64_t stop, std::int64_t step) const {
    if (axis >= shape_.size()) {
        throw Error(ErrorCode::out_of_range, fmt::format("slice of {}: there is no axis {}", describe(*this), axis));
    }
    if (step == 0) throw Error(ErrorCode::invalid_argument, fmt::format("slice of {}: the step is zero", describe(*this)));
    const std::int64_t length = shape_[axis];
    // Python's rules: backwards, positions run from length - 1 down to "before 0", which is -1.
    const auto clamp = [&](std::int64_t position) {
        if (position < 0) position = position < -length ? -1 : position + length;
        return step > 0 ? std::clamp<std::int64_t>(position, 0, length) : std::clamp<std::int64_t>(position, -1, length - 1);
    };
    const std::int64_t first = clamp(start);
    const std::int64_t last = clamp(stop);
    const std::int64_t distance = step > 0 ? last - first : first - last;
    // The magnitude of the most negative step has no signed counterpart.
    const std::uint64_t magnitude =
        step > 0 ? static_cast<std::uint64_t>(step) : std::uint64_t{0} - static_cast<std::uint64_t>(step);
    Array view = *this;
    view.shape_[axis] = distance <= 0 ? 0 : static_cast<std::int64_t>((static_cast<std::uint64_t>(distance) - 1) / magnitude) + 1;
    if (view.shape_[axis] != 0) {
        view.offset_bytes_ = static_cast<std::size_t>(static_cast<std::int64_t>(offset_bytes_) + first * strides_bytes_[axis]);
    }
    // With one element left the stride is never used, and the product might overflow.
    if (view.shape_[axis] > 1) view.strides_bytes_[axis] = strides_bytes_[axis] * step;
    view.finish();
    return view;
}

Array Array::at(std::size_t axis, std::int64_t index) const {
    if (axis >= shape_.size())
        throw Error(ErrorCode::out_of_range, fmt::format("at() of {}: there is no axis {}", describe(*this), axis));
    const std::int64_t position = index < 0 ? index + shape_[axis] : index;
    if (position < 0 || position >= shape_[axis]) {
        throw Error(ErrorCode::out_of_range,
                    fmt::format("at() of {}: there is no index {} on axis {}", describe(*this), index, axis));
    }
    Array view = *this;
    view.offset_bytes_ = static_cast<std::size_t>(static_cast<std::int64_t>(offset_bytes_) + position * strides_bytes_[axis]);
    view.shape_.erase(view.shape_.begin() + static_cast<std::ptrdiff_t>(axis));
    view.strides_bytes_.erase(view.strides_bytes_.begin() + static_cast<std::ptrdiff_t>(axis));
    view.finish();
    return view;
}

Array Array::transpose() const {
    Array view = *this;
    std::reverse(view.shape_.begin(), view.shape_.end());
    std::reverse(view.strides_bytes_.begin(), view.strides_bytes_.end());
    std::swap(view.dense_c_, view.dense_fortran_);
    return view;
}

Array Array::reshape(Shape shape) const {
    const auto refuse = [&](const std::string& why) -> Error {
        return {ErrorCode::invalid_argument, fmt::format("reshape of {} to {}: {}", describe(*this), to_string(shape), why)};
    };
    const auto open = std::find(shape.begin(), shape.end(), -1);
    if (open != shape.end()) {
        std::int64_t known = 1;
        for (auto it = shape.begin(); it != shape.end(); ++it) {
            if (it == open) continue;
            if (*it < 0) throw refuse("only one dimension may be -1");
            if (__builtin_mul_overflow(known, *it, &known)) throw refuse("the counts differ");
        }
        if (known == 0 || count_ % known != 0) throw refuse("the counts differ");
        *open = count_ / known;
    }
    if (element_count(shape, tandem::size_bytes(dtype_)) != count_) throw refuse("the counts differ");
    Array view = *this;
    if (dense_c_) {
        view.strides_bytes_ = dense_strides(shape, tandem::size_bytes(dtype_));
    } else {
        // Groups of old dimensions that are dense among themselves must match groups of new ones, as in NumPy.
        std::vector<std::pair<std::int64_t, std::int64_t>> old;  // length, stride
        for (std::size_t d = 0; d < shape_.size(); ++d) {
            if (shape_[d] == 1) continue;
            if (!old.empty() && old.back().second == strides_bytes_[d] * shape_[d]) {
                old.back() = {old.back().first * shape_[d], strides_bytes_[d]};
            } else {
                old.emplace_back(shape_[d], strides_bytes_[d]);
            }
        }
        view.strides_bytes_.assign(shape.size(), item_bytes(*this));
        std::size_t group = old.size();
        std::int64_t left = 1;  // elements of the current group that the dimensions further out still have to take
        std::int64_t stride = 0;
        for (std::size_t d = shape.size(); d-- > 0;) {
            if (shape[d] == 1) continue;
            if (left == 1) std::tie(left, stride) = old[--group];
            if (left % shape[d] != 0) throw refuse("its strides don't allow that without a copy");
            view.strides_bytes_[d] = stride;
            stride *= shape[d];
            left /= shape[d];
        }
    }
    view.shape_ = std::move(shape);
    view.finish();
    return view;
}

Array Array::view_as(DType dtype) const {
    const auto refuse = [&](const char* why) -> Error {
        return {ErrorCode::invalid_argument, fmt::format("{} viewed as {}: {}", describe(*this), to_string(dtype), why)};
    };
    Array view = *this;
    view.dtype_ = dtype;
    const auto from = item_bytes(*this);
    const auto to = item_bytes(view);
    if (from != to) {
        if (shape_.empty()) throw refuse("element sizes differ, and there is no dimension to take up the difference");
        if (shape_.back() > 1 && strides_bytes_.back() != from)
            throw refuse("element sizes differ, and the last dimension has gaps");
        std::int64_t last_bytes = 0;
        if (__builtin_mul_overflow(shape_.back(), from, &last_bytes) || last_bytes % to != 0) {
            throw refuse("the last dimension's bytes are no multiple of the new element size");
        }
        view.shape_.back() = last_bytes / to;
        view.strides_bytes_.back() = to;
    }
    view.finish();
    return view;
}

HostView Array::map_bytes(Access access, DType expected) const {
    if (expected != dtype_) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("map of {}: its elements are not {}", describe(*this), to_string(expected)));
    }
    if (!dense_c_ && !dense_fortran_) {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("map of {}: the elements have gaps between them; copy it to a dense array first", describe(*this)));
    }
    if (count_ == 0) return {};
    return {device_, memory_, offset_bytes_, size_bytes(), access};
}

Array empty(const Device& device, DType dtype, Shape shape, MemoryKind kind, Order order) {
    check_dtype_supported(device.info(), "empty", dtype);
    const auto bytes = static_cast<std::size_t>(element_count(shape, size_bytes(dtype))) * size_bytes(dtype);
    const Buffer buffer(device, bytes, kind);
    return {buffer, dtype, std::move(shape), 0, order};
}

Array empty_like(const Array& array) {
    return empty_like(array, array.kind());
}

Array empty_like(const Array& array, MemoryKind kind) {
    if (kind == MemoryKind::adopted) kind = MemoryKind::device;
    const Order order = !array.is_dense(Order::c) && array.is_dense(Order::fortran) ? Order::fortran : Order::c;
    return empty(array.device(), array.dtype(), array.shape(), kind, order);
}

namespace {

// Waits for what `submit` has queued, also where it throws: it uses memory that is about to go.
template <class Submit>
void finish_now(Queue& queue, Submit&& submit) {
    try {
        submit();
    } catch (...) {
        try {
            queue.synchronize();
        } catch (...) {
            // The first failure is the one to tell.
        }
        throw;
    }
    queue.synchronize();
}

}  // namespace

void detail::read_elements_now(Queue& queue, const Array& source, void* destination, std::size_t count, DType dtype) {
    finish_now(queue, [&] { read_elements(queue, source, destination, count, dtype); });
}

void detail::check_item(const Array& array, DType dtype) {
    if (array.count() == 1 && array.dtype() == dtype) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("item: one element of {} is asked for, the array is {}", to_string(dtype), describe(array)));
}

void copy(Queue& queue, const std::vector<bool>& source, const Array& destination) {
    const std::vector<std::uint8_t> bytes(source.begin(), source.end());
    finish_now(queue, [&] { detail::write_elements(queue, bytes.data(), bytes.size(), DType::boolean, destination); });
}

void copy(Queue& queue, const Array& source, std::vector<bool>& destination) {
    std::vector<std::uint8_t> bytes(destination.size());
    detail::read_elements_now(queue, source, bytes.data(), bytes.size(), DType::boolean);
    std::transform(bytes.begin(), bytes.end(), destination.begin(), [](std::uint8_t byte) { return byte != 0; });
}

}  // namespace tandem
