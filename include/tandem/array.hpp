#pragma once
// Typed, shaped views on memory.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/buffer.hpp>
#include <tandem/dtype.hpp>
#include <tandem/queue.hpp>
#include <tandem/shape.hpp>

namespace tandem {

template <class T>
class HostArray;

/// A C++ type that stands for a dtype.
template <class T>
concept ElementType = requires {
    detail::DTypeOf<T>::value;
};

/// A view on a buffer: element type, shape, strides, byte offset. Copying one copies the view, not the elements; views share the
/// memory and keep it alive. Slices, transposes and reinterpretations are views too and cost nothing. One that was moved from is
/// `Array()`.
///
/// Thread safety: const members may be called from any thread; the elements are ordered by queues.
class Array {
public:
    /// An empty float32 array of shape (0,) without a device.
    Array() = default;

    /// A view on `buffer`, dense in `order`, starting `offset_bytes` into it; any offset is legal, a multiple of the element's
    /// size or not. Throws out_of_range where the view does not fit.
    Array(const Buffer& buffer, DType dtype, Shape shape, std::size_t offset_bytes = 0, Order order = Order::c);
    /// A view with strides of its own. Throws out_of_range where an element lies outside the buffer.
    Array(const Buffer& buffer, DType dtype, Shape shape, Strides strides_bytes, std::size_t offset_bytes);

    Array(const Array&) = default;
    Array& operator=(const Array&) = default;
    Array(Array&& other) noexcept;
    Array& operator=(Array&& other) noexcept;
    ~Array() = default;

    [[nodiscard]] DType dtype() const noexcept { return dtype_; }
    [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
    [[nodiscard]] const Strides& strides_bytes() const noexcept { return strides_bytes_; }
    [[nodiscard]] std::size_t offset_bytes() const noexcept { return offset_bytes_; }
    [[nodiscard]] std::size_t dimensions() const noexcept { return shape_.size(); }
    /// Number of elements.
    [[nodiscard]] std::int64_t count() const noexcept { return count_; }
    /// Bytes of the elements: count times element size.
    [[nodiscard]] std::size_t size_bytes() const noexcept {
        return static_cast<std::size_t>(count_) * tandem::size_bytes(dtype_);
    }
    /// True where the elements lie without gaps in that order; an array with at most one dimension over 1 is dense in both.
    [[nodiscard]] bool is_dense(Order order) const noexcept { return order == Order::c ? dense_c_ : dense_fortran_; }

    /// Throws invalid_argument for an array that has none (`Array()`).
    [[nodiscard]] const Device& device() const;
    [[nodiscard]] MemoryKind kind() const noexcept { return kind_; }

    /// Whether the device works on the bytes that it was given: the memory that was adopted, the file that was mapped.
    [[nodiscard]] ZeroCopy zero_copy() const noexcept { return zero_copy_; }
    /// Where the elements are and how they came there, in words, with the reason where they were copied: "device memory of
    /// cuda:0, loaded from a.npy", "in place: registered file mapping, which cuda:0 reaches across its link; a.npy".
    [[nodiscard]] const std::string& residency() const noexcept { return residency_; }

    /// Elements `start` to `stop` (not included) by `step` along `axis`, as Python's slices: negative positions count from the
    /// end, positions beyond the end are clamped, a negative step runs backwards. Throws out_of_range for an axis that is not
    /// there, invalid_argument for a zero step.
    [[nodiscard]] Array slice(std::size_t axis, std::int64_t start, std::int64_t stop, std::int64_t step = 1) const;
    /// The sub-array at position `index` of `axis`, one dimension less. Throws out_of_range.
    [[nodiscard]] Array at(std::size_t axis, std::int64_t index) const;
    /// Dimensions in reversed order.
    [[nodiscard]] Array transpose() const;
    /// The same elements in C order as another shape of equal count; one dimension may be -1. Throws invalid_argument where the
    /// counts differ, or where the strides don't allow it without a copy.
    [[nodiscard]] Array reshape(Shape shape) const;
    /// The same bytes as another type; the last dimension grows or shrinks with the element size. Throws invalid_argument where
    /// it can't.
    [[nodiscard]] Array view_as(DType dtype) const;

    /// The same bytes on another device of this process, whichever backend it is of. Order the work on the two yourself. The
    /// memory must be one that both reach: the host's, or shareable memory of the same GPU; see share.hpp. Throws unsupported
    /// where `device` can't work on it in place, with the reason. Native calls: those of `attach` and `adopt_bytes`.
    [[nodiscard]] Array on(const Device& device) const;

    /// The elements for the host to read or write, as a range in memory order that ends with its scope. Waits for the pending
    /// work on this array's memory, and for nothing else. Throws invalid_argument where T is not the element type or the array is
    /// not dense in either order.
    template <class T>
    [[nodiscard]] HostArray<T> map(Access access) const;

    /// For core/ alone.
    [[nodiscard]] const std::shared_ptr<driver::Memory>& memory() const noexcept { return memory_; }
    [[nodiscard]] HostView map_bytes(Access access, DType expected) const;
    void set_residency(ZeroCopy zero_copy, std::string text) {
        zero_copy_ = zero_copy;
        residency_ = std::move(text);
    }

private:
    void finish();  // derives count and density from shape and strides; checks bounds

    Device device_{nullptr};
    std::shared_ptr<driver::Memory> memory_;
    std::size_t buffer_bytes_ = 0;
    MemoryKind kind_ = MemoryKind::device;
    DType dtype_ = DType::float32;
    bool dense_c_ = true;
    bool dense_fortran_ = true;
    std::int64_t count_ = 0;
    std::size_t offset_bytes_ = 0;
    Shape shape_{0};
    Strides strides_bytes_{4};
    ZeroCopy zero_copy_ = ZeroCopy::yes;
    std::string residency_ = "no bytes";
};

/// The elements of an array as the host sees them: a contiguous range of T, which is empty once it was unmapped or moved from.
/// Move-only; see HostView.
template <class T>
class HostArray {
public:
    explicit HostArray(HostView view) : view_(std::move(view)) {}

