#pragma once
// Callers' own kernels on an OpenCL device.

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/opencl/api.hpp"
#include "core/driver.hpp"

namespace tandem::opencl {

class Device;

/// A kernel and what its arguments are set to, which is state of a cl_kernel: a lock for each launch.
class Program final : public driver::Kernel {
public:
    /// From SPIR-V where the device takes it, else from OpenCL C. Native calls: clCreateProgramWithIL,
    /// clCreateProgramWithSource, clCreateProgramWithBinary, clBuildProgram, clCreateKernel, clGetKernelInfo, clGetKernelArgInfo,
    /// clGetKernelWorkGroupInfo.
    static std::shared_ptr<Program> compile(std::shared_ptr<Device> device, const driver::CompileRequest& request);

    Program(std::shared_ptr<Device> device, KernelHandle kernel, KernelInfo info);

    /// Native calls: clSetKernelArg, for what has changed since the last launch; clEnqueueNDRangeKernel.
    void launch(cl_command_queue queue, const driver::Launch& launch);

private:
    // An argument as it was last set. Values that are larger than there is room for are set each time.
    struct Bound {
        std::uint64_t id = 0;  // of the buffer; 0: none
        std::size_t size_bytes = 0;
        std::array<std::byte, 32> value{};
    };
    void set(cl_uint index, const driver::KernelArgument& argument);
    void set_buffer(cl_uint index, const driver::KernelArgument& argument);
    void set_value(cl_uint index, const void* value, std::size_t size_bytes);
    // Writes the size of a group, and rounds items up to whole groups, where the caller has said how large; false: the driver's
    // choice.
    bool lay_out(const driver::Launch& launch, std::size_t* items, std::size_t* group) const noexcept;

    std::shared_ptr<Device> device_;
    KernelHandle kernel_;
    std::mutex mutex_;
    std::vector<Bound> bound_;
};

}  // namespace tandem::opencl
