#include "backends/cuda/api.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "tandem/error.hpp"

namespace tandem::cuda {

namespace {

ErrorCode code_of(CUresult result) {
    switch (result) {
        case CUDA_ERROR_OUT_OF_MEMORY:
        case CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED:
            return ErrorCode::out_of_memory;
        case CUDA_ERROR_NO_DEVICE:
        case CUDA_ERROR_INVALID_DEVICE:
        case CUDA_ERROR_DEVICE_UNAVAILABLE:
        case CUDA_ERROR_DEVICE_NOT_LICENSED:
        case CUDA_ERROR_STUB_LIBRARY:
        case CUDA_ERROR_NOT_INITIALIZED:
        case CUDA_ERROR_DEINITIALIZED:
        case CUDA_ERROR_SYSTEM_NOT_READY:
        case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
        case CUDA_ERROR_MPS_CONNECTION_FAILED:
        case CUDA_ERROR_MPS_SERVER_NOT_READY:
        case CUDA_ERROR_MPS_MAX_CLIENTS_REACHED:
            return ErrorCode::unavailable;
        case CUDA_ERROR_NOT_SUPPORTED:
        case CUDA_ERROR_NOT_PERMITTED:
        case CUDA_ERROR_NO_BINARY_FOR_GPU:
        case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
        case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
        case CUDA_ERROR_JIT_COMPILATION_DISABLED:
        case CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER:
            return ErrorCode::unsupported;
        case CUDA_ERROR_INVALID_PTX:
            return ErrorCode::build_failed;
        // After any of these the context returns nothing but errors.
        case CUDA_ERROR_ECC_UNCORRECTABLE:
        case CUDA_ERROR_NVLINK_UNCORRECTABLE:
        case CUDA_ERROR_ILLEGAL_ADDRESS:
        case CUDA_ERROR_LAUNCH_TIMEOUT:
        case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        case CUDA_ERROR_ASSERT:
        case CUDA_ERROR_HARDWARE_STACK_ERROR:
        case CUDA_ERROR_ILLEGAL_INSTRUCTION:
        case CUDA_ERROR_MISALIGNED_ADDRESS:
        case CUDA_ERROR_INVALID_ADDRESS_SPACE:
        case CUDA_ERROR_INVALID_PC:
        case CUDA_ERROR_LAUNCH_FAILED:
        case CUDA_ERROR_EXTERNAL_DEVICE:
        case CUDA_ERROR_MPS_RPC_FAILURE:
        case CUDA_ERROR_MPS_CLIENT_TERMINATED:
            return ErrorCode::device_lost;
        default:
            return ErrorCode::internal;
    }
}

}  // namespace

const Api& Api::get() {
    // Never destroyed: arrays in static storage outlive any order of destruction. A failed attempt is repeated by the next call.
    static const Api* const api = new Api;
    return *api;
}

// Two levels, so that cuda.h's own mapping of the name is applied before it becomes text.
#define TANDEM_TEXT_(name) #name
#define TANDEM_TEXT(name) TANDEM_TEXT_(name)

Api::Api() {
#define TANDEM_X(name) this->name = library_.get<decltype(&::name)>(TANDEM_TEXT(name));
    TANDEM_FOR_EACH_CUDA_FUNCTION(TANDEM_X)
#undef TANDEM_X
#define TANDEM_X(name) this->name = library_.find<decltype(&::name)>(TANDEM_TEXT(name));
    TANDEM_FOR_EACH_OPTIONAL_CUDA_FUNCTION(TANDEM_X)
#undef TANDEM_X
    if (const CUresult result = cuInit(0); result != CUDA_SUCCESS) {
        const char* name = nullptr;
        cuGetErrorName(result, &name);
        throw Error(ErrorCode::unavailable, fmt::format("cuInit: {}", name != nullptr ? name : std::to_string(result)),
                    static_cast<int>(result));
    }
}

void Api::fail(CUresult result, std::string_view where, std::string_view operation) const {
    const char* name = nullptr;
    cuGetErrorName(result, &name);
    const std::string error = name != nullptr ? std::string(name) : fmt::format("CUresult {}", static_cast<int>(result));
    throw Error(code_of(result), fmt::format("{}{}{}: {}", where, where.empty() ? "" : ": ", operation, error),
                static_cast<int>(result));
}

Context::Context(const Api& api, CUdevice device, std::string where) : api_(api), device_(device), where_(std::move(where)) {
    check(api_.cuDevicePrimaryCtxRetain(&native_, device_), "cuDevicePrimaryCtxRetain");
}

Context::~Context() {
    api_.cuDevicePrimaryCtxRelease(device_);
}

}  // namespace tandem::cuda
