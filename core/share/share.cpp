#include "tandem/share.hpp"

#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "core/device_state.hpp"
#include "core/elementwise.hpp"
#include "core/share/descriptor.hpp"
#include "core/share/exporter.hpp"
#include "core/share/host_region.hpp"
#include "core/share/known_memories.hpp"
#include "core/share/shareable.hpp"
#include "tandem/adopt.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

using SharedMemory = std::shared_ptr<driver::Memory>;

// Runs `work`; where a backend says in a few words why it can't, throws that behind `what`, and `advice` behind that.
template <class Work>
auto explained(const std::string& what, const char* advice, Work&& work) {
    try {
        return work();
    } catch (const Error& error) {
        if (error.code() == ErrorCode::unsupported)
            throw Error(error.code(), fmt::format("{}: {}{}", what, error.what(), advice), error.native_code());
        throw Error(error.code(), fmt::format("{}: {}", what, error.what()), error.native_code());
    }
}

// `region` as memory of `device`, in place.
SharedMemory adopt_pages(const Device& device, const std::shared_ptr<const HostRegion>& region, bool is_writable) {
    SharedMemory memory = device.state()->native->adopt({region->data(), region->size_bytes(), is_writable, true, false});
    memory->is_writable = is_writable;
    memory->owner = region;
    memory->pages = region;
    return memory;
}

std::string exporter_name(const ShareDescriptor::State& descriptor) {
    return descriptor.exporter.pid == 0 ? "an unknown process" : fmt::format("process {}", descriptor.exporter.pid);
}

SharedMemory take_ipc_handle(const Device& device, const ShareDescriptor::State& descriptor) {
    const ProcessIdentity& process = descriptor.exporter;
    if (process.pid == 0) return device.state()->native->attach(descriptor.range, -1);
    if (is_same(process, own_identity())) {
        throw Error(ErrorCode::unsupported,
                    "it is a CUDA IPC handle of this process, which no driver opens; adopt_device_pointer takes the address");
    }
    const auto exporter = std::make_shared<const Exporter>(process);
    SharedMemory memory = device.state()->native->attach(descriptor.range, -1);
    memory->exporter = exporter;
    return memory;
}

SharedMemory take(const Device& device, const ShareDescriptor::State& descriptor) {
    const driver::SharedRange& range = descriptor.range;
    SharedMemory memory;
    switch (range.method) {
        case ShareMethod::host_memory:
            memory = adopt_pages(device, HostRegion::attach(descriptor.file.number(), range.size_bytes, range.is_writable),
                                 range.is_writable);
            break;
        case ShareMethod::device_memory:
            memory = device.state()->native->attach(range, descriptor.file.number());
            break;
        case ShareMethod::ipc_handle:
            memory = take_ipc_handle(device, descriptor);
            break;
    }
    memory->is_writable = range.is_writable;
    Residency residency = memory->residency();
    residency.description = fmt::format("{}, shared by {}", residency.description, exporter_name(descriptor));
    memory->set_residency(std::move(residency));
    return memory;
}

// One at a time looks for memory and takes it: two at once would each take it, at two addresses.
std::mutex& attaching() {
    static std::mutex mutex;
    return mutex;
}

// The memory where this process has it on `device` already; null where it has not.
SharedMemory find_here(const Device& device, const ShareDescriptor::State& descriptor) {
    const driver::SharedRange& range = descriptor.range;
    SharedMemory nearest;
    for (SharedMemory& memory : KnownMemories::instance().find(descriptor.memory_id, device.state())) {
        // The name may be forged: what is sent beside it counts.
        const bool is_host = range.method == ShareMethod::host_memory;
        if (is_host != (memory->pages != nullptr) || memory->size_bytes() != range.size_bytes) continue;
        if (is_host && !memory->pages->is_same_file(descriptor.file.number())) continue;
        if (memory->is_writable == range.is_writable) return memory;
        if (memory->is_writable) nearest = std::move(memory);
    }
    if (nearest == nullptr || range.method == ShareMethod::device_memory) return nullptr;
    SharedMemory read_only;
    if (range.method == ShareMethod::host_memory) {
        read_only = adopt_pages(device, nearest->pages, false);
    } else {
        read_only = device.state()->native->adopt_device_memory(nearest->address(), nearest->size_bytes());
        read_only->owner = nearest;
        read_only->is_writable = false;
    }
    KnownMemories::instance().add(descriptor.memory_id, read_only, device.state());
    return read_only;
}

