#pragma once
// OpenCL platforms and devices.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/opencl/api.hpp"
#include "backends/opencl/kernel.hpp"
#include "backends/opencl/sharing.hpp"
#include "core/driver.hpp"

namespace tandem::opencl {

/// Windows of device memory that were let go of, for the next ones of their size: creating one costs a driver a tenth of a
/// millisecond, and its first use some milliseconds for each GiB. Keeps an eighth of the device's memory at most, and nothing
/// where more than three quarters of it would be taken. Thread safe.
class WindowPool {
public:
    explicit WindowPool(std::uint64_t memory_bytes);

    /// Empty where there is none of that size. Either way the bytes count as used until `put`.
    MemoryHandle take(std::size_t size_bytes);
    /// No work refers to it.
    void put(MemoryHandle window, std::size_t size_bytes) noexcept;

private:
    struct Kept {
        MemoryHandle window;
        std::size_t size_bytes;
    };
    const std::uint64_t memory_bytes_;
    std::mutex mutex_;
    std::vector<Kept> kept_;
    std::uint64_t kept_bytes_ = 0;
    std::uint64_t used_bytes_ = 0;
};

/// One device in a context of its own.
class Device final : public driver::Device {
public:
    /// Native calls: clCreateContext, clCreateCommandQueue.
    Device(DeviceInfo info, cl_device_id device, std::string build_identity);

    [[nodiscard]] const DeviceInfo& info() const noexcept override { return info_; }
    std::shared_ptr<driver::Memory> allocate(std::size_t size_bytes, MemoryKind kind) override;
    std::shared_ptr<driver::Memory> adopt(const driver::HostRange& range) override;
    std::shared_ptr<driver::Memory> attach(const driver::SharedRange& range, int file) override;
    std::shared_ptr<driver::Queue> make_queue() override;
    std::shared_ptr<driver::Kernel> compile(const driver::CompileRequest& request) override;
    std::string blas_library() override;

    [[nodiscard]] const std::string& spec() const noexcept { return info_.spec; }
    [[nodiscard]] cl_device_id native() const noexcept { return device_; }
    [[nodiscard]] cl_context context() const noexcept { return context_.get(); }
    /// For what is not in any caller's queue: mapping, and taking memory when it is allocated.
    [[nodiscard]] cl_command_queue internal_queue() const noexcept { return internal_queue_.get(); }
    [[nodiscard]] WindowPool& window_pool() noexcept { return window_pool_; }
    [[nodiscard]] const ExternalMemoryFunctions& external_memory() const noexcept { return external_memory_; }
    [[nodiscard]] Programs& programs() noexcept { return programs_; }
    /// What a sub-buffer's offset has to be a multiple of; 0: its driver's are not to be used.
    [[nodiscard]] std::size_t base_alignment() const noexcept { return base_alignment_; }
    [[nodiscard]] QueueHandle create_queue() const;

private:
    DeviceInfo info_;
    cl_device_id device_;
    std::size_t base_alignment_;
    ContextHandle context_;
    QueueHandle internal_queue_;
    WindowPool window_pool_;
    ExternalMemoryFunctions external_memory_;
    Programs programs_;

    std::shared_ptr<Device> shared() { return std::static_pointer_cast<Device>(shared_from_this()); }
};

class Backend final : public driver::Backend {
public:
    std::vector<DeviceInfo> devices() override;
    std::shared_ptr<driver::Device> open(const DeviceInfo& info) override;

private:
    struct Listed {
        DeviceInfo info;
        cl_device_id device;
        std::string build_identity;  ///< what a compiled program depends on beside its source
    };
    const std::vector<Listed>& list();

    std::mutex mutex_;
    std::vector<Listed> listed_;  ///< filled once, since an open device refers to its place in it
};

}  // namespace tandem::opencl
