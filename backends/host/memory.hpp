#pragma once
// Host memory as device memory.

#include <cstddef>
#include <memory>

#include "core/driver.hpp"
#include "core/host_block.hpp"

namespace tandem::host {

/// Pages of the host's memory, or memory that exists: the kinds differ in nothing else here.
class Memory final : public driver::Memory {
public:
    /// Throws out_of_memory.
    Memory(std::shared_ptr<driver::Device> device, std::size_t size_bytes, MemoryKind kind);
    /// Adopts `range`; nothing is done to it.
    Memory(std::shared_ptr<driver::Device> device, const driver::HostRange& range);

    [[nodiscard]] std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::byte* host_address() const noexcept override { return data_; }
    [[nodiscard]] std::uint64_t address() const noexcept override { return reinterpret_cast<std::uintptr_t>(data_); }
    void* map(std::size_t offset_bytes, std::size_t /*size_bytes*/, Access /*access*/) override { return data_ + offset_bytes; }

private:
    std::shared_ptr<driver::Device> device_;
    HostBlock block_;  ///< empty for adopted memory
    std::byte* data_;
};

}  // namespace tandem::host
