#include "backends/opencl/memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "tandem/error.hpp"

namespace tandem::opencl {
namespace {

constexpr std::size_t most_inner_buffers = 64;

// A range of a counter that starts where no address of a process lies.
std::uint64_t take_numbers(std::uint64_t count) noexcept {
    static std::atomic<std::uint64_t> next{std::uint64_t{1} << 60U};
    return next.fetch_add(count, std::memory_order_relaxed);
}

std::uint64_t take_addresses(std::size_t size_bytes) noexcept {
    const std::size_t pages = (size_bytes + page_bytes() - 1) / page_bytes();
    return take_numbers(pages * page_bytes() + page_bytes()) / page_bytes() * page_bytes();
}

bool computes_on_host_memory(const DeviceInfo& info) noexcept {
    return info.type == DeviceType::cpu && info.shares_host_memory;
}

// The most that a device could hold. One that shares the host's memory may tell what is free, or a part by its own rule, and yet
// give more.
std::uint64_t capacity_bytes(const DeviceInfo& info) noexcept {
    if (!info.shares_host_memory) return info.memory_bytes;
    const auto host_bytes =
        static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return std::max(info.memory_bytes, host_bytes);
}

Residency residency_of(const DeviceInfo& info, MemoryKind kind) {
    if (computes_on_host_memory(info))
        return {ZeroCopy::yes, fmt::format("{} memory of {}, which is the host's", to_string(kind), info.spec)};
    switch (kind) {
        case MemoryKind::pinned:
            return {ZeroCopy::driver_decides,
                    fmt::format("CL_MEM_ALLOC_HOST_PTR: where it lies while {} works is up to its driver", info.spec)};
        case MemoryKind::shared:
            return {ZeroCopy::driver_decides,
                    fmt::format("coarse-grained SVM: where it lies while {} works is up to its driver", info.spec)};
        default:
            return {ZeroCopy::no, fmt::format("device memory of {}", info.spec)};
    }
}

Residency residency_of_range(const DeviceInfo& info, const driver::HostRange& range) {
    const char* what = range.is_file ? "a file mapping" : "the caller's memory";
    if (computes_on_host_memory(info))
        return {ZeroCopy::yes, fmt::format("in place: {} as CL_MEM_USE_HOST_PTR, on {}", what, info.spec)};
    return {ZeroCopy::driver_decides,
            fmt::format("{} as CL_MEM_USE_HOST_PTR: {} shares the host's memory, but its driver may copy", what, info.spec)};
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

WindowPool::WindowPool(std::uint64_t memory_bytes) : memory_bytes_(memory_bytes) {}

MemoryHandle WindowPool::take(std::size_t size_bytes) {
    std::vector<Kept> dropped;  // goes after the lock
    const std::lock_guard lock(mutex_);
    const auto fits = [&](const Kept& kept) { return kept.size_bytes == size_bytes; };
    const auto found = std::find_if(kept_.begin(), kept_.end(), fits);
    used_bytes_ += size_bytes;
    if (found == kept_.end()) {
        if (used_bytes_ + kept_bytes_ > memory_bytes_ / 4 * 3) {
            kept_bytes_ = 0;
            dropped.swap(kept_);
        }
        return {};
    }
    MemoryHandle window = std::move(found->window);
    kept_.erase(found);
    kept_bytes_ -= size_bytes;
    return window;
}

void WindowPool::put(MemoryHandle window, std::size_t size_bytes) noexcept {
    try {
        const std::lock_guard lock(mutex_);
        used_bytes_ -= size_bytes;
        if (window.get() == nullptr || kept_bytes_ + size_bytes > memory_bytes_ / 8) return;
        kept_.push_back({std::move(window), size_bytes});
        kept_bytes_ += size_bytes;
    } catch (...) {
        // Without a place in the list it goes back to the driver.
    }
}

Memory::Memory(std::shared_ptr<Device> device, std::size_t size_bytes, MemoryKind kind)
    : driver::Memory(size_bytes, kind, residency_of(device->info(), kind)),
      device_(std::move(device)),
      window_bytes_(std::min<std::size_t>(size_bytes, device_->info().max_window_bytes)),
      first_id_(0),
      address_(0) {
    const DeviceInfo& info = device_->info();
    // Many drivers allocate when a buffer is first used, so creating one that can't fit would succeed.
    if (const std::uint64_t capacity = capacity_bytes(info); size_bytes > capacity) {
        throw Error(ErrorCode::out_of_memory,
                    fmt::format("{}: {} bytes of {} memory: there are {}", info.spec, size_bytes, to_string(kind), capacity));
    }
    const bool is_one_window = window_bytes_ == size_bytes;
    if (kind == MemoryKind::device && (is_one_window || !computes_on_host_memory(info))) {
        is_pooled_ = !info.shares_host_memory;
        create_windows(CL_MEM_READ_WRITE);
    } else if (computes_on_host_memory(info)) {
        block_ = HostBlock(size_bytes);
        if (block_.data() == nullptr) {
            throw Error(ErrorCode::out_of_memory,
                        fmt::format("{}: mmap of {} bytes: Cannot allocate memory", info.spec, size_bytes));
        }
        host_ = block_.data();
        is_always_mapped_ = true;
        create_windows(CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR);
    } else if (kind == MemoryKind::pinned) {
        create_windows(CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR);
    } else {
        for (std::size_t offset = 0; offset < size_bytes; offset += window_bytes_)
            svm_.push_back(allocate_svm(std::min(window_bytes_, size_bytes - offset)));
        if (svm_.size() == 1) host_ = static_cast<std::byte*>(svm_[0].get());
        create_windows(CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR);
    }
}

Memory::Memory(std::shared_ptr<Device> device, const driver::HostRange& range)
    : driver::Memory(range.size_bytes, MemoryKind::adopted, residency_of_range(device->info(), range)),
      device_(std::move(device)),
      window_bytes_(0),
      lead_bytes_(reinterpret_cast<std::uintptr_t>(range.data) % page_bytes()),
      host_(range.data),
      is_always_mapped_(computes_on_host_memory(device_->info())),
      first_id_(0),
      address_(0) {
    const DeviceInfo& info = device_->info();
    if (!info.shares_host_memory)
        throw Error(ErrorCode::unsupported, "its driver copies host memory to the device, at a part of the link's speed");
    // A driver that copies would copy the neighbours in the first and the last page, and bring them back.
    if (!range.is_file && !is_always_mapped_)
        throw Error(ErrorCode::unsupported, "its driver may copy memory that does not fill its pages");
    const std::size_t largest = info.max_window_bytes;
    window_bytes_ = std::min(range.size_bytes, largest > 2 * page_bytes() && lead_bytes_ != 0 ? largest - page_bytes() : largest);
    create_windows((range.is_writable ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY) | CL_MEM_USE_HOST_PTR);
}

Memory::Memory(std::shared_ptr<Device> device, const driver::SharedRange& range, int file)
    : driver::Memory(range.size_bytes, MemoryKind::device,
                     {ZeroCopy::yes, fmt::format("in place: device memory of a CUDA allocation, on {}", device->info().spec)}),
      device_(std::move(device)),
      window_bytes_(range.size_bytes),

      first_id_(take_numbers(1)),
      address_(take_addresses(range.size_bytes)) {
    windows_.push_back(import_buffer(*device_, range, file));
    imported_ = FileDescriptor::duplicate(file);
}

std::pair<driver::SharedRange, FileDescriptor> Memory::share() {
    if (!is_imported()) {
        const bool is_host = computes_on_host_memory(device_->info());
        throw Error(ErrorCode::unsupported, is_host ? "its pages are this process's own" : "OpenCL gives out no memory");
    }
    driver::SharedRange range;
    range.method = ShareMethod::device_memory;
    range.size_bytes = size_bytes();
    range.device_uuid = device_->info().uuid;
    return {std::move(range), imported_.duplicate()};
}

Memory::~Memory() {
    inner_.clear();
    give_back();
}

void Memory::give_back() noexcept {
    for (std::size_t i = 0; is_pooled_ && i < windows_.size(); ++i)
        device_->window_pool().put(std::move(windows_[i]), bytes_of_window(i));
}

void Memory::create_windows(cl_mem_flags flags) {
    const std::size_t count = (size_bytes() - 1) / window_bytes_ + 1;
    first_id_ = take_numbers(count);
    address_ = host_ != nullptr ? reinterpret_cast<std::uintptr_t>(host_) : take_addresses(size_bytes());
    windows_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t bytes = bytes_of_window(i);
        if (is_pooled_) {
            windows_.push_back(device_->window_pool().take(bytes));
            if (windows_.back().get() != nullptr) continue;
            windows_.pop_back();
        }
        void* host = nullptr;
        if ((flags & CL_MEM_USE_HOST_PTR) != 0) host = svm_.empty() ? host_ + i * window_bytes_ - lead_bytes_ : svm_[i].get();
        cl_int status = CL_SUCCESS;
        windows_.emplace_back(api().clCreateBuffer(device_->context(), flags, bytes, host, &status));
        if (status == CL_SUCCESS) continue;
        give_back();
        fail(status, Stage::allocation, device_->spec(), fmt::format("clCreateBuffer of {} bytes for {}", bytes, size_bytes()));
    }
}

Memory::SvmPointer Memory::allocate_svm(std::size_t size_bytes) const {
    const Api& cl = api();
    cl_device_svm_capabilities offered = 0;
    if (cl.clSVMAlloc == nullptr || cl.clSVMFree == nullptr ||
        cl.clGetDeviceInfo(device_->native(), CL_DEVICE_SVM_CAPABILITIES, sizeof offered, &offered, nullptr) != CL_SUCCESS ||
        (offered & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) == 0) {
        throw Error(ErrorCode::unsupported, fmt::format("{}: shared memory: the driver offers no SVM", device_->spec()));
    }
    // NVIDIA's driver fails calls from several threads at once.
    static std::mutex one_at_a_time;
    std::unique_lock lock(one_at_a_time);
    void* memory = cl.clSVMAlloc(device_->context(), CL_MEM_READ_WRITE, size_bytes, 0);
    lock.unlock();
    if (memory == nullptr) {
        throw Error(ErrorCode::out_of_memory,
                    fmt::format("{}: clSVMAlloc of {} bytes for {}: null", device_->spec(), size_bytes, this->size_bytes()));
    }
    return {memory, [&cl, context = device_->context()](void* pointer) {
                const std::lock_guard guard(one_at_a_time);
                cl.clSVMFree(context, pointer);
            }};
}

Memory::Start Memory::start_at(const Place& at) const {
    if (at.offset_bytes == 0) return {at.window, at.id};
    const std::size_t alignment = device_->base_alignment();
    const bool is_aligned = alignment != 0 && at.offset_bytes % alignment == 0;
    if (!is_aligned && !is_always_mapped_) return {nullptr, 0};
    const std::lock_guard lock(mutex_);
    for (const Inner& inner : inner_) {
        if (inner.window_id == at.id && inner.offset_bytes == at.offset_bytes) return {inner.buffer.get(), inner.id};
    }
    const cl_mem_flags access = is_writable ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY;
    const std::size_t index = at.id - first_id_;
    const cl_buffer_region region{at.offset_bytes, bytes_of_window(index) - at.offset_bytes};
    cl_int status = CL_SUCCESS;
    MemoryHandle buffer(is_aligned
                            ? api().clCreateSubBuffer(at.window, access, CL_BUFFER_CREATE_TYPE_REGION, &region, &status)
                            : api().clCreateBuffer(device_->context(), access | CL_MEM_USE_HOST_PTR, region.size,
                                                   host_ + index * window_bytes_ - lead_bytes_ + at.offset_bytes, &status));
    check(status, Stage::allocation, device_->spec(), "a buffer from byte {} of another on", at.offset_bytes);
    if (inner_.size() == most_inner_buffers) inner_.pop_front();  // queued work still has it
    inner_.push_back({at.id, at.offset_bytes, std::move(buffer), take_numbers(1)});
    return {inner_.back().buffer.get(), inner_.back().id};
}

void* Memory::map(std::size_t offset_bytes, std::size_t size_bytes, Access access) {
    if (is_imported()) return nullptr;
    if (host_ == nullptr && place(offset_bytes).left_bytes < size_bytes) return nullptr;
    View view;
    for (std::size_t done = 0, part = 0; done < size_bytes; done += part) {
        const Place at = place(offset_bytes + done);
        part = std::min(size_bytes - done, at.left_bytes);
        cl_int status = CL_SUCCESS;
        void* address = api().clEnqueueMapBuffer(device_->internal_queue(), at.window, CL_TRUE, map_flags(access),
                                                 at.offset_bytes, part, 0, nullptr, nullptr, &status);
        if (status != CL_SUCCESS) {
            end(view);
            fail(status, Stage::waiting, device_->spec(),
                 fmt::format("clEnqueueMapBuffer of {} bytes at {}", size_bytes, offset_bytes));
        }
        view.parts.push_back({at.window, address});
    }
    const std::lock_guard lock(mutex_);
    views_.push_back(std::move(view));
    return views_.back().parts.front().address;
}

void Memory::unmap(void* address, Access /*access*/) {
    View view;
    {
        const std::lock_guard lock(mutex_);
        const auto found =
            std::find_if(views_.begin(), views_.end(), [&](const View& v) { return v.parts.front().address == address; });
        view = std::move(*found);
        views_.erase(found);
    }
    end(view);
}

void Memory::end(const View& view) const {
    const Api& cl = api();
    for (const View::Part& part : view.parts) {
        cl_event event = nullptr;
        check(cl.clEnqueueUnmapMemObject(device_->internal_queue(), part.window, part.address, 0, nullptr, &event),
              Stage::waiting, device_->spec(), "clEnqueueUnmapMemObject");
        const EventHandle done(event);
        check(cl.clWaitForEvents(1, &event), Stage::waiting, device_->spec(), "clEnqueueUnmapMemObject, waited for");
    }
}

}  // namespace tandem::opencl
