#pragma once
// CUDA devices.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/api.hpp"
#include "backends/cuda/kernel.hpp"
#include "backends/cuda/memory.hpp"
#include "backends/cuda/queue.hpp"
#include "core/driver.hpp"

namespace tandem::cuda {

/// 32 hexadecimal digits; empty where the driver does not tell. Native call: cuDeviceGetUuid.
std::string uuid_text(const Api& api, CUdevice device);

/// What this device can do with memory that is not its own.
struct DeviceTraits {
    bool reads_pageable_memory = false;  ///< any memory of the process, without registering it: integrated, HMM, ATS
    bool registers_read_only_memory = false;
    bool has_concurrent_managed_access = false;  ///< host and device may use managed memory at the same time
};

/// An open device: its primary context and what is shared by all that is made on it.
class Device final : public driver::Device {
public:
    Device(const Api& api, CUdevice device, const DeviceInfo& info);

    [[nodiscard]] const DeviceInfo& info() const noexcept override { return info_; }
    std::shared_ptr<driver::Memory> allocate(std::size_t size_bytes, MemoryKind kind) override;
    std::shared_ptr<driver::Memory> adopt(const driver::HostRange& range) override;
    /// Registering and copying windows from one thread reaches 47 GB/s on an H200, and each reader some 6.5 GB/s; at an eighth of
    /// the processor time for each byte.
    [[nodiscard]] unsigned readers_worth_adopting() const noexcept override { return 8; }
    std::string advise(driver::Memory& memory, std::size_t offset_bytes, std::size_t size_bytes, MemoryAdvice advice) override;
    std::shared_ptr<driver::Queue> make_queue() override;
    std::shared_ptr<driver::Kernel> compile(const driver::CompileRequest& request) override;

    std::shared_ptr<driver::Memory> allocate_shareable(std::size_t size_bytes) override;
    std::shared_ptr<driver::Memory> attach(const driver::SharedRange& range, int file) override;
    std::shared_ptr<driver::Memory> adopt_device_memory(std::uint64_t address, std::size_t size_bytes) override;
    std::string blas_library() override;
    [[nodiscard]] std::size_t blas_scratch_bytes(const driver::BlasGemm& call) const noexcept override;

    [[nodiscard]] const Context& context() const noexcept { return context_; }
    [[nodiscard]] const DeviceTraits& traits() const noexcept { return traits_; }
    /// The driver's name for one of the two sides.
    [[nodiscard]] CUmemLocation location(Location where) const noexcept;
    [[nodiscard]] MemoryPool& memory_pool() noexcept { return memory_pool_; }
    /// Lets this device and `other` reach each other's memory directly, where they are linked; once for each pair.
    /// Native calls: cuCtxEnablePeerAccess, cuMemPoolSetAccess.
    void link_to(Device& other);
    [[nodiscard]] EventPool& events() noexcept { return events_; }
    [[nodiscard]] Kernels& kernels() noexcept { return kernels_; }
    /// 10 * major + minor.
    [[nodiscard]] int compute_capability() const noexcept { return compute_capability_; }

private:
    std::shared_ptr<Device> shared() { return std::static_pointer_cast<Device>(shared_from_this()); }

    DeviceInfo info_;
    Context context_;  // before what lives in it
    DeviceTraits traits_;
    int compute_capability_;
    MemoryPool memory_pool_{context_};
    EventPool events_{context_};
    Kernels kernels_{context_, info_};
    std::mutex linked_mutex_;
    std::vector<CUdevice> linked_;  ///< devices that `link_to` has seen
};

/// Native calls: cuInit, cuDriverGetVersion, cuDeviceGetCount, cuDeviceGet, cuDeviceGetName, cuDeviceGetAttribute,
/// cuDeviceGetUuid, cuDeviceTotalMem.
class Backend final : public driver::Backend {
public:
    std::vector<DeviceInfo> devices() override;
    std::shared_ptr<driver::Device> open(const DeviceInfo& info) override;

private:
    std::mutex mutex_;
    std::vector<CUdevice> listed_;  ///< by DeviceInfo::index
};

}  // namespace tandem::cuda