// The CUDA device that is the same GPU.
std::optional<std::string> cuda_device_like(const DeviceInfo& info) {
    if (info.uuid.empty() || info.backend == "cuda") return {};
    for (const BackendInfo& backend : list_backends()) {
        if (backend.name != "cuda") continue;
        for (const DeviceInfo& device : backend.devices) {
            if (device.uuid == info.uuid) return device.spec;
        }
    }
    return {};
}

SharedMemory allocate_shareable(const Device& device, std::size_t size_bytes, MemoryKind kind) {
    const DeviceInfo& info = device.info();
    if (kind == MemoryKind::device && !info.shares_host_memory) {
        const auto spec = cuda_device_like(info);
        if (!spec) return device.state()->allocate_shareable(size_bytes);
        const SharedMemory native = open_device(*spec).state()->allocate_shareable(size_bytes);
        const auto [range, file] = native->share();
        return device.state()->native->attach(range, file.number());
    }
    SharedMemory memory = adopt_pages(device, HostRegion::make(size_bytes), true);
    memory->set_residency({memory->residency().zero_copy,
                           fmt::format("{} memory that can be shared; {}", to_string(kind), memory->residency().description)});
    return memory;
}

}  // namespace

ShareDescriptor share(const Array& array, const ShareOptions& options) {
    auto state = std::make_shared<ShareDescriptor::State>();
    state->kind = array.kind();
    state->dtype = array.dtype();
    state->shape = array.shape();
    state->strides_bytes = array.strides_bytes();
    state->exporter = own_identity();
    state->range.is_writable = options.is_writable;
    if (array.count() == 0) {
        state->memory_id = random_id();
        return ShareDescriptor(std::move(state));
    }
    const SharedMemory& memory = array.memory();
    if (options.is_writable && !memory->is_writable) {
        throw Error(ErrorCode::invalid_argument, fmt::format("share of {} to be written to: it lies in read-only memory ({})",
                                                             describe(array), array.residency()));
    }
    if (memory->pages != nullptr) {
        state->range.method = ShareMethod::host_memory;
        state->range.size_bytes = memory->size_bytes();
        state->file = memory->pages->give_out(options.is_writable);
    } else {
        auto [range, file] = explained(fmt::format("share of {} in {} memory of {} ({})", describe(array),
                                                   to_string(array.kind()), array.device().spec(), array.residency()),
                                       "; make the array with empty_shareable, or load it with LoadOptions::shareable",
                                       [&] { return memory->share(); });
        state->range = std::move(range);
        state->range.is_writable = options.is_writable;
        state->file = std::move(file);
    }
    state->offset_bytes = array.offset_bytes();
    state->memory_id = KnownMemories::instance().name_of(memory, array.device().state());
    return ShareDescriptor(std::move(state));
}

Array attach(const Device& device, const ShareDescriptor& descriptor) {
    const ShareDescriptor::State& state = descriptor.state();
    const bool is_host = state.range.method == ShareMethod::host_memory;
    SharedMemory memory;
    if (state.range.size_bytes != 0) {
        memory = explained(
            fmt::format("{}: attach of {} {}, {} bytes of {} shared by {}", device.spec(), to_string(state.dtype),
                        to_string(state.shape), state.range.size_bytes, to_string(state.range.method), exporter_name(state)),
            is_host ? "; attach it on a device that can, and copy" : "", [&] {
                const std::lock_guard lock(attaching());
                SharedMemory here = find_here(device, state);
                if (here != nullptr) return here;
                here = take(device, state);
                KnownMemories::instance().add(state.memory_id, here, device.state());
                return here;
            });
    }
    const MemoryKind kind = is_host ? MemoryKind::adopted : MemoryKind::device;
    const Buffer buffer(device, std::move(memory), state.range.size_bytes, kind);
    return {buffer, state.dtype, state.shape, state.strides_bytes, state.offset_bytes};
}

