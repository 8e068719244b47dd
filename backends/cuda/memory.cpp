#include "backends/cuda/memory.hpp"

#include <fmt/format.h>

#include <utility>

#include "backends/cuda/device.hpp"

namespace tandem::cuda {

namespace {

/// How much the pool keeps for the next allocation when a stream is waited for, rather than giving it back to the driver, where
/// other processes can have it.
constexpr cuuint64_t kept_bytes = cuuint64_t{256} << 20U;

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

Memory::Memory(std::shared_ptr<Device> device, std::size_t size_bytes)
    : driver::Memory(size_bytes, MemoryKind::device),
      device_(std::move(device)),
      address_(device_->memory_pool().allocate(size_bytes)) {}

Memory::~Memory() {
    device_->memory_pool().free(address_);
}

}  // namespace tandem::cuda
