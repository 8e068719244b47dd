#include "backends/host/memory.hpp"

#include <fmt/format.h>

#include <cerrno>

#include "tandem/error.hpp"

namespace tandem::host {

Memory::Memory(std::shared_ptr<driver::Device> device, std::size_t size_bytes, MemoryKind kind)
    : driver::Memory(size_bytes, kind, {ZeroCopy::yes, fmt::format("{} memory of {}", to_string(kind), device->info().spec)}),
      device_(std::move(device)),
      block_(size_bytes <= device_->info().memory_bytes ? HostBlock(size_bytes) : HostBlock()),
      data_(block_.data()) {
    if (data_ == nullptr) {
        throw Error(ErrorCode::out_of_memory,
                    fmt::format("{}: mmap of {} bytes: Cannot allocate memory (the machine has {})", device_->info().spec,
                                size_bytes, device_->info().memory_bytes),
                    ENOMEM);
    }
}

Memory::Memory(std::shared_ptr<driver::Device> device, const driver::HostRange& range)
    : driver::Memory(range.size_bytes, MemoryKind::adopted,
                     {ZeroCopy::yes, fmt::format("in place: {}, on {}", range.is_file ? "a file mapping" : "the caller's memory",
                                                 device->info().spec)}),
      device_(std::move(device)),
      data_(range.data) {}

}  // namespace tandem::host
