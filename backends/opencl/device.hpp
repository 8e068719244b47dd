#pragma once
// OpenCL platforms and devices.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/opencl/api.hpp"
#include "backends/opencl/kernel.hpp"
#include "core/driver.hpp"

namespace tandem::opencl {

/// One device in a context of its own.
class Device final : public driver::Device {
public:
    /// Native calls: clCreateContext, clCreateCommandQueue.
    Device(DeviceInfo info, cl_device_id device, std::string build_identity);

    [[nodiscard]] const DeviceInfo& info() const noexcept override { return info_; }
    std::shared_ptr<driver::Memory> allocate(std::size_t size_bytes, MemoryKind kind) override;
    std::shared_ptr<driver::Memory> adopt(const driver::HostRange& range) override;
    std::shared_ptr<driver::Queue> make_queue() override;

    [[nodiscard]] const std::string& spec() const noexcept { return info_.spec; }
    [[nodiscard]] cl_device_id native() const noexcept { return device_; }
    [[nodiscard]] cl_context context() const noexcept { return context_.get(); }
    /// For what is not in any caller's queue: mapping, and taking memory when it is allocated.
    [[nodiscard]] cl_command_queue internal_queue() const noexcept { return internal_queue_.get(); }
    [[nodiscard]] Programs& programs() noexcept { return programs_; }
    [[nodiscard]] QueueHandle create_queue() const;

private:
    DeviceInfo info_;
    cl_device_id device_;
    ContextHandle context_;
    QueueHandle internal_queue_;
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
