#include "backends/opencl/memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "tandem/error.hpp"

namespace tandem::opencl {
namespace {

constexpr std::uint64_t page_bytes = 4096;

std::uint64_t take_addresses(std::size_t size_bytes) noexcept {
    static std::atomic<std::uint64_t> next{page_bytes};
    return next.fetch_add((size_bytes + page_bytes - 1) / page_bytes * page_bytes, std::memory_order_relaxed);
}

// The most that a device could hold. One that shares the host's memory may tell what is free, or a part by its own rule, and yet
// give more.
std::uint64_t capacity_bytes(const DeviceInfo& info) noexcept {
    if (!info.shares_host_memory) return info.memory_bytes;
    const auto host_bytes =
        static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return std::max(info.memory_bytes, host_bytes);
}

cl_map_flags map_flags(Access access) noexcept {
    switch (access) {
        case Access::read:
            return CL_MAP_READ;
        case Access::write:
            return CL_MAP_WRITE_INVALIDATE_REGION;
        default:
            return CL_MAP_READ | CL_MAP_WRITE;
    }
}

}  // namespace

Memory::Memory(std::shared_ptr<Device> device, std::size_t size_bytes)
    : driver::Memory(size_bytes, MemoryKind::device),
      device_(std::move(device)),
      window_bytes_(std::min<std::size_t>(size_bytes, device_->info().max_window_bytes)),
      address_(take_addresses(size_bytes)) {
    const Api& cl = api();
    const auto& spec = device_->spec();
    // Many drivers allocate when a buffer is first used, so creating one that can't fit would succeed.
    if (const std::uint64_t capacity = capacity_bytes(device_->info()); size_bytes > capacity) {
        throw Error(ErrorCode::out_of_memory,
                    fmt::format("{}: clCreateBuffer of {} bytes: the device has {}", spec, size_bytes, capacity));
    }
    windows_.reserve((size_bytes - 1) / window_bytes_ + 1);
    for (std::size_t offset = 0; offset < size_bytes; offset += window_bytes_) {
        cl_int status = CL_SUCCESS;
        windows_.emplace_back(cl.clCreateBuffer(device_->context(), CL_MEM_READ_WRITE,
                                                std::min(window_bytes_, size_bytes - offset), nullptr, &status));
        check(status, Stage::allocation, spec, "clCreateBuffer of {} bytes for {}", std::min(window_bytes_, size_bytes - offset),
              size_bytes);
    }
}

void* Memory::map(std::size_t offset_bytes, std::size_t size_bytes, Access access) {
    const Place at = place(offset_bytes);
    if (at.offset_bytes + size_bytes > window_bytes_) return nullptr;
    cl_int status = CL_SUCCESS;
    void* address = api().clEnqueueMapBuffer(device_->internal_queue(), at.window, CL_TRUE, map_flags(access), at.offset_bytes,
                                             size_bytes, 0, nullptr, nullptr, &status);
    check(status, Stage::waiting, device_->spec(), "clEnqueueMapBuffer of {} bytes at {}", size_bytes, offset_bytes);
    const std::lock_guard lock(mutex_);
    mappings_.push_back({address, at.window});
    return address;
}

void Memory::unmap(void* address, Access /*access*/) {
    cl_mem window = nullptr;
    {
        const std::lock_guard lock(mutex_);
        const auto found =
            std::find_if(mappings_.begin(), mappings_.end(), [&](const Mapping& m) { return m.address == address; });
        window = found->window;
        mappings_.erase(found);
    }
    const Api& cl = api();
    cl_event event = nullptr;
    check(cl.clEnqueueUnmapMemObject(device_->internal_queue(), window, address, 0, nullptr, &event), Stage::waiting,
          device_->spec(), "clEnqueueUnmapMemObject");
    const EventHandle done(event);
    check(cl.clWaitForEvents(1, &event), Stage::waiting, device_->spec(), "clEnqueueUnmapMemObject, waited for");
}

}  // namespace tandem::opencl
