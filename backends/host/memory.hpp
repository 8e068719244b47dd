#pragma once
// Host memory as device memory.

#include <cstddef>
#include <memory>

#include "core/driver.hpp"

namespace tandem::host {

/// Memory from the heap, aligned to 64 bytes; in huge pages where it is large and the system has them.
class Memory final : public driver::Memory {
public:
    /// Throws out_of_memory.
    Memory(std::shared_ptr<driver::Device> device, std::size_t size_bytes, MemoryKind kind);
    ~Memory() override;

    [[nodiscard]] std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::uint64_t address() const noexcept override { return reinterpret_cast<std::uintptr_t>(data_); }
    void* map(std::size_t offset_bytes, std::size_t /*size_bytes*/, Access /*access*/) override { return data_ + offset_bytes; }

private:
    std::shared_ptr<driver::Device> device_;
    std::byte* data_;
};

}  // namespace tandem::host
