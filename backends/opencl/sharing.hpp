#pragma once
// Memory that another driver allocated.

#include <initializer_list>
#include <vector>

#include "backends/opencl/api.hpp"
#include "core/driver.hpp"

namespace tandem::opencl {

class Device;

/// What a platform offers for memory of other drivers; null where it does not. Native call:
/// clGetExtensionFunctionAddressForPlatform.
struct ExternalMemoryFunctions {
    clEnqueueAcquireExternalMemObjectsKHR_fn acquire = nullptr;
    clEnqueueReleaseExternalMemObjectsKHR_fn release = nullptr;

    explicit ExternalMemoryFunctions(cl_device_id device);
};

/// The buffer that `file`, which stays the caller's, stands for. Throws unsupported where the platform imports none, unavailable
/// for another GPU's memory, bad_file where the driver refuses. Native call:
/// clCreateBufferWithProperties(CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR).
MemoryHandle import_buffer(const Device& device, const driver::SharedRange& range, int file);

/// Hands other drivers' memory among some operands to a queue for a scope. Costs nothing where there is none.
/// Native calls: clEnqueueAcquireExternalMemObjectsKHR, clEnqueueReleaseExternalMemObjectsKHR.
class Acquisition {
public:
    Acquisition(const Device& device, cl_command_queue queue, std::initializer_list<const driver::Memory*> operands);
    Acquisition(const Device& device, cl_command_queue queue, const driver::Walk& call, const driver::Memory* state = nullptr);
    /// Where a call failed in between.
    ~Acquisition();
    Acquisition(const Acquisition&) = delete;
    Acquisition& operator=(const Acquisition&) = delete;

    /// True where there was something to hand back.
    bool release();

private:
    void add(const driver::Memory* memory);
    void acquire();

    const Device& device_;
    cl_command_queue queue_;
    std::vector<cl_mem> buffers_;
};

}  // namespace tandem::opencl
