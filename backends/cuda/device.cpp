#include "backends/cuda/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "backends/cuda/sharing.hpp"
#include "backends/cuda/program.hpp"
#include "tandem/error.hpp"

namespace tandem::cuda {

std::string uuid_text(const Api& api, CUdevice device) {
    CUuuid uuid{};
    if (api.cuDeviceGetUuid == nullptr || api.cuDeviceGetUuid(&uuid, device) != CUDA_SUCCESS) return {};
    std::string text;
    for (const char byte : uuid.bytes)
        text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return text;
}

namespace {

/// What the kernels' PTX needs.
constexpr int oldest_major = 7, oldest_minor = 5;

int attribute(const Api& api, CUdevice device, CUdevice_attribute which) {
    int value = 0;
    api.check(api.cuDeviceGetAttribute(&value, which, device), "", "cuDeviceGetAttribute");
    return value;
}

DeviceInfo describe(const Api& api, CUdevice device, int version, int major, int minor) {
    char name[256] = {};
    std::size_t memory_bytes = 0;
    api.check(api.cuDeviceGetName(name, sizeof name, device), "", "cuDeviceGetName");
    api.check(api.cuDeviceTotalMem(&memory_bytes, device), "", "cuDeviceTotalMem");
    DeviceInfo info;
    info.backend = "cuda";
    info.type = DeviceType::gpu;
    info.name = name;
    info.platform = "NVIDIA CUDA";
    info.driver = fmt::format("CUDA {}.{}, compute capability {}.{}", version / 1000, version % 1000 / 10, major, minor);
    info.uuid = uuid_text(api, device);
    info.memory_bytes = memory_bytes;
    info.max_window_bytes = memory_bytes;
    info.compute_units = static_cast<unsigned>(attribute(api, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
    info.shares_host_memory = attribute(api, device, CU_DEVICE_ATTRIBUTE_INTEGRATED) != 0;
    // Drivers before CUDA 12.2 don't know the question.
    if (api.cuDeviceGetAttribute(&info.numa_node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device) != CUDA_SUCCESS) info.numa_node = -1;
    return info;
}

DeviceTraits traits_of(const Api& api, CUdevice device) {
    const auto has = [&](CUdevice_attribute which) { return attribute(api, device, which) != 0; };
    DeviceTraits traits;
    traits.reads_pageable_memory = has(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
    traits.registers_read_only_memory = has(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED);
    traits.has_concurrent_managed_access = has(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
    return traits;
}

}  // namespace

Device::Device(const Api& api, CUdevice device, const DeviceInfo& info)
    : info_(info),
      context_(api, device, info.spec),
      traits_(traits_of(api, device)),
      compute_capability_(10 * attribute(api, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                          attribute(api, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)) {}

std::shared_ptr<driver::Memory> Device::allocate(std::size_t size_bytes, MemoryKind kind) {
    switch (kind) {
        case MemoryKind::device:
            return std::make_shared<DeviceMemory>(shared(), size_bytes);
        case MemoryKind::pinned:
            return std::make_shared<PinnedMemory>(shared(), size_bytes);
        case MemoryKind::shared:
            return std::make_shared<ManagedMemory>(shared(), size_bytes);
        case MemoryKind::adopted:
            break;
    }
    throw Error(ErrorCode::unsupported, fmt::format("{}: no such kind of memory", info_.spec));
}

std::shared_ptr<driver::Memory> Device::adopt(const driver::HostRange& range) {
    return std::make_shared<AdoptedMemory>(shared(), range);
}

void Device::link_to(Device& other) {
    const std::scoped_lock lock(linked_mutex_);
    if (std::find(linked_.begin(), linked_.end(), other.context().device()) != linked_.end()) return;
    linked_.push_back(other.context().device());
    const Api& api = context_.api();
    const auto open = [&api](Device& one, Device& to) {
        const Current current(one.context());
        // What another library in the process has enabled is as good; what can't be linked is copied through the host.
        if (api.cuCtxEnablePeerAccess != nullptr) api.cuCtxEnablePeerAccess(to.context().native(), 0);
        one.memory_pool().open_to(to.context().device());
    };
    open(*this, other);
    open(other, *this);
}

std::shared_ptr<driver::Memory> Device::allocate_shareable(std::size_t size_bytes) {
    return std::make_shared<VirtualMemory>(shared(), size_bytes);
}

std::shared_ptr<driver::Memory> Device::attach(const driver::SharedRange& range, int file) {
    if (range.method == ShareMethod::device_memory) return std::make_shared<VirtualMemory>(shared(), range, file);
    return std::make_shared<IpcMemory>(shared(), range);
}

std::shared_ptr<driver::Memory> Device::adopt_device_memory(std::uint64_t address, std::size_t size_bytes) {
    return std::make_shared<ForeignMemory>(shared(), address, size_bytes);
}

std::string Device::advise(driver::Memory& memory, std::size_t offset_bytes, std::size_t size_bytes, MemoryAdvice advice) {
    const Api& api = context_.api();
    if (memory.kind() != MemoryKind::shared) return driver::Device::advise(memory, offset_bytes, size_bytes, advice);
    if (api.cuMemAdvise_v2 == nullptr) return "the driver is older than cuMemAdvise_v2";
    const Current current(context_);
    const CUmemLocation here = location(Location::device);
    const auto give = [&](CUmem_advise native, const CUmemLocation& where) {
        context_.check(api.cuMemAdvise_v2(memory.address() + offset_bytes, size_bytes, native, where),
                       fmt::format("cuMemAdvise of {} bytes", size_bytes));
    };
    switch (advice) {
        case MemoryAdvice::normal:
            give(CU_MEM_ADVISE_UNSET_READ_MOSTLY, here);
            give(CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, here);
            break;
        case MemoryAdvice::read_mostly:
            give(CU_MEM_ADVISE_SET_READ_MOSTLY, here);
            break;
        case MemoryAdvice::prefer_device:
            give(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here);
            break;
        case MemoryAdvice::prefer_host:
            give(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, location(Location::host));
            break;
    }
    return {};
}

CUmemLocation Device::location(Location where) const noexcept {
    CUmemLocation native{};
    native.type = where == Location::device ? CU_MEM_LOCATION_TYPE_DEVICE : CU_MEM_LOCATION_TYPE_HOST;
    native.id = where == Location::device ? context_.device() : 0;
    return native;
}

std::shared_ptr<driver::Queue> Device::make_queue() {
    return std::make_shared<Queue>(shared());
}

std::shared_ptr<driver::Kernel> Device::compile(const driver::CompileRequest& request) {
    return Program::compile(shared(), request);
}

std::string Device::blas_library() {
    return Cublas::get(context_.api()).name();
}

std::size_t Device::blas_scratch_bytes(const driver::BlasGemm& call) const noexcept {
    return Blas::scratch_bytes(call);
}

std::vector<DeviceInfo> Backend::devices() {
    const Api& api = Api::get();
    int version = 0, count = 0;
    api.check(api.cuDriverGetVersion(&version), "", "cuDriverGetVersion");
    api.check(api.cuDeviceGetCount(&count), "", "cuDeviceGetCount");
    std::vector<DeviceInfo> infos;
    std::vector<CUdevice> listed;
    for (int i = 0; i < count; ++i) {
        CUdevice device = 0;
        api.check(api.cuDeviceGet(&device, i), "", "cuDeviceGet");
        const int major = attribute(api, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
        const int minor = attribute(api, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
        if (std::pair(major, minor) < std::pair(oldest_major, oldest_minor)) continue;
        infos.push_back(describe(api, device, version, major, minor));
        listed.push_back(device);
    }
    if (infos.empty()) {
        throw Error(ErrorCode::unavailable, count == 0 ? "0 devices"
                                                       : fmt::format("0 devices of compute capability {}.{} or newer, {} older",
                                                                     oldest_major, oldest_minor, count));
    }
    const std::scoped_lock lock(mutex_);
    listed_ = std::move(listed);
    return infos;
}

std::shared_ptr<driver::Device> Backend::open(const DeviceInfo& info) {
    CUdevice device;
    {
        const std::scoped_lock lock(mutex_);
        device = listed_.at(static_cast<std::size_t>(info.index));
    }
    return std::make_shared<Device>(Api::get(), device, info);
}

}  // namespace tandem::cuda

namespace tandem::driver {

Backend& cuda_backend() {
    // Never destroyed, as the driver's function table is not.
    static auto* const backend = new cuda::Backend;
    return *backend;
}

}  // namespace tandem::driver
