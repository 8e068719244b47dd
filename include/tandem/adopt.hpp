#pragma once
// Memory that exists, as arrays of a device.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/array.hpp>
#include <tandem/grant.hpp>
#include <tandem/mapped_file.hpp>

namespace tandem {

/// How to adopt memory.
struct AdoptOptions {
    /// Throw where the device would not work on the memory itself, for certain.
    bool require_zero_copy = false;
    /// Kept as long as arrays refer to the memory, and until a queue that worked on it has seen that it is done: when it is
    /// synchronised or dropped, or with later work. Memory that is copied, or has no bytes, does not need it. Without an owner
    /// the caller keeps the memory so long.
    std::shared_ptr<const void> owner{};
    /// Where the bytes are copied to where the device can't work on them in place.
    MemoryKind fallback = MemoryKind::device;
};

/// Memory of this process as a buffer of `device`: in place where the device can reach it, else copied to memory of the kind
/// `fallback`; `zero_copy()` and `residency()` say which, and why. Either way the bytes are seen, and changed, through `map`:
/// when a view for reading begins, the caller's memory holds what the device has computed, also where the device works on a copy.
/// Between views such a copy does not follow what the caller writes to the memory, nor the memory what the device does; and two
/// adoptions of the same bytes are two copies.
///
/// Any address and size will do. Memory may be adopted several times, by several devices, in overlapping parts. Each adoption
/// then stands for itself where it comes to what `map` waits for and forbids: a view of one neither waits for work on another nor
/// refuses it. Operations see that two adoptions overlap, but not that two mappings of one file do, which lie at different
/// addresses.
///
/// The device must not write to memory adopted as `const`: such work is refused. The caller must not unmap memory, nor shrink its
/// file, while it is adopted; devices that have pinned its pages go on with the old ones, others end the process with SIGBUS.
///
/// Thread safe. Throws invalid_argument for memory that this process can't read, or can't write to where it is not adopted as
/// const; unsupported with the reason on `require_zero_copy`; out_of_memory with the sizes, holding nothing.
/// Native calls: cuMemHostRegister, read-only for read-only memory, or none where the device reads pageable memory;
/// clCreateBuffer(CL_MEM_USE_HOST_PTR). A private file mapping is never registered with CUDA: it is copied.
Buffer adopt_bytes(const Device& device, std::span<std::byte> bytes, const AdoptOptions& options = {});
Buffer adopt_bytes(const Device& device, std::span<const std::byte> bytes, const AdoptOptions& options = {});
/// A whole file; the device may write to it where its access is `read_write` or `copy_on_write`. The buffer keeps it mapped.
/// Copies are read with `pread`: a file that has become shorter is bad_file.
Buffer adopt_bytes(const Device& device, const MappedFile& file, const AdoptOptions& options = {});

/// Adopts elements as a one-dimensional array.
template <class T>
Array adopt(const Device& device, std::span<T> elements, const AdoptOptions& options = {}) {
    const auto count = static_cast<std::int64_t>(elements.size());
    if constexpr (std::is_const_v<T>) {
        return {adopt_bytes(device, std::as_bytes(elements), options), dtype_of<std::remove_const_t<T>>, {count}};
    } else {
        return {adopt_bytes(device, std::as_writable_bytes(elements), options), dtype_of<T>, {count}};
    }
}
template <class T>
Array adopt(const Device& device, std::vector<T>& elements, const AdoptOptions& options = {}) {
    return adopt(device, std::span<T>(elements), options);
}
template <class T>
Array adopt(const Device& device, const std::vector<T>& elements, const AdoptOptions& options = {}) {
    return adopt(device, std::span<const T>(elements), options);
}
/// A temporary that can't be moved from would be gone before the device reads it.
template <class T>
Array adopt(const Device& device, const std::vector<T>&& elements, const AdoptOptions& options = {}) = delete;
/// The array takes the vector over; `options.owner` is not used.
template <class T>
requires(!std::is_const_v<T>) Array adopt(const Device& device, std::vector<T>&& elements, AdoptOptions options = {}) {
    const auto kept = std::make_shared<std::vector<T>>(std::move(elements));
    options.owner = kept;
    return adopt(device, std::span<T>(*kept), options);
}

/// An array as NumPy describes one: the address of its first element, dtype, shape and strides, which may be negative and are
/// those of C order where there are none.
Array adopt(const Device& device, void* data, DType dtype, Shape shape, const std::optional<Strides>& strides_bytes = {},
            const AdoptOptions& options = {});
Array adopt(const Device& device, const void* data, DType dtype, Shape shape, const std::optional<Strides>& strides_bytes = {},
            const AdoptOptions& options = {});

/// Begins to move an array's pages of `shared` memory to where they are going to be used, in the queue's order. Says so where
/// that does nothing: both sides use other memory in place, or it does not move. Native calls: cuMemPrefetchAsync,
/// clEnqueueMigrateMemObjects (whole windows).
Grant prefetch(Queue& queue, const Array& array, Location where);

/// Tells the driver how an array's `shared` memory is going to be used; takes effect at once. Native call: cuMemAdvise.
Grant advise(const Array& array, MemoryAdvice advice);

}  // namespace tandem
