#pragma once
// Memory of a CUDA device.

#include <cstddef>
#include <memory>
#include <utility>

#include "backends/cuda/api.hpp"
#include "backends/cuda/registration.hpp"
#include "core/driver.hpp"
#include "core/host_block.hpp"

namespace tandem::cuda {

class Device;

/// Where a device's memory comes from. A stream-ordered pool where the driver has one, since cuMemFree waits for all work of the
/// device, whichever queue it is on, and giving back to a pool does not; else cuMemAlloc.
///
/// The pool is tandem's own, so its settings touch nobody else's. Thread safe.
/// Native calls: cuMemAllocFromPoolAsync, cuMemFreeAsync; cuMemAlloc, cuMemFree.
class MemoryPool {
public:
    explicit MemoryPool(const Context& context);
    ~MemoryPool();
    MemoryPool(const MemoryPool&) = delete;
    MemoryPool& operator=(const MemoryPool&) = delete;

    /// Memory that any queue may use from now on. Throws out_of_memory, after all that was given back has been tried again.
    CUdeviceptr allocate(std::size_t size_bytes);
    /// Takes back memory that no queued work uses.
    void free(CUdeviceptr address) noexcept;
    /// Lets another device reach all of the pool's memory, where the two are linked. Native call: cuMemPoolSetAccess.
    void open_to(CUdevice other) noexcept;

private:
    CUresult try_allocate(CUdeviceptr& address, std::size_t size_bytes) noexcept;

    const Context& context_;
    CUmemoryPool pool_ = nullptr;  ///< null: cuMemAlloc
    CUstream stream_ = nullptr;    ///< orders the pool's work; nothing else runs on it, so it never holds anything up
};

/// Any memory at one address of the device: with unified addressing also the host's address, where the host reaches it.
class Memory : public driver::Memory {
public:
    /// The CUdeviceptr.
    [[nodiscard]] std::uint64_t address() const noexcept override { return address_; }
    [[nodiscard]] const std::shared_ptr<Device>& device() const noexcept { return device_; }
    /// Bytes from `offset_bytes` on that one copy may take.
    [[nodiscard]] virtual std::size_t run_bytes(std::size_t /*offset_bytes*/) const noexcept { return SIZE_MAX; }

protected:
    Memory(std::shared_ptr<Device> device, std::size_t size_bytes, MemoryKind kind, Residency residency);

    std::shared_ptr<Device> device_;
    CUdeviceptr address_ = 0;
};

class DeviceMemory final : public Memory {
public:
    DeviceMemory(std::shared_ptr<Device> device, std::size_t size_bytes);
    ~DeviceMemory() override;
    std::pair<driver::SharedRange, FileDescriptor> share() override;
};

/// Memory that host and device reach at the same address.
class HostVisibleMemory : public Memory {
public:
    [[nodiscard]] std::byte* host_address() const noexcept final { return reinterpret_cast<std::byte*>(address_); }
    void* map(std::size_t offset_bytes, std::size_t /*size_bytes*/, Access /*access*/) final {
        return host_address() + offset_bytes;
    }

protected:
    using Memory::Memory;
};

/// Large memory is had by touching huge pages on all processors and registering them, which is several times as fast as
/// cuMemHostAlloc. Native calls: mmap, madvise, cuMemHostRegister; cuMemHostAlloc, cuMemFreeHost for small memory.
class PinnedMemory final : public HostVisibleMemory {
public:
    PinnedMemory(std::shared_ptr<Device> device, std::size_t size_bytes);
    ~PinnedMemory() override;
    std::pair<driver::SharedRange, FileDescriptor> share() override;
    [[nodiscard]] std::size_t run_bytes(std::size_t offset_bytes) const noexcept override;

private:
    HostBlock block_;           ///< empty: cuMemHostAlloc
    Registrations::Hold hold_;  ///< goes before the block does
};

/// Native calls: cuMemAllocManaged, cuMemFree.
class ManagedMemory final : public HostVisibleMemory {
public:
    ManagedMemory(std::shared_ptr<Device> device, std::size_t size_bytes);
    ~ManagedMemory() override;
    std::pair<driver::SharedRange, FileDescriptor> share() override;
};

/// Memory that exists: as it is, where the device reads pageable memory; else registered.
class AdoptedMemory final : public HostVisibleMemory {
public:
    AdoptedMemory(std::shared_ptr<Device> device, const driver::HostRange& range);
    [[nodiscard]] std::size_t run_bytes(std::size_t offset_bytes) const noexcept override;

private:
    Registrations::Hold hold_;
};

}  // namespace tandem::cuda
