#include "backends/host/memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdlib>

#include "tandem/error.hpp"

namespace tandem::host {
namespace {

constexpr std::size_t huge_page_bytes = std::size_t{2} << 20U;

std::byte* allocate(std::size_t size_bytes) noexcept {
    const std::size_t alignment = size_bytes >= huge_page_bytes ? huge_page_bytes : 64;
    if (size_bytes > SIZE_MAX - alignment) return nullptr;
    const std::size_t rounded = (size_bytes + alignment - 1) / alignment * alignment;
    void* memory = std::aligned_alloc(alignment, rounded);
    // Fewer page faults on first touch; a system without huge pages refuses, and nothing is lost.
    if (memory != nullptr && alignment == huge_page_bytes) madvise(memory, rounded, MADV_HUGEPAGE);
    return static_cast<std::byte*>(memory);
}

}  // namespace

Memory::Memory(std::shared_ptr<driver::Device> device, std::size_t size_bytes, MemoryKind kind)
    : driver::Memory(size_bytes, kind),
      device_(std::move(device)),
      data_(size_bytes <= device_->info().memory_bytes ? allocate(size_bytes) : nullptr) {
    if (data_ == nullptr) {
        throw Error(ErrorCode::out_of_memory,
                    fmt::format("{}: aligned_alloc of {} bytes: Cannot allocate memory (the machine has {})",
                                device_->info().spec, size_bytes, device_->info().memory_bytes),
                    ENOMEM);
    }
}

Memory::~Memory() {
    std::free(data_);
}

}  // namespace tandem::host
