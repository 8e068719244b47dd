#include "tandem/buffer.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/device_state.hpp"
#include "tandem/error.hpp"

namespace tandem {

namespace {

std::shared_ptr<driver::Memory> allocate(const Device& device, std::size_t size_bytes, MemoryKind kind) {
    if (kind == MemoryKind::adopted) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("buffer of {} bytes: adopted memory is memory that exists; see adopt()", size_bytes));
    }
    return size_bytes != 0 ? device.state()->allocate(size_bytes, kind) : nullptr;
}

}  // namespace

Buffer::Buffer(const Device& device, std::size_t size_bytes, MemoryKind kind)
    : Buffer(device, allocate(device, size_bytes, kind), size_bytes, kind) {}

Buffer::Buffer(const Device& device, std::shared_ptr<driver::Memory> memory, std::size_t size_bytes, MemoryKind kind)
    : device_(device.state()), memory_(std::move(memory)), size_bytes_(size_bytes), kind_(kind) {}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(other.device_),  // NOLINT(performance-move-constructor-init): both have it
      memory_(std::move(other.memory_)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      kind_(other.kind_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
    if (this != &other) {
        device_ = other.device_;
        memory_ = std::move(other.memory_);
        size_bytes_ = std::exchange(other.size_bytes_, 0);
        kind_ = other.kind_;
    }
    return *this;
}

ZeroCopy Buffer::zero_copy() const noexcept {
    return memory_ != nullptr ? memory_->residency().zero_copy : ZeroCopy::yes;
}

const std::string& Buffer::residency() const noexcept {
    if (memory_ != nullptr) return memory_->residency().description;
    static const auto& none = *new std::string("no bytes");  // never destroyed: buffers in static storage may outlive it
    return none;
}

std::byte* Buffer::host_address() const noexcept {
    return memory_ != nullptr && memory_->mirrored == nullptr ? memory_->host_address() : nullptr;
}

HostView Buffer::map(Access access) const {
    return {device_, memory_, 0, size_bytes_, access};
}

struct HostView::State {
    State(std::shared_ptr<DeviceState> on, std::shared_ptr<driver::Memory> of, std::size_t offset, std::size_t size,
          Access purpose)
        : device(std::move(on)), memory(std::move(of)), offset_bytes(offset), size_bytes(size), access(purpose) {
        if (access != Access::read && !memory->is_writable)
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("map of {} bytes to write: the memory is read-only", size_bytes));
        if (!memory->mapped.add(offset_bytes, size_bytes, access)) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("map of {} bytes at {}: another view of them is open, and one of the two writes", size_bytes,
                                    offset_bytes));
        }
    }
    ~State() { memory->mapped.remove(offset_bytes, size_bytes, access); }
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    std::shared_ptr<DeviceState> device;
    std::shared_ptr<driver::Memory> memory;
    std::size_t offset_bytes;
    std::size_t size_bytes;
    Access access;
    void* mapped = nullptr;                  // set: the memory itself
    std::unique_ptr<std::byte[]> fetched{};  // set: a copy
};

HostView::HostView(const Device& device, std::shared_ptr<driver::Memory> memory, std::size_t offset_bytes, std::size_t size_bytes,
                   Access access)
    : size_bytes_(size_bytes) {
    if (size_bytes == 0) return;
    auto state = std::make_unique<State>(device.state(), std::move(memory), offset_bytes, size_bytes, access);
    state->memory->uses.wait();
    driver::Memory& of = *state->memory;
    if (of.mirrored == nullptr) state->mapped = of.map(offset_bytes, size_bytes, access);
    if (state->mapped != nullptr) {
        data_ = static_cast<std::byte*>(state->mapped);
    } else {
        if (of.mirrored == nullptr) state->fetched = std::make_unique_for_overwrite<std::byte[]>(size_bytes);
        data_ = of.mirrored != nullptr ? of.mirrored + offset_bytes : state->fetched.get();
        // What the device may not write to is as it was, and may be memory that can't be written to here either.
        const bool is_current = of.mirrored != nullptr && !of.is_writable;
        if (access != Access::write && !is_current) state->device->read(state->memory, offset_bytes, data_, size_bytes);
    }
    state_ = std::move(state);
}

HostView::HostView() noexcept = default;

HostView::HostView(HostView&& other) noexcept
    : state_(std::move(other.state_)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

HostView& HostView::operator=(HostView&& other) noexcept {
    if (this != &other) {
        HostView ending(std::move(*this));
        state_ = std::move(other.state_);
        data_ = std::exchange(other.data_, nullptr);
        size_bytes_ = std::exchange(other.size_bytes_, 0);
    }
    return *this;
}

HostView::~HostView() {
    try {
        unmap();
    } catch (...) {
        // The caller who needs to know calls unmap().
    }
}

bool HostView::in_place() const noexcept {
    return state_ == nullptr || state_->mapped != nullptr;
}

void HostView::unmap() {
    const std::unique_ptr<State> state = std::move(state_);
    const auto* data = std::exchange(data_, nullptr);
    const std::size_t size_bytes = std::exchange(size_bytes_, 0);
    if (state == nullptr) return;
    if (state->mapped != nullptr) {
        state->memory->unmap(state->mapped, state->access);
    } else if (state->access != Access::read) {
        state->device->write(state->memory, state->offset_bytes, data, size_bytes);
    }
}

}  // namespace tandem
