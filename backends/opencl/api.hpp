#pragma once
// OpenCL's entry points, opened at run time, and what becomes of their errors.

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#endif
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS  // clCreateCommandQueue, the only way before 2.0 and still there in 3.0
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "core/shared_library.hpp"

namespace tandem::opencl {

// All of OpenCL 1.2, which every device that is listed has. What is newer is to be found, not required, and may be null.
#define TANDEM_OPENCL_FUNCTIONS(X)  \
    X(clGetPlatformIDs)             \
    X(clGetPlatformInfo)            \
    X(clGetDeviceIDs)               \
    X(clGetDeviceInfo)              \
    X(clCreateContext)              \
    X(clReleaseContext)             \
    X(clCreateCommandQueue)         \
    X(clReleaseCommandQueue)        \
    X(clCreateBuffer)               \
    X(clReleaseMemObject)           \
    X(clCreateProgramWithSource)    \
    X(clCreateProgramWithBinary)    \
    X(clBuildProgram)               \
    X(clGetProgramInfo)             \
    X(clGetProgramBuildInfo)        \
    X(clReleaseProgram)             \
    X(clCreateKernel)               \
    X(clReleaseKernel)              \
    X(clSetKernelArg)               \
    X(clGetKernelInfo)              \
    X(clGetKernelArgInfo)           \
    X(clGetKernelWorkGroupInfo)     \
    X(clCreateSubBuffer)            \
    X(clEnqueueNDRangeKernel)       \
    X(clEnqueueReadBuffer)          \
    X(clEnqueueWriteBuffer)         \
    X(clEnqueueCopyBuffer)          \
    X(clEnqueueMapBuffer)           \
    X(clEnqueueUnmapMemObject)      \
    X(clEnqueueMigrateMemObjects)   \
    X(clEnqueueMarkerWithWaitList)  \
    X(clEnqueueBarrierWithWaitList) \
    X(clWaitForEvents)              \
    X(clGetEventInfo)               \
    X(clReleaseEvent)               \
    X(clFlush)                      \
    X(clFinish)

#define TANDEM_OPTIONAL_OPENCL_FUNCTIONS(X)     \
    X(clGetExtensionFunctionAddressForPlatform) \
    X(clCreateBufferWithProperties)             \
    X(clSVMAlloc)                               \
    X(clSVMFree)                                \
    X(clCreateProgramWithIL)

class Api {
    SharedLibrary library_;

public:
#define TANDEM_X(name) decltype(&::name) name;
    TANDEM_OPENCL_FUNCTIONS(TANDEM_X)
    TANDEM_OPTIONAL_OPENCL_FUNCTIONS(TANDEM_X)
#undef TANDEM_X

    /// Throws unavailable: "libOpenCL.so.1 not found", or what it lacks.
    Api();
};

/// The one table; opened on the first call, and again on the next where that failed. Thread safe.
const Api& api();

/// "CL_OUT_OF_RESOURCES"; "unknown OpenCL error" for what no header names.
const char* error_name(cl_int status) noexcept;

/// What was asked of the driver: it decides what a status that means several things means here.
enum class Stage {
    setup,       ///< contexts, queues, programs
    allocation,  ///< running out of anything is out_of_memory
    submission,  ///< likewise: many drivers allocate a buffer when it is first used
    waiting,     ///< what arrives here went wrong on the device: device_lost
};

/// Throws the Error for `status`: "`subject`: `what`: CL_NAME".
[[noreturn]] void fail(cl_int status, Stage stage, std::string_view subject, std::string_view what);

/// Throws where `status` is a failure; `what` and its arguments say which call it was, and are formatted only then.
template <class... Arguments>
inline void check(cl_int status, Stage stage, std::string_view subject, fmt::format_string<Arguments...> what,
                  Arguments&&... arguments) {
    if (status != CL_SUCCESS) [[unlikely]] {
        fail(status, stage, subject, fmt::format(what, std::forward<Arguments>(arguments)...));
    }
}

/// Owns one OpenCL object. Move-only.
template <class Object, auto Release>
class Handle {
public:
    Handle() = default;
    explicit Handle(Object object) noexcept : object_(object) {}
    Handle(Handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Handle& operator=(Handle&& other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    /// Where a call puts the object; the handle is empty.
    [[nodiscard]] Object* put() noexcept { return &object_; }
    ~Handle() {
        if (object_ != nullptr) (api().*Release)(object_);
    }

    [[nodiscard]] Object get() const noexcept { return object_; }

private:
    Object object_ = nullptr;
};

using ContextHandle = Handle<cl_context, &Api::clReleaseContext>;
using QueueHandle = Handle<cl_command_queue, &Api::clReleaseCommandQueue>;
using MemoryHandle = Handle<cl_mem, &Api::clReleaseMemObject>;
using ProgramHandle = Handle<cl_program, &Api::clReleaseProgram>;
using KernelHandle = Handle<cl_kernel, &Api::clReleaseKernel>;
using EventHandle = Handle<cl_event, &Api::clReleaseEvent>;

}  // namespace tandem::opencl
