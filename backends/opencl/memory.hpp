#pragma once
// OpenCL buffers: one cl_mem for each window.

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/opencl/api.hpp"
#include "backends/opencl/device.hpp"
#include "core/driver.hpp"

namespace tandem::opencl {

class Memory final : public driver::Memory {
public:
    /// Takes every window, or none. Native calls: clCreateBuffer, clEnqueueMigrateMemObjects.
    Memory(std::shared_ptr<Device> device, std::size_t size_bytes);

    /// OpenCL 1.2 tells no address, so these are numbers from a counter: multiples of 4096, and never given twice in a process.
    [[nodiscard]] std::uint64_t address() const noexcept override { return address_; }
    [[nodiscard]] std::size_t window_bytes() const noexcept override { return window_bytes_; }

    /// In place on a device that shares the host's memory; elsewhere the driver moves the bytes, at the speed of the link. Null
    /// for a range over several windows. Native calls: clEnqueueMapBuffer, blocking; clEnqueueUnmapMemObject, waited for.
    void* map(std::size_t offset_bytes, std::size_t size_bytes, Access access) override;
    void unmap(void* address, Access access) override;

    /// A place in one window; `id` names the window for as long as the process runs, which a cl_mem doesn't.
    struct Place {
        cl_mem window;
        std::uint64_t id;
        std::size_t offset_bytes;
    };
    [[nodiscard]] Place place(std::size_t offset_bytes) const noexcept {
        if (offset_bytes < window_bytes_) return {windows_[0].get(), address_, offset_bytes};
        const std::size_t index = offset_bytes / window_bytes_;
        return {windows_[index].get(), address_ + index * window_bytes_, offset_bytes % window_bytes_};
    }

private:
    struct Mapping {
        void* address;
        cl_mem window;
    };

    std::shared_ptr<Device> device_;
    std::size_t window_bytes_;
    std::vector<MemoryHandle> windows_;
    std::uint64_t address_;
    std::mutex mutex_;
    std::vector<Mapping> mappings_;
};

}  // namespace tandem::opencl
