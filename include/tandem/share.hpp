#pragma once
// One array in several processes, and on several devices: descriptors of its memory, and arrays on what they describe.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/array.hpp>

namespace tandem {

/// How memory gets from one process to another.
enum class ShareMethod : std::uint8_t {
    device_memory,  ///< an allocation of CUDA's virtual memory management, as a file descriptor; lives while anyone holds it
    ipc_handle,     ///< CUDA's older handle of a cuMemAlloc allocation; ends with the exporter
    host_memory,    ///< pages of a memfd that is sealed against shrinking; lives while anyone holds it
};

/// "device memory", "ipc handle", "host memory".
std::string_view to_string(ShareMethod method) noexcept;

/// An array's memory, for another process: what is sent is `to_bytes()` and, beside it and in their order, `file_descriptors()`.
///
/// A handle: copies are of one descriptor, whose file descriptors are closed with the last. Thread safe.
class ShareDescriptor {
public:
    /// Bytes of the longest serialised descriptor.
    static constexpr std::size_t max_bytes = 4096;

    [[nodiscard]] ShareMethod method() const noexcept;
    [[nodiscard]] DType dtype() const noexcept;
    [[nodiscard]] const Shape& shape() const noexcept;
    [[nodiscard]] const Strides& strides_bytes() const noexcept;
    /// Where the array's first element lies in the range.
    [[nodiscard]] std::size_t offset_bytes() const noexcept;
    /// Of the range that is shared: all memory that the array is a view of. What is attached reaches no further.
    [[nodiscard]] std::size_t size_bytes() const noexcept;
    /// The kind of memory that it is on the exporter's side.
    [[nodiscard]] MemoryKind kind() const noexcept;
    /// False where importers may only read.
    [[nodiscard]] bool is_writable() const noexcept;
    /// The process that shares.
    [[nodiscard]] int exporter_pid() const noexcept;
    /// Of the device that the memory belongs to, 32 hexadecimal digits; empty for the host's.
    [[nodiscard]] const std::string& device_uuid() const noexcept;
    /// Names the shared memory: 16 random bytes as 32 hexadecimal digits, equal for all descriptors of one memory.
    [[nodiscard]] const std::string& memory_id() const noexcept;

    /// The descriptor as bytes, at most `max_bytes`, without the file descriptors. The same build or another of the same format
    /// version reads them, on the same machine.
    [[nodiscard]] std::vector<std::byte> to_bytes() const;
    /// The file descriptors, which stay this object's. An array without elements has none.
    [[nodiscard]] std::vector<int> file_descriptors() const;

    /// Reads what `to_bytes` wrote. Takes over the file descriptors, and closes them also where it throws. The bytes may come
    /// from anyone: throws bad_file for what is truncated or contradicts itself, with what was needed and found; unsupported for
    /// another format version; invalid_argument for another number of file descriptors than the method has. What the descriptors
    /// refer to is checked by `attach`.
    static ShareDescriptor from_bytes(std::span<const std::byte> bytes, const std::vector<int>& file_descriptors);

    /// Memory that someone else than tandem shares by CUDA's older handle: CuPy, Numba, PyTorch.
    struct CudaIpcHandle {
        std::span<const std::byte, 64> handle;  ///< as cuIpcGetMemHandle gives it: of the whole allocation
        std::size_t offset_bytes = 0;           ///< from the start of the allocation to the array's first element
        std::size_t allocation_bytes = 0;       ///< 0: as much as the driver tells
        std::string_view device_uuid{};         ///< 32 hexadecimal digits, with or without dashes; empty: that of who attaches
        int exporter_pid = 0;                   ///< in this PID namespace; 0: not known, and so its end is not noticed
        bool is_writable = true;
    };
    /// Throws as Array does for a shape that does not fit, invalid_argument for a UUID that is none.
    static ShareDescriptor from_cuda_ipc_handle(const CudaIpcHandle& handle, DType dtype, Shape shape,
                                                const std::optional<Strides>& strides_bytes = {});

    // Without moves: there is no descriptor that is none.
    ShareDescriptor(const ShareDescriptor&) = default;
    ShareDescriptor& operator=(const ShareDescriptor&) = default;
    ~ShareDescriptor() = default;

