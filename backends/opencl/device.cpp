#include "backends/opencl/device.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "backends/opencl/blas.hpp"
#include "backends/opencl/memory.hpp"
#include "backends/opencl/program.hpp"
#include "backends/opencl/queue.hpp"
#include "tandem/error.hpp"

namespace tandem::opencl {
namespace {

constexpr std::uint64_t window_granularity_bytes = 4096;
// What NVIDIA's driver gives for an illegal access, and for whatever the process asks it for from then on.
constexpr cl_int nvidia_fault = -9999;

template <class Object, class Query>
std::string text(Query query, Object object, cl_uint what) {
    std::size_t size = 0;
    if (query(object, what, 0, nullptr, &size) != CL_SUCCESS || size == 0) return {};
    std::string value(size, '\0');
    if (query(object, what, size, value.data(), nullptr) != CL_SUCCESS) return {};
    value.resize(std::min(value.find('\0'), value.size()));
    const auto first = value.find_first_not_of(' ');
    return first == std::string::npos ? std::string() : value.substr(first, value.find_last_not_of(' ') - first + 1);
}

template <class T>
T number(cl_device_id device, cl_device_info what) {
    T value{};
    return api().clGetDeviceInfo(device, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : T{};
}

std::string uuid(cl_device_id device, std::string_view extensions) {
    std::array<unsigned char, CL_UUID_SIZE_KHR> bytes{};
    if (extensions.find("cl_khr_device_uuid") == std::string_view::npos ||
        api().clGetDeviceInfo(device, CL_DEVICE_UUID_KHR, bytes.size(), bytes.data(), nullptr) != CL_SUCCESS) {
        return {};
    }
    std::string digits;
    for (const unsigned char byte : bytes)
        digits += fmt::format("{:02x}", byte);
    return digits;
}

// Our kernels and queues need OpenCL 1.2 with a compiler, and the bytes of an array mean the same on both sides.
bool is_usable(cl_device_id device) {
    const std::string version = text(api().clGetDeviceInfo, device, CL_DEVICE_VERSION);  // "OpenCL 1.2 ..."
    const bool is_old = version.starts_with("OpenCL 1.0") || version.starts_with("OpenCL 1.1");
    return !is_old && number<cl_bool>(device, CL_DEVICE_AVAILABLE) == CL_TRUE &&
           number<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE) == CL_TRUE &&
           number<cl_bool>(device, CL_DEVICE_ENDIAN_LITTLE) == CL_TRUE;
}

DeviceType device_type(cl_device_id device) {
    const auto type = number<cl_device_type>(device, CL_DEVICE_TYPE);
    if ((type & CL_DEVICE_TYPE_GPU) != 0) return DeviceType::gpu;
    return (type & CL_DEVICE_TYPE_CPU) != 0 ? DeviceType::cpu : DeviceType::accelerator;
}

DeviceInfo describe(cl_platform_id platform, cl_device_id device) {
    const auto query = api().clGetDeviceInfo;
    DeviceInfo info;
    info.backend = "opencl";
    info.type = device_type(device);
    info.name = text(query, device, CL_DEVICE_NAME);
    info.platform = text(api().clGetPlatformInfo, platform, CL_PLATFORM_NAME);
    info.driver = fmt::format("{}, driver {}", text(query, device, CL_DEVICE_VERSION), text(query, device, CL_DRIVER_VERSION));
    info.uuid = uuid(device, text(query, device, CL_DEVICE_EXTENSIONS));
    info.memory_bytes = number<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE);
    info.max_window_bytes =
        number<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE) / window_granularity_bytes * window_granularity_bytes;
    info.compute_units = number<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS);
    info.has_float64 = number<cl_device_fp_config>(device, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
    info.shares_host_memory = number<cl_bool>(device, CL_DEVICE_HOST_UNIFIED_MEMORY) == CL_TRUE;
    return info;
}

std::vector<cl_platform_id> platforms() {
    cl_uint count = 0;
    const cl_int status = api().clGetPlatformIDs(0, nullptr, &count);
    if (status == CL_PLATFORM_NOT_FOUND_KHR || (status == CL_SUCCESS && count == 0))
        throw Error(ErrorCode::unavailable, "0 platforms", status);
    check(status, Stage::setup, "opencl", "clGetPlatformIDs");
    std::vector<cl_platform_id> ids(count);
    check(api().clGetPlatformIDs(count, ids.data(), nullptr), Stage::setup, "opencl", "clGetPlatformIDs");
    return ids;
}

