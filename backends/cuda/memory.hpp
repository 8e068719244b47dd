#pragma once
// Memory of a CUDA device.

#include <cstddef>
#include <memory>

#include "backends/cuda/api.hpp"
#include "core/driver.hpp"

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

private:
    CUresult try_allocate(CUdeviceptr& address, std::size_t size_bytes) noexcept;

    const Context& context_;
    CUmemoryPool pool_ = nullptr;  ///< null: cuMemAlloc
    CUstream stream_ = nullptr;    ///< orders the pool's work; nothing else runs on it, so it never holds anything up
};

class Memory final : public driver::Memory {
public:
    Memory(std::shared_ptr<Device> device, std::size_t size_bytes);
    ~Memory() override;

    /// The CUdeviceptr.
    [[nodiscard]] std::uint64_t address() const noexcept override { return address_; }

private:
    std::shared_ptr<Device> device_;
    CUdeviceptr address_;
};

}  // namespace tandem::cuda