    /// For core/ alone.
    struct State;
    explicit ShareDescriptor(std::shared_ptr<const State> state) noexcept : state_(std::move(state)) {}
    [[nodiscard]] const State& state() const noexcept { return *state_; }

private:
    std::shared_ptr<const State> state_;
};

/// What importers may do.
struct ShareOptions {
    /// False: they may only read. Host memory that is first shared so is sealed for good against anyone's mapping it to write
    /// (F_SEAL_FUTURE_WRITE); where it was shared for writing before, and for device memory, it is what the library keeps to.
    bool is_writable = true;
};

/// A descriptor of the array's memory, all of it, with the array as a view in it. Nothing is copied, and nothing waits: order the
/// work of the processes by a fence. Each descriptor of memory that goes by a file descriptor holds one of its own open.
///
/// Shareable memory is: what `empty_shareable` made or was loaded with `LoadOptions::shareable`, and what was attached by
/// anything but a handle; and as a handle, memory adopted by `adopt_device_pointer` that is a cuMemAlloc allocation's. Thread
/// safe. Throws unsupported for all other memory, with the reason and the way to memory that is; invalid_argument where importers
/// are to write to what may not be written to. Native calls: cuMemExportToShareableHandle; cuIpcGetMemHandle; fcntl(F_ADD_SEALS),
/// dup.
ShareDescriptor share(const Array& array, const ShareOptions& options = {});

/// The array that `descriptor` is of, on `device`: the same bytes. The memory lives at least as long as the array, also when the
/// exporter ends, however it ends; but that of an ipc handle is gone then, which the next use of the array reports as
/// `unavailable`. An exporter that gives the memory of a handle back while it lives is not noticed, nor is the end of one that is
/// of another PID namespace.
///
/// In a process that has the memory already on this device, as exporter or by an earlier call, the array is on that. No
/// descriptor reaches beyond the memory that was shared: its sizes are checked against what the system and the driver tell of the
/// memory.
///
/// Thread safe. Throws bad_file where the file descriptors are not what the descriptor tells, with what was needed and found;
/// unavailable where the exporter has ended, and for memory of a GPU that `device` is not and does not reach, on every backend,
/// with both UUIDs; unsupported where `device` can't work on memory of that method at all, with the reason; out_of_memory,
/// holding nothing. Native calls: cuMemImportFromShareableHandle, cuMemMap, cuMemSetAccess; cuIpcOpenMemHandle; mmap and those of
/// `adopt_bytes`; clCreateBufferWithProperties.
Array attach(const Device& device, const ShareDescriptor& descriptor);

/// Uninitialised memory that can be shared. `device` memory of CUDA is an allocation of the virtual memory management, as fast as
/// any other; on NVIDIA's OpenCL it is one of the CUDA device with the same UUID. Everything else is pages of a memfd, adopted by
/// the device.
///
/// Each memory that is a memfd keeps that open, which is the only way to give it out, as does each that was attached by a file
/// descriptor: a process has no more of them than it may have files open (RLIMIT_NOFILE). Other memory takes no descriptor.
///
/// Throws as Buffer; unsupported where the device can't work on memory that others can have, with the reason; io where there is
/// no file descriptor left. Native calls: cuMemCreate, cuMemAddressReserve, cuMemMap, cuMemSetAccess; memfd_create, mmap and
/// those of `adopt_bytes`.
Buffer shareable_buffer(const Device& device, std::size_t size_bytes, MemoryKind kind = MemoryKind::device);
/// A dense array on such memory.
Array empty_shareable(const Device& device, DType dtype, Shape shape, MemoryKind kind = MemoryKind::device,
                      Order order = Order::c);

/// Device memory of this process that came from elsewhere, CuPy or PyTorch for example, as an array on it, dense in C order where
/// there are no strides. `address` is the first element's; `owner` keeps the memory, and without one the caller does, as long as
/// arrays refer to it. Throws invalid_argument for memory that is not that device's, out_of_range where the array is larger than
/// the allocation, unsupported where the device has no such addresses. Native calls: cuPointerGetAttribute, cuMemGetAddressRange.
Array adopt_device_pointer(const Device& device, std::uint64_t address, DType dtype, Shape shape,
                           const std::optional<Strides>& strides_bytes = {}, std::shared_ptr<const void> owner = {});

}  // namespace tandem
