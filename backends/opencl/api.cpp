#include "backends/opencl/api.hpp"

#include "tandem/error.hpp"

namespace tandem::opencl {

Api::Api() : library_("libOpenCL.so.1") {
#define TANDEM_X(name) this->name = library_.get<decltype(&::name)>(#name);
    TANDEM_OPENCL_FUNCTIONS(TANDEM_X)
#undef TANDEM_X
#define TANDEM_X(name) this->name = library_.find<decltype(&::name)>(#name);
    TANDEM_OPTIONAL_OPENCL_FUNCTIONS(TANDEM_X)
#undef TANDEM_X
}

const Api& api() {
    static const Api table;
    return table;
}

// Those that a compute library can meet.
#define TANDEM_OPENCL_ERRORS(X)                     \
    X(CL_DEVICE_NOT_FOUND)                          \
    X(CL_DEVICE_NOT_AVAILABLE)                      \
    X(CL_COMPILER_NOT_AVAILABLE)                    \
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE)             \
    X(CL_OUT_OF_RESOURCES)                          \
    X(CL_OUT_OF_HOST_MEMORY)                        \
    X(CL_MEM_COPY_OVERLAP)                          \
    X(CL_BUILD_PROGRAM_FAILURE)                     \
    X(CL_MAP_FAILURE)                               \
    X(CL_MISALIGNED_SUB_BUFFER_OFFSET)              \
    X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) \
    X(CL_INVALID_VALUE)                             \
    X(CL_INVALID_DEVICE_TYPE)                       \
    X(CL_INVALID_PLATFORM)                          \
    X(CL_INVALID_DEVICE)                            \
    X(CL_INVALID_CONTEXT)                           \
    X(CL_INVALID_QUEUE_PROPERTIES)                  \
    X(CL_INVALID_COMMAND_QUEUE)                     \
    X(CL_INVALID_HOST_PTR)                          \
    X(CL_INVALID_MEM_OBJECT)                        \
    X(CL_INVALID_BINARY)                            \
    X(CL_INVALID_BUILD_OPTIONS)                     \
    X(CL_INVALID_PROGRAM)                           \
    X(CL_INVALID_PROGRAM_EXECUTABLE)                \
    X(CL_INVALID_KERNEL_NAME)                       \
    X(CL_INVALID_KERNEL_DEFINITION)                 \
    X(CL_INVALID_KERNEL)                            \
    X(CL_INVALID_ARG_INDEX)                         \
    X(CL_INVALID_ARG_VALUE)                         \
    X(CL_INVALID_ARG_SIZE)                          \
    X(CL_INVALID_KERNEL_ARGS)                       \
    X(CL_INVALID_WORK_DIMENSION)                    \
    X(CL_INVALID_WORK_GROUP_SIZE)                   \
    X(CL_INVALID_WORK_ITEM_SIZE)                    \
    X(CL_INVALID_GLOBAL_OFFSET)                     \
    X(CL_INVALID_EVENT_WAIT_LIST)                   \
    X(CL_INVALID_EVENT)                             \
    X(CL_INVALID_OPERATION)                         \
    X(CL_INVALID_BUFFER_SIZE)                       \
    X(CL_INVALID_GLOBAL_WORK_SIZE)                  \
    X(CL_INVALID_PROPERTY)                          \
    X(CL_INVALID_SYNC_POINT_WAIT_LIST_KHR)          \
    X(CL_INVALID_MUTABLE_COMMAND_KHR)               \
    X(CL_PLATFORM_NOT_FOUND_KHR)                    \
    X(CL_INVALID_SEMAPHORE_KHR)                     \
    X(CL_INVALID_ACCELERATOR_INTEL)                 \
    X(CL_INVALID_ACCELERATOR_TYPE_INTEL)            \
    X(CL_INVALID_ACCELERATOR_DESCRIPTOR_INTEL)

const char* error_name(cl_int status) noexcept {
    switch (status) {
#define TANDEM_X(name) \
    case name:         \
        return #name;
        TANDEM_OPENCL_ERRORS(TANDEM_X)
#undef TANDEM_X
        default:
            return "unknown OpenCL error";
    }
}

namespace {

ErrorCode error_code(cl_int status, Stage stage) noexcept {
    switch (status) {
        case CL_OUT_OF_HOST_MEMORY:
        case CL_MEM_OBJECT_ALLOCATION_FAILURE:
        case CL_INVALID_BUFFER_SIZE:
            return ErrorCode::out_of_memory;
        case CL_BUILD_PROGRAM_FAILURE:
        case CL_COMPILER_NOT_AVAILABLE:
            return ErrorCode::build_failed;
        case CL_DEVICE_NOT_AVAILABLE:
            return stage == Stage::setup ? ErrorCode::unavailable : ErrorCode::device_lost;
        case CL_INVALID_CONTEXT:
        case CL_INVALID_COMMAND_QUEUE:
            return ErrorCode::device_lost;  // ours are valid until a fault takes them away
        case CL_OUT_OF_RESOURCES:
            return stage == Stage::waiting ? ErrorCode::device_lost : ErrorCode::out_of_memory;
        default:
            return stage == Stage::waiting ? ErrorCode::device_lost : ErrorCode::internal;
    }
}

}  // namespace

void fail(cl_int status, Stage stage, std::string_view subject, std::string_view what) {
    const char* name = error_name(status);
    const bool known = name[0] == 'C';
    throw Error(
        error_code(status, stage),
        known ? fmt::format("{}: {}: {}", subject, what, name) : fmt::format("{}: {}: {} {}", subject, what, name, status),
        status);
}

}  // namespace tandem::opencl
