#pragma once
// The CUDA driver: libcuda.so.1, opened at run time; and a device's context, which nearly every call of it works on.

#include <cuda.h>

#include <new>
#include <string>
#include <string_view>

#include "core/shared_library.hpp"

namespace tandem::cuda {

// The functions taken from the driver. cuda.h maps most names to a versioned symbol (cuMemAlloc to cuMemAlloc_v2); the list is
// expanded after it, so that type, member and symbol are all of that version.
// clang-format off
#define TANDEM_FOR_EACH_CUDA_FUNCTION(X) \
    X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) \
    X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute) X(cuDeviceTotalMem) \
    X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxGetCurrent) X(cuCtxPushCurrent) X(cuCtxPopCurrent) \
    X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemAllocManaged) \
    X(cuMemHostRegister) X(cuMemHostUnregister) X(cuMemHostGetDevicePointer) X(cuPointerGetAttribute) X(cuMemcpyAsync) \
    X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamWaitEvent) \
    X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize) \
    X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuLaunchKernel) \
    X(cuFuncGetAttribute) X(cuFuncSetAttribute) X(cuOccupancyMaxPotentialBlockSize) \
    X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphDestroy) \
    X(cuGraphExecDestroy)

// Null where the driver is older than they are; checked before use.
#define TANDEM_FOR_EACH_OPTIONAL_CUDA_FUNCTION(X) \
    X(cuDeviceGetUuid) X(cuCtxEnablePeerAccess) X(cuMemPoolSetAccess) X(cuMemcpyPeerAsync) \
    X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemPoolSetAttribute) X(cuMemPoolTrimTo) \
    X(cuMemAllocFromPoolAsync) X(cuMemFreeAsync) \
    X(cuMemPrefetchAsync_v2) X(cuMemAdvise_v2) \
    X(cuMemCreate) X(cuMemRelease) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) \
    X(cuMemExportToShareableHandle) X(cuMemImportFromShareableHandle) \
    X(cuMemGetAllocationGranularity) X(cuMemGetAllocationPropertiesFromHandle) X(cuMemGetAddressRange) \
    X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle) X(cuIpcCloseMemHandle) X(cuDeviceCanAccessPeer)
#if CUDA_VERSION >= 12040
#define TANDEM_FOR_EACH_NEWER_CUDA_FUNCTION(X) X(cuFuncGetParamInfo)
#else
#define TANDEM_FOR_EACH_NEWER_CUDA_FUNCTION(X)
#endif
// clang-format on

/// The function table, filled and with cuInit done. Lives until the process ends. Thread safe.
class Api {
public:
    /// Opens the driver on the first call. Throws unavailable: "libcuda.so.1 not found", "cuInit: CUDA_ERROR_NO_DEVICE".
    static const Api& get();

#define TANDEM_X(name) decltype(&::name) name = nullptr;
    TANDEM_FOR_EACH_CUDA_FUNCTION(TANDEM_X)
    TANDEM_FOR_EACH_OPTIONAL_CUDA_FUNCTION(TANDEM_X)
    TANDEM_FOR_EACH_NEWER_CUDA_FUNCTION(TANDEM_X)
#undef TANDEM_X

    /// Throws for a `result` other than success: "cuda:0: cuMemAlloc of 4096 bytes: CUDA_ERROR_OUT_OF_MEMORY" with "cuda:0" as
    /// `where`, which may be empty, and the rest of it as `operation`.
    void check(CUresult result, std::string_view where, std::string_view operation) const {
        if (result != CUDA_SUCCESS) fail(result, where, operation);
    }
    [[noreturn]] void fail(CUresult result, std::string_view where, std::string_view operation) const;

private:
    Api();

    SharedLibrary library_{"libcuda.so.1"};
};

/// A device's primary context: the one that the runtime API uses too, so memory is shared with whoever else is in the process.
/// Held from construction to destruction. Thread safe. Native calls: cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRelease.
class Context {
public:
    /// `where` names the device in messages: "cuda:0".
    Context(const Api& api, CUdevice device, std::string where);
    ~Context();
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    [[nodiscard]] const Api& api() const noexcept { return api_; }
    [[nodiscard]] CUcontext native() const noexcept { return native_; }
    [[nodiscard]] CUdevice device() const noexcept { return device_; }

    void check(CUresult result, std::string_view operation) const { api_.check(result, where_, operation); }
    [[noreturn]] void fail(CUresult result, std::string_view operation) const { api_.fail(result, where_, operation); }

private:
    const Api& api_;
    CUdevice device_;
    CUcontext native_ = nullptr;
    std::string where_;
};

/// Makes a context the calling thread's current one for a scope, and the caller's own again afterwards. Costs one query where it
/// is current already.
class Current {
public:
    explicit Current(const Context& context) : Current(context, std::nothrow) { context.check(result_, "cuCtxPushCurrent"); }
    /// For destructors: `is_ready` tells whether calls are of use, which they are not once the driver has shut down.
    Current(const Context& context, std::nothrow_t) noexcept : api_(context.api()) {
        CUcontext current = nullptr;
        result_ = api_.cuCtxGetCurrent(&current);
        if (result_ != CUDA_SUCCESS || current == context.native()) return;
        result_ = api_.cuCtxPushCurrent(context.native());
        pushed_ = result_ == CUDA_SUCCESS;
    }
    ~Current() {
        CUcontext ours;
        if (pushed_) api_.cuCtxPopCurrent(&ours);
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

    [[nodiscard]] bool is_ready() const noexcept { return result_ == CUDA_SUCCESS; }

private:
    const Api& api_;
    CUresult result_;
    bool pushed_ = false;
};

}  // namespace tandem::cuda