// A platform that can't list its devices must not hide those of the others.
std::vector<cl_device_id> devices_of(cl_platform_id platform) {
    cl_uint count = 0;
    if (api().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS || count == 0) return {};
    std::vector<cl_device_id> ids(count);
    if (api().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr) != CL_SUCCESS) return {};
    return ids;
}

// NVIDIA's driver (580, on an H200) crashes in clReleaseMemObject of sub-buffers of device and ALLOC_HOST_PTR memory.
std::size_t sub_buffer_alignment(const DeviceInfo& info, cl_device_id device) {
    if (info.platform == "NVIDIA CUDA") return 0;
    return std::max<std::size_t>(number<cl_uint>(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8, 1);
}

ContextHandle create_context(cl_device_id device, std::string_view spec) {
    cl_int status = CL_SUCCESS;
    ContextHandle context(api().clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status));
    if (status == nvidia_fault) {
        throw Error(ErrorCode::device_lost,
                    fmt::format("{}: clCreateContext: {}: after a fault NVIDIA's driver gives a process no other context: a new "
                                "process is needed",
                                spec, status),
                    status);
    }
    check(status, Stage::setup, spec, "clCreateContext");
    return context;
}

}  // namespace

Device::Device(DeviceInfo info, cl_device_id device, std::string build_identity)
    : info_(std::move(info)),
      device_(device),
      base_alignment_(sub_buffer_alignment(info_, device)),
      context_(create_context(device, info_.spec)),
      internal_queue_(create_queue()),
      window_pool_(info_.memory_bytes),
      external_memory_(device),
      programs_(info_, context_.get(), device, std::move(build_identity)) {}

QueueHandle Device::create_queue() const {
    cl_int status = CL_SUCCESS;
    QueueHandle queue(api().clCreateCommandQueue(context(), device_, 0, &status));
    check(status, Stage::setup, spec(), "clCreateCommandQueue");
    return queue;
}

std::shared_ptr<driver::Memory> Device::allocate(std::size_t size_bytes, MemoryKind kind) {
    return std::make_shared<Memory>(shared(), size_bytes, kind);
}

std::shared_ptr<driver::Memory> Device::adopt(const driver::HostRange& range) {
    return std::make_shared<Memory>(shared(), range);
}

std::shared_ptr<driver::Memory> Device::attach(const driver::SharedRange& range, int file) {
    return std::make_shared<Memory>(shared(), range, file);
}

std::shared_ptr<driver::Queue> Device::make_queue() {
    return std::make_shared<Queue>(shared());
}

std::shared_ptr<driver::Kernel> Device::compile(const driver::CompileRequest& request) {
    return Program::compile(shared(), request);
}

std::string Device::blas_library() {
    return opencl::blas_library();
}

const std::vector<Backend::Listed>& Backend::list() {
    const std::lock_guard lock(mutex_);
    if (!listed_.empty()) return listed_;
    std::vector<Listed> found;
    for (const cl_platform_id platform : platforms()) {
        const std::string identity = fmt::format("{}\n{}\n", text(api().clGetPlatformInfo, platform, CL_PLATFORM_NAME),
                                                 text(api().clGetPlatformInfo, platform, CL_PLATFORM_VERSION));
        for (const cl_device_id device : devices_of(platform)) {
            if (!is_usable(device)) continue;
            DeviceInfo info = describe(platform, device);
            std::string build_identity = fmt::format("{}{}\n{}\n", identity, info.name, info.driver);
            found.push_back({std::move(info), device, std::move(build_identity)});
        }
    }
    if (found.empty()) throw Error(ErrorCode::unavailable, "0 devices");
    // The enumerators run from the most to the least wanted.
    std::stable_sort(found.begin(), found.end(), [](const Listed& a, const Listed& b) { return a.info.type < b.info.type; });
    listed_ = std::move(found);
    return listed_;
}

std::vector<DeviceInfo> Backend::devices() {
    std::vector<DeviceInfo> infos;
    for (const Listed& listed : list())
        infos.push_back(listed.info);
    return infos;
}

std::shared_ptr<driver::Device> Backend::open(const DeviceInfo& info) {
    const Listed& listed = list().at(static_cast<std::size_t>(info.index));
    return std::make_shared<Device>(info, listed.device, listed.build_identity);
}

}  // namespace tandem::opencl

namespace tandem::driver {

Backend& opencl_backend() {
    // Never destroyed: devices may still be open in other static objects.
    static auto* const backend = new opencl::Backend;
    return *backend;
}

}  // namespace tandem::driver
