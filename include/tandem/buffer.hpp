#pragma once
// Untyped memory of a device.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include <tandem/device.hpp>
#include <tandem/placement.hpp>

namespace tandem {

namespace driver {
class Memory;
}

/// What a host view is for. `write` promises to write every byte: what was there before is not fetched.
enum class Access : std::uint8_t { read, write, read_write };

class HostView;

/// Bytes of one memory kind on one device. Move-only; one that was moved from has zero bytes of its device. Arrays made on it
/// share its memory and keep it alive beyond the buffer.
///
/// Dropping the last holder never waits: a queue keeps what it uses until it has used it.
/// Thread safety: different threads may use one buffer; ordering their work is theirs.
class Buffer {
public:
    /// `size_bytes` of uninitialised memory; 0 is legal and takes nothing from the device. May be larger than the device's
    /// largest single allocation. Throws out_of_memory with the sizes, holding nothing; unsupported where the device lacks the
    /// kind, with the reason; invalid_argument for `adopted`, which is not allocated.
    /// Native calls: cuMemAllocFromPoolAsync; mmap + cuMemHostRegister or cuMemHostAlloc; cuMemAllocManaged; clCreateBuffer and
    /// clSVMAlloc, once for each window; mmap.
    Buffer(const Device& device, std::size_t size_bytes, MemoryKind kind = MemoryKind::device);

    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() = default;

    [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }
    [[nodiscard]] MemoryKind kind() const noexcept { return kind_; }
    [[nodiscard]] const Device& device() const noexcept { return device_; }

    /// Whether the device works on the bytes that the host sees, and where they are, in words.
    [[nodiscard]] ZeroCopy zero_copy() const noexcept;
    [[nodiscard]] const std::string& residency() const noexcept;

    /// The bytes on the host, where that address is valid for the buffer's whole life and also while the device works on it (what
    /// it works on is for the caller to order); null where only `map` can tell one.
    [[nodiscard]] std::byte* host_address() const noexcept;

    /// A view of all bytes for the host. Waits for the pending work on this buffer, and for no other. In place where host and
    /// device share the memory; else a copy that is fetched here (unless `write`) and brought back when the view ends (unless
    /// `read`). Memory that was adopted is seen at its own address, always.
    ///
    /// Until the view ends, work on its bytes is an error, unless both only read. Throws invalid_argument where another view that
    /// writes is open, or for writing to read-only memory.
    [[nodiscard]] HostView map(Access access) const;

    /// For core/ alone. Null for zero bytes.
    [[nodiscard]] const std::shared_ptr<driver::Memory>& memory() const noexcept { return memory_; }
    /// For core/ alone.
    Buffer(const Device& device, std::shared_ptr<driver::Memory> memory, std::size_t size_bytes, MemoryKind kind);

private:
    Device device_;
    std::shared_ptr<driver::Memory> memory_;
    std::size_t size_bytes_;
    MemoryKind kind_;
};

/// Bytes of a buffer as the host sees them, from `map` until `unmap` or the end of scope. Holds the memory. Move-only.
/// The device can't work on these bytes meanwhile, unless both only read: launching such work is an error.
class HostView {
public:
    /// A view of no bytes.
    HostView() noexcept;
    HostView(HostView&& other) noexcept;
    HostView& operator=(HostView&& other) noexcept;
    HostView(const HostView&) = delete;
    HostView& operator=(const HostView&) = delete;
    ~HostView();

    [[nodiscard]] std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }
    /// True where the bytes are the memory itself and nothing was or will be copied.
    [[nodiscard]] bool in_place() const noexcept;

    /// Ends the view and brings written bytes to the device; later calls do nothing. The destructor does the same but can't
    /// report a failure, so call this where one matters.
    void unmap();

    /// For core/ alone: maps a range of `memory`.
    HostView(const Device& device, std::shared_ptr<driver::Memory> memory, std::size_t offset_bytes, std::size_t size_bytes,
             Access access);

private:
    struct State;
    std::unique_ptr<State> state_;
    std::byte* data_ = nullptr;
    std::size_t size_bytes_ = 0;
};

}  // namespace tandem
