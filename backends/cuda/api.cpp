#include "backends/cuda/api.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "tandem/error.hpp"

namespace tandem::cuda {

namespace {

bool is_one_of(CUresult result, std::initializer_list<CUresult> results) {
    return std::find(results.begin(), results.end(), result) != results.end();
}

ErrorCode code_of(CUresult result) {
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return ErrorCode::out_of_memory;
    if (result == CUDA_ERROR_INVALID_PTX) return ErrorCode::build_failed;
    if (is_one_of(result,
                  {CUDA_ERROR_NO_DEVICE, CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_DEVICE_UNAVAILABLE, CUDA_ERROR_DEVICE_NOT_LICENSED,
                   CUDA_ERROR_STUB_LIBRARY, CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_SYSTEM_NOT_READY,
                   CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, CUDA_ERROR_MPS_CONNECTION_FAILED,
                   CUDA_ERROR_MPS_SERVER_NOT_READY, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED})) {
        return ErrorCode::unavailable;
    }
    if (is_one_of(result, {CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_NO_BINARY_FOR_GPU,
                           CUDA_ERROR_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
                           CUDA_ERROR_JIT_COMPILATION_DISABLED, CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER})) {
        return ErrorCode::unsupported;
    }
    // After any of these the context returns nothing but errors.
    if (is_one_of(result, {CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE, CUDA_ERROR_ILLEGAL_ADDRESS,
                           CUDA_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_ASSERT,
                           CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_MISALIGNED_ADDRESS,
                           CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_PC, CUDA_ERROR_LAUNCH_FAILED,
                           CUDA_ERROR_EXTERNAL_DEVICE, CUDA_ERROR_MPS_RPC_FAILURE, CUDA_ERROR_MPS_CLIENT_TERMINATED})) {
        return ErrorCode::device_lost;
    }
    return ErrorCode::internal;
}

const char* name_of(const Api& api, CUresult result) {
    const char* name = nullptr;
    api.cuGetErrorName(result, &name);
    return name != nullptr ? name : "an unknown CUresult";
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
    TANDEM_FOR_EACH_NEWER_CUDA_FUNCTION(TANDEM_X)
#undef TANDEM_X
    if (const CUresult result = cuInit(0); result != CUDA_SUCCESS) {
        throw Error(ErrorCode::unavailable, fmt::format("cuInit: {}", name_of(*this, result)), static_cast<int>(result));
    }
}

void Api::fail(CUresult result, std::string_view where, std::string_view operation) const {
    const ErrorCode code = code_of(result);
    // The runtime API and other libraries of the process share the context: resetting it is not for one of them to do.
    const char* outlook = code == ErrorCode::device_lost
                              ? "; CUDA gives this process nothing but this error from here on: a new process is needed"
                              : "";
    throw Error(code, fmt::format("{}{}{}: {}{}", where, where.empty() ? "" : ": ", operation, name_of(*this, result), outlook),
                static_cast<int>(result));
}

Context::Context(const Api& api, CUdevice device, std::string where) : api_(api), device_(device), where_(std::move(where)) {
    check(api_.cuDevicePrimaryCtxRetain(&native_, device_), "cuDevicePrimaryCtxRetain");
}

Context::~Context() {
    api_.cuDevicePrimaryCtxRelease(device_);
}

}  // namespace tandem::cuda