Buffer shareable_buffer(const Device& device, std::size_t size_bytes, MemoryKind kind) {
    if (kind == MemoryKind::adopted) return {device, size_bytes, kind};  // throws
    if (size_bytes == 0) return {device, nullptr, 0, kind};
    SharedMemory memory =
        explained(fmt::format("{}: {} bytes of {} memory that can be shared", device.spec(), size_bytes, to_string(kind)),
                  kind == MemoryKind::device ? "" : "; `device` memory may be",
                  [&] { return allocate_shareable(device, size_bytes, kind); });
    return {device, std::move(memory), size_bytes, kind};
}

Buffer make_buffer(const Device& device, std::size_t size_bytes, MemoryKind kind, bool is_shareable) {
    return is_shareable ? shareable_buffer(device, size_bytes, kind) : Buffer(device, size_bytes, kind);
}

Array empty_shareable(const Device& device, DType dtype, Shape shape, MemoryKind kind, Order order) {
    check_dtype_supported(device.info(), "empty_shareable", dtype);
    const auto bytes = static_cast<std::size_t>(element_count(shape, size_bytes(dtype))) * size_bytes(dtype);
    return {shareable_buffer(device, bytes, kind), dtype, std::move(shape), 0, order};
}

Array adopt_device_pointer(const Device& device, std::uint64_t address, DType dtype, Shape shape,
                           const std::optional<Strides>& strides_bytes, std::shared_ptr<const void> owner) {
    const std::size_t item_bytes = size_bytes(dtype);
    const bool is_empty = element_count(shape, item_bytes) == 0;
    Strides strides = strides_bytes.value_or(dense_strides(shape, item_bytes));
    constexpr std::size_t largest = INT64_MAX;
    // Below its first element an array reaches down to address 0 at most.
    check_inside(ErrorCode::out_of_range, "adopt_device_pointer: array", dtype, shape, strides, address, largest);
    if (is_empty) return {Buffer(device, nullptr, 0, MemoryKind::device), dtype, std::move(shape), std::move(strides), 0};
    std::size_t before = 0, after = item_bytes;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        const std::int64_t span = strides[d] * (shape[d] - 1);
        if (span < 0) before += static_cast<std::size_t>(-span);
        if (span > 0) after += static_cast<std::size_t>(span);
    }
    SharedMemory memory =
        explained(fmt::format("{}: adopt_device_pointer of {} bytes at {:#x}", device.spec(), before + after, address - before),
                  "", [&] { return device.state()->native->adopt_device_memory(address - before, before + after); });
    memory->owner = std::move(owner);
    const Buffer buffer(device, std::move(memory), before + after, MemoryKind::device);
    return {buffer, dtype, std::move(shape), std::move(strides), before};
}

Array Array::on(const Device& device) const {
    if (device == device_) return *this;
    const std::lock_guard lock(attaching());
    Array array = *this;
    array.device_ = device;
    if (count_ == 0) return array;
    const std::string what = fmt::format("{} of {} ({}) on {}", describe(*this), device_.spec(), residency_, device.spec());
    const std::string name = KnownMemories::instance().name_of(memory_, device_.state());
    for (SharedMemory& memory : KnownMemories::instance().find(name, device.state())) {
        if (memory->is_writable != memory_->is_writable || memory->size_bytes() != memory_->size_bytes()) continue;
        array.memory_ = std::move(memory);
    }
    if (array.memory_ == memory_) {
        array.memory_ = explained(what, "", [&]() -> SharedMemory {
            if (memory_->pages != nullptr) return adopt_pages(device, memory_->pages, memory_->is_writable);
            std::byte* const address = memory_->host_address();
            if (address != nullptr && memory_->mirrored == nullptr) {
                SharedMemory memory =
                    device.state()->native->adopt({address, memory_->size_bytes(), memory_->is_writable, false, false});
                memory->owner = memory_;
                return memory;
            }
            const auto [range, file] = memory_->share();
            if (range.method != ShareMethod::device_memory)
                throw Error(ErrorCode::unsupported, "it can't be shared as device memory");
            SharedMemory memory = device.state()->native->attach(range, file.number());
            memory->owner = memory_;
            return memory;
        });
        array.memory_->is_writable = memory_->is_writable;
        array.memory_->exporter = memory_->exporter;
        KnownMemories::instance().add(name, array.memory_, device.state());
    }
    array.set_residency(array.memory_->residency().zero_copy,
                        fmt::format("{}, which is that of {}", array.memory_->residency().description, device_.spec()));
    return array;
}

}  // namespace tandem
