#include "backends/opencl/sharing.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "backends/opencl/device.hpp"
#include "backends/opencl/memory.hpp"
#include "core/posix_file.hpp"
#include "tandem/error.hpp"

namespace tandem::opencl {
namespace {

bool imports_file_descriptors(cl_device_id device) {
    std::size_t size_bytes = 0;
    const cl_device_info what = CL_DEVICE_EXTERNAL_MEMORY_IMPORT_HANDLE_TYPES_KHR;
    if (api().clGetDeviceInfo(device, what, 0, nullptr, &size_bytes) != CL_SUCCESS || size_bytes == 0) return false;
    std::vector<cl_external_memory_handle_type_khr> types(size_bytes / sizeof(cl_external_memory_handle_type_khr));
    if (api().clGetDeviceInfo(device, what, size_bytes, types.data(), nullptr) != CL_SUCCESS) return false;
    return std::find(types.begin(), types.end(), CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR) != types.end();
}

}  // namespace

ExternalMemoryFunctions::ExternalMemoryFunctions(cl_device_id device) {
    cl_platform_id platform = nullptr;
    if (api().clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, nullptr) != CL_SUCCESS) return;
    if (api().clGetExtensionFunctionAddressForPlatform == nullptr || !imports_file_descriptors(device)) return;
    const auto find = [&](auto& function, const char* name) {
        void* address = api().clGetExtensionFunctionAddressForPlatform(platform, name);
        std::memcpy(&function, &address, sizeof address);
    };
    find(acquire, "clEnqueueAcquireExternalMemObjectsKHR");
    find(release, "clEnqueueReleaseExternalMemObjectsKHR");
}

MemoryHandle import_buffer(const Device& device, const driver::SharedRange& range, int file) {
    const Api& cl = api();
    if (range.method != ShareMethod::device_memory)
        throw Error(ErrorCode::unsupported, "OpenCL has nothing for CUDA IPC handles");
    const ExternalMemoryFunctions& external = device.external_memory();
    if (external.acquire == nullptr || external.release == nullptr || cl.clCreateBufferWithProperties == nullptr)
        throw Error(ErrorCode::unsupported, "its platform imports no memory (cl_khr_external_memory_opaque_fd)");
    if (device.info().uuid.empty() || device.info().uuid != range.device_uuid) {
        throw Error(ErrorCode::unavailable, fmt::format("it is memory of the GPU with UUID {}, and this one has {}",
                                                        range.device_uuid, device.info().uuid));
    }
    // What the driver makes of a file that is not its own is not documented.
    struct stat status {};
    if (::fstat(file, &status) != 0 || !S_ISCHR(status.st_mode))
        throw Error(ErrorCode::bad_file, "a file descriptor of device memory needed, another kind of file found");
    FileDescriptor own = FileDescriptor::duplicate(file);
    const std::array<cl_mem_properties, 3> properties = {CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR,
                                                         static_cast<cl_mem_properties>(own.number()), 0};
    cl_int result = CL_SUCCESS;
    MemoryHandle buffer(cl.clCreateBufferWithProperties(device.context(), properties.data(), CL_MEM_READ_WRITE, range.size_bytes,
                                                        nullptr, &result));
    if (result == CL_OUT_OF_RESOURCES || result == CL_OUT_OF_HOST_MEMORY || result == CL_MEM_OBJECT_ALLOCATION_FAILURE)
        fail(result, Stage::allocation, device.spec(), fmt::format("clCreateBufferWithProperties of {} bytes", range.size_bytes));
    if (result != CL_SUCCESS) {
        throw Error(ErrorCode::bad_file,
                    fmt::format("a file descriptor of {} bytes of device memory needed, another found: "
                                "clCreateBufferWithProperties: {} {}",
                                range.size_bytes, error_name(result), result),
                    result);
    }
    own.release();  // the driver's from here on
    return buffer;
}

Acquisition::Acquisition(const Device& device, cl_command_queue queue, std::initializer_list<const driver::Memory*> operands)
    : device_(device), queue_(queue) {
    for (const driver::Memory* operand : operands)
        add(operand);
    acquire();
}

Acquisition::Acquisition(const Device& device, cl_command_queue queue, const driver::Walk& call, const driver::Memory* state)
    : device_(device), queue_(queue) {
    for (int i = 0; i < call.operand_count; ++i)
        add(call.operands[static_cast<std::size_t>(i)].memory);
    if (state != nullptr) add(state);
    acquire();
}

void Acquisition::add(const driver::Memory* memory) {
    const auto& own = static_cast<const Memory&>(*memory);
    if (!own.is_imported()) return;
    const cl_mem buffer = own.place(0).window;
    if (std::find(buffers_.begin(), buffers_.end(), buffer) == buffers_.end()) buffers_.push_back(buffer);
}

void Acquisition::acquire() {
    if (buffers_.empty()) return;
    const cl_int result =
        device_.external_memory().acquire(queue_, static_cast<cl_uint>(buffers_.size()), buffers_.data(), 0, nullptr, nullptr);
    if (result == CL_SUCCESS) return;
    buffers_.clear();
    fail(result, Stage::submission, device_.spec(), "clEnqueueAcquireExternalMemObjectsKHR");
}

Acquisition::~Acquisition() {
    if (buffers_.empty()) return;
    device_.external_memory().release(queue_, static_cast<cl_uint>(buffers_.size()), buffers_.data(), 0, nullptr, nullptr);
}

bool Acquisition::release() {
    if (buffers_.empty()) return false;
    const std::vector<cl_mem> buffers = std::move(buffers_);
    buffers_.clear();
    check(device_.external_memory().release(queue_, static_cast<cl_uint>(buffers.size()), buffers.data(), 0, nullptr, nullptr),
          Stage::submission, device_.spec(), "clEnqueueReleaseExternalMemObjectsKHR");
    return true;
}

}  // namespace tandem::opencl
