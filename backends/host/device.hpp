#pragma once
// This machine's processors as a device: always there, and what the other backends are compared with.

#include "core/driver.hpp"

namespace tandem::host {

class Device final : public driver::Device {
public:
    explicit Device(DeviceInfo info) : info_(std::move(info)) {}

    [[nodiscard]] const DeviceInfo& info() const noexcept override { return info_; }
    std::shared_ptr<driver::Memory> allocate(std::size_t size_bytes, MemoryKind kind) override;
    std::shared_ptr<driver::Memory> adopt(const driver::HostRange& range) override;
    std::shared_ptr<driver::Queue> make_queue() override;
    std::shared_ptr<driver::Kernel> compile(const driver::CompileRequest& request) override;
    std::string blas_library() override;

private:
    DeviceInfo info_;
};

class Backend final : public driver::Backend {
public:
    std::vector<DeviceInfo> devices() override;
    std::shared_ptr<driver::Device> open(const DeviceInfo& info) override;
};

}  // namespace tandem::host
