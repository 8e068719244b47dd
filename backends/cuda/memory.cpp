#include "backends/cuda/memory.hpp"

#include <fmt/format.h>

#include <utility>

#include "backends/cuda/device.hpp"
#include "core/numa.hpp"
#include "backends/cuda/sharing.hpp"
#include "tandem/error.hpp"

namespace tandem::cuda {

namespace {

/// How much the pool keeps for the next allocation when a stream is waited for, rather than giving it back to the driver, where
/// other processes can have it.
constexpr cuuint64_t kept_bytes = cuuint64_t{256} << 20U;

/// From here on touching and registering pages pays.
constexpr std::size_t touched_bytes = std::size_t{16} << 20U;

}  // namespace

MemoryPool::MemoryPool(const Context& context) : context_(context) {
    const Api& api = context.api();
    int has_pools = 0;
    if (api.cuMemPoolCreate == nullptr || api.cuMemAllocFromPoolAsync == nullptr || api.cuMemFreeAsync == nullptr) return;
    if (api.cuDeviceGetAttribute(&has_pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, context.device()) != CUDA_SUCCESS)
        return;
    if (has_pools == 0) return;

    const Current current(context);
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = context.device();
    context.check(api.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    if (api.cuMemPoolCreate(&pool_, &properties) != CUDA_SUCCESS) {
        pool_ = nullptr;
        return;
    }
    cuuint64_t threshold = kept_bytes;
    api.cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
}

MemoryPool::~MemoryPool() {
    const Current current(context_, std::nothrow);
    if (!current.is_ready()) return;
    if (pool_ != nullptr) context_.api().cuMemPoolDestroy(pool_);
    if (stream_ != nullptr) context_.api().cuStreamDestroy(stream_);
}

CUresult MemoryPool::try_allocate(CUdeviceptr& address, std::size_t size_bytes) noexcept {
    const Api& api = context_.api();
    if (pool_ == nullptr) return api.cuMemAlloc(&address, size_bytes);
    const CUresult result = api.cuMemAllocFromPoolAsync(&address, size_bytes, pool_, stream_);
    if (result != CUDA_SUCCESS) return result;
    // Only work that is ordered after the allocation may use it; once the stream is past it, that is all work there is.
    return api.cuStreamSynchronize(stream_);
}

CUdeviceptr MemoryPool::allocate(std::size_t size_bytes) {
    const Api& api = context_.api();
    const Current current(context_);
    CUdeviceptr address = 0;
    CUresult result = try_allocate(address, size_bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && pool_ != nullptr) {
        api.cuStreamSynchronize(stream_);
        api.cuMemPoolTrimTo(pool_, 0);
        result = try_allocate(address, size_bytes);
    }
    if (result != CUDA_SUCCESS) {
        context_.fail(result,
                      fmt::format("{} of {} bytes", pool_ != nullptr ? "cuMemAllocFromPoolAsync" : "cuMemAlloc", size_bytes));
    }
    return address;
}

void MemoryPool::free(CUdeviceptr address) noexcept {
    const Current current(context_, std::nothrow);
    if (!current.is_ready()) return;
    if (pool_ != nullptr) {
        context_.api().cuMemFreeAsync(address, stream_);
    } else {
        context_.api().cuMemFree(address);
    }
}

void MemoryPool::open_to(CUdevice other) noexcept {
    if (pool_ == nullptr || context_.api().cuMemPoolSetAccess == nullptr) return;
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = other;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    context_.api().cuMemPoolSetAccess(pool_, &access,
                                      1);  // one that is not linked is refused, and its copies go through the host
}

Memory::Memory(std::shared_ptr<Device> device, std::size_t size_bytes, MemoryKind kind, Residency residency)
    : driver::Memory(size_bytes, kind, std::move(residency)), device_(std::move(device)) {}

DeviceMemory::DeviceMemory(std::shared_ptr<Device> device, std::size_t size_bytes)
    : Memory(device, size_bytes, MemoryKind::device, {ZeroCopy::no, fmt::format("device memory of {}", device->info().spec)}) {
    address_ = device_->memory_pool().allocate(size_bytes);
}

DeviceMemory::~DeviceMemory() {
    device_->memory_pool().free(address_);
}

std::pair<driver::SharedRange, FileDescriptor> DeviceMemory::share() {
    refuse_share("it is from the library's own memory pool, which has no handle");
}

PinnedMemory::PinnedMemory(std::shared_ptr<Device> device, std::size_t size_bytes)
    : HostVisibleMemory(
          device, size_bytes, MemoryKind::pinned,
          {ZeroCopy::yes, fmt::format("in place: pinned memory, which {} reaches across its link", device->info().spec)}) {
    const Context& context = device_->context();
    if (size_bytes >= touched_bytes) {
        // Pages that aren't there would be found out by the kernel ending processes, this one or another.
        const std::uint64_t available = available_host_bytes();
        if (size_bytes <= available) block_ = HostBlock(size_bytes);
        if (block_.data() == nullptr) {
            throw Error(ErrorCode::out_of_memory, fmt::format("{}: {} bytes of pinned memory: the machine has {} available",
                                                              device_->info().spec, size_bytes, available));
        }
        prefer_node(block_.data(), block_.size_bytes(), device_->info().numa_node);
        block_.touch();
        hold_ = Registrations::instance().hold(device_, block_.data(), size_bytes, true);
        address_ = reinterpret_cast<CUdeviceptr>(block_.data());
        return;
    }
    const Current current(context);
    void* memory = nullptr;
    const CUresult result =
        context.api().cuMemHostAlloc(&memory, size_bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (result != CUDA_SUCCESS) context.fail(result, fmt::format("cuMemHostAlloc of {} bytes", size_bytes));
    address_ = reinterpret_cast<CUdeviceptr>(memory);
}

PinnedMemory::~PinnedMemory() {
    if (block_.data() != nullptr) return;
    const Current current(device_->context(), std::nothrow);
    if (current.is_ready()) device_->context().api().cuMemFreeHost(host_address());
}

std::size_t PinnedMemory::run_bytes(std::size_t offset_bytes) const noexcept {
    return hold_.run_bytes(address_ + offset_bytes);
}

std::pair<driver::SharedRange, FileDescriptor> PinnedMemory::share() {
    refuse_share("its pages are this process's own");
}

ManagedMemory::ManagedMemory(std::shared_ptr<Device> device, std::size_t size_bytes)
    : HostVisibleMemory(
          device, size_bytes, MemoryKind::shared,
          {ZeroCopy::driver_decides,
           fmt::format("managed memory, whose pages move between the host and {} as they are used", device->info().spec)}) {
    const Context& context = device_->context();
    if (!device_->traits().has_concurrent_managed_access) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("{}: shared memory: the host may not touch managed memory while a kernel runs here "
                                "(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0)",
                                device_->info().spec));
    }
    const Current current(context);
    const CUresult result = context.api().cuMemAllocManaged(&address_, size_bytes, CU_MEM_ATTACH_GLOBAL);
    if (result != CUDA_SUCCESS) context.fail(result, fmt::format("cuMemAllocManaged of {} bytes", size_bytes));
}

ManagedMemory::~ManagedMemory() {
    const Current current(device_->context(), std::nothrow);
    if (current.is_ready()) device_->context().api().cuMemFree(address_);
}

std::pair<driver::SharedRange, FileDescriptor> ManagedMemory::share() {
    refuse_share("it is managed memory, which CUDA has no handle for");
}

AdoptedMemory::AdoptedMemory(std::shared_ptr<Device> device, const driver::HostRange& range)
    : HostVisibleMemory(device, range.size_bytes, MemoryKind::adopted, {ZeroCopy::yes, {}}) {
    const DeviceTraits& traits = device_->traits();
    address_ = reinterpret_cast<CUdeviceptr>(range.data);
    const char* what = range.is_file ? "file mapping" : "memory of the caller";
    if (traits.reads_pageable_memory) {
        set_residency({ZeroCopy::yes, fmt::format("in place: {}, which {} reads as it is", what, device_->info().spec)});
        return;
    }
    // Registering a read-only one never returns; a writable one is copied page by page into memory of the process.
    if (range.is_private_file)
        throw Error(ErrorCode::unsupported, "a private file mapping can't be registered: its written pages are the caller's own");
    if (!range.is_writable && !traits.registers_read_only_memory)
        throw Error(ErrorCode::unsupported, "the driver can't register read-only memory");
    hold_ = Registrations::instance().hold(device_, range.data, range.size_bytes, range.is_writable);
    CUdeviceptr on_device = 0;
    const Current current(device_->context());
    device_->context().check(device_->context().api().cuMemHostGetDevicePointer(&on_device, range.data, 0),
                             "cuMemHostGetDevicePointer");
    if (on_device != address_)
        throw Error(ErrorCode::unsupported, "the device has another address for registered memory than the host");
    set_residency(
        {ZeroCopy::yes, fmt::format("in place: registered {}, which {} reaches across its link", what, device_->info().spec)});
}

std::size_t AdoptedMemory::run_bytes(std::size_t offset_bytes) const noexcept {
    return hold_.run_bytes(address_ + offset_bytes);
}

}  // namespace tandem::cuda