    [[nodiscard]] T* data() const noexcept { return reinterpret_cast<T*>(view_.data()); }
    [[nodiscard]] std::size_t size() const noexcept { return view_.size_bytes() / sizeof(T); }
    [[nodiscard]] T* begin() const noexcept { return data(); }
    [[nodiscard]] T* end() const noexcept { return data() + size(); }
    [[nodiscard]] T& operator[](std::size_t index) const noexcept { return data()[index]; }
    [[nodiscard]] std::span<T> span() const noexcept { return {data(), size()}; }
    [[nodiscard]] bool in_place() const noexcept { return view_.in_place(); }
    void unmap() { view_.unmap(); }

private:
    HostView view_;
};

template <class T>
HostArray<T> Array::map(Access access) const {
    return HostArray<T>(map_bytes(access, dtype_of<T>));
}

/// A dense array of uninitialised elements. Throws as Buffer and `element_count` do.
Array empty(const Device& device, DType dtype, Shape shape, MemoryKind kind = MemoryKind::device, Order order = Order::c);

/// An uninitialised array on the same device with the same dtype, shape, memory kind (`device` for `adopted`) and, where `array`
/// is dense, order.
Array empty_like(const Array& array);
/// The same in memory of another kind.
Array empty_like(const Array& array, MemoryKind kind);

/// Copies elements between arrays of one dtype and shape. On one device the call returns once the copy is queued. Between devices
/// the call waits for it, and for pending work on both arrays, though not for that on what `Array::on` makes of them: it goes
/// directly from one CUDA device to another, for arrays dense in one order, and else through the host in bounded pieces. Throws
/// invalid_argument for differing dtypes or shapes, or partial overlap. Native calls: cuMemcpyAsync; cuMemcpyPeerAsync, across
/// the devices' own link where there is one; clEnqueueCopyBuffer.
void copy(Queue& queue, const Array& source, const Array& destination);

/// Host memory that holds elements one behind the other: std::vector, std::array, std::span, a C array and the like; not
/// std::vector<bool>, whose elements are bits.
template <class Range>
concept HostElements =
    std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> && ElementType<std::ranges::range_value_t<Range>>;
/// The same as a temporary that would be gone before a queue gets to it.
template <class Range>
concept TemporaryHostElements = HostElements<Range> && !std::ranges::borrowed_range<Range>;
/// What can be written to.
template <class Range>
concept WritableHostElements = HostElements<Range> && std::ranges::borrowed_range<Range> &&
    !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>;

namespace detail {
void write_elements(Queue& queue, const void* source, std::size_t count, DType dtype, const Array& destination);
void read_elements(Queue& queue, const Array& source, void* destination, std::size_t count, DType dtype);
// Waits, also where it throws: `destination` may go then.
void read_elements_now(Queue& queue, const Array& source, void* destination, std::size_t count, DType dtype);
void check_item(const Array& array, DType dtype);
}  // namespace detail

/// Copies `source`, elements in C order, into `destination`. Returns once queued: `source` must stay valid and unchanged until
/// the queue has passed this point. Throws invalid_argument where counts or types differ.
template <HostElements Source>
void copy(Queue& queue, Source&& source, const Array& destination) {
    using Element = std::ranges::range_value_t<Source>;
    detail::write_elements(queue, std::ranges::data(source), std::ranges::size(source), dtype_of<Element>, destination);
}
/// Bits become bytes first, and the call waits.
void copy(Queue& queue, const std::vector<bool>& source, const Array& destination);
template <TemporaryHostElements Source>
void copy(Queue& queue, Source&& source, const Array& destination) = delete;
void copy(Queue& queue, std::vector<bool>&& source, const Array& destination) = delete;

/// Copies `source`, elements in C order, into `destination`. Returns once queued: `destination` holds them once the queue has
/// passed this point. Throws invalid_argument where counts or types differ.
template <WritableHostElements Destination>
void copy(Queue& queue, const Array& source, Destination&& destination) {
    using Element = std::ranges::range_value_t<Destination>;
    detail::read_elements(queue, source, std::ranges::data(destination), std::ranges::size(destination), dtype_of<Element>);
}
/// Bytes become bits at last, and the call waits.
void copy(Queue& queue, const Array& source, std::vector<bool>& destination);

/// The elements in C order. Waits.
template <ElementType T>
std::vector<T> to_vector(Queue& queue, const Array& source) {
    std::vector<T> elements(static_cast<std::size_t>(source.count()));
    if constexpr (std::is_same_v<T, bool>) {
        copy(queue, source, elements);
    } else {
        detail::read_elements_now(queue, source, elements.data(), elements.size(), dtype_of<T>);
    }
    return elements;
}

/// The element of an array that has one: `item<double>(queue, sum(queue, a))`. Waits. Throws invalid_argument where the array has
/// more elements or none, or another dtype.
template <ElementType T>
[[nodiscard]] T item(Queue& queue, const Array& array) {
    detail::check_item(array, dtype_of<T>);
    if constexpr (std::is_same_v<T, bool>) {
        std::uint8_t byte = 0;  // any non-zero one is true
        detail::read_elements_now(queue, array, &byte, 1, dtype_of<T>);
        return byte != 0;
    } else {
        T value{};
        detail::read_elements_now(queue, array, &value, 1, dtype_of<T>);
        return value;
    }
}

}  // namespace tandem
