#pragma once
// Device memory that other processes have too, or that others made.

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include "backends/cuda/api.hpp"
#include "backends/cuda/memory.hpp"
#include "core/driver.hpp"

namespace tandem::cuda {

/// An allocation of the virtual memory management in this process's address space. Each step that was taken is undone, in the
/// reverse order. Native calls: cuMemRelease, cuMemAddressReserve, cuMemAddressFree, cuMemMap, cuMemUnmap, cuMemSetAccess.
class VirtualMapping {
public:
    explicit VirtualMapping(const Context& context) : context_(context) {}
    ~VirtualMapping();
    VirtualMapping(const VirtualMapping&) = delete;
    VirtualMapping& operator=(const VirtualMapping&) = delete;

    /// Takes the allocation over.
    void hold(CUmemGenericAllocationHandle allocation) noexcept {
        allocation_ = allocation;
        is_held_ = true;
    }
    /// Maps the first `size_bytes` of the allocation that is held, whole granules, for the context's device.
    CUresult map(std::size_t size_bytes, const char*& call) noexcept;

    [[nodiscard]] CUmemGenericAllocationHandle allocation() const noexcept { return allocation_; }
    [[nodiscard]] CUdeviceptr address() const noexcept { return address_; }

private:
    const Context& context_;
    CUmemGenericAllocationHandle allocation_ = 0;
    bool is_held_ = false;
    CUdeviceptr address_ = 0;
    std::size_t size_bytes_ = 0;
    bool is_mapped_ = false;
};

/// Memory that a file descriptor stands for: it lives while any process holds the descriptor or has it mapped.
///
/// Takes whole granules, 2 MiB each. Giving it back waits for the device's work, which a pool's memory does not.
/// Native calls: cuMemCreate, cuMemExportToShareableHandle; cuMemImportFromShareableHandle.
class VirtualMemory final : public Memory {
public:
    VirtualMemory(const std::shared_ptr<Device>& device, std::size_t size_bytes);
    /// What `file` stands for, which stays the caller's.
    VirtualMemory(const std::shared_ptr<Device>& device, const driver::SharedRange& range, int file);
    std::pair<driver::SharedRange, FileDescriptor> share() override;

private:
    VirtualMapping mapping_;  // goes before the device does
    CUdevice owner_;          // whose memory it is
    FileDescriptor file_;     // what it was imported by, since no driver exports what it has imported
};

/// Memory of another process, by its handle: opened once for each context, however often it is attached.
/// Native calls: cuIpcOpenMemHandle(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), cuIpcCloseMemHandle.
class IpcMemory final : public Memory {
public:
    IpcMemory(const std::shared_ptr<Device>& device, const driver::SharedRange& range);
    ~IpcMemory() override;
    std::pair<driver::SharedRange, FileDescriptor> share() override;

private:
    std::array<std::byte, 64> handle_;
};

/// Memory at an address that somebody else in this process allocated. Native calls: cuPointerGetAttribute, cuMemGetAddressRange,
/// cuIpcGetMemHandle.
class ForeignMemory final : public Memory {
public:
    ForeignMemory(const std::shared_ptr<Device>& device, std::uint64_t address, std::size_t size_bytes);
    std::pair<driver::SharedRange, FileDescriptor> share() override;
};

/// Throws unsupported for memory that this process has no way to give out: "it is ...".
[[noreturn]] void refuse_share(const char* what_it_is);

}  // namespace tandem::cuda
