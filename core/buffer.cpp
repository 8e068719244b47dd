#include "tandem/buffer.hpp"

#include <utility>

#include "core/device_state.hpp"

namespace tandem {

std::string_view to_string(MemoryKind kind) noexcept {
    switch (kind) {
        case MemoryKind::device:
            return "device";
    }
    return "?";
}

Buffer::Buffer(const Device& device, std::size_t size_bytes, MemoryKind kind)
    : device_(device),
      memory_(size_bytes != 0 ? device.state()->allocate(size_bytes, kind) : nullptr),
      size_bytes_(size_bytes),
      kind_(kind) {}

HostView Buffer::map(Access access) const {
    return {device_, memory_, 0, size_bytes_, access};
}

struct HostView::State {
    std::shared_ptr<DeviceState> device;
    std::shared_ptr<driver::Memory> memory;
    std::size_t offset_bytes;
    Access access;
    void* mapped = nullptr;                // set: the memory itself
    std::unique_ptr<std::byte[]> fetched;  // set: a copy
};

HostView::HostView(const Device& device, std::shared_ptr<driver::Memory> memory, std::size_t offset_bytes, std::size_t size_bytes,
                   Access access)
    : size_bytes_(size_bytes) {
    if (size_bytes == 0) return;
    auto state = std::make_unique<State>(State{device.state(), std::move(memory), offset_bytes, access, nullptr, nullptr});
    state->memory->uses.wait();
    state->mapped = state->memory->map(offset_bytes, size_bytes, access);
    if (state->mapped != nullptr) {
        data_ = static_cast<std::byte*>(state->mapped);
    } else {
        state->fetched = std::make_unique_for_overwrite<std::byte[]>(size_bytes);
        data_ = state->fetched.get();
        if (access != Access::write) state->device->read(state->memory, offset_bytes, data_, size_bytes);
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
