#pragma once
// OpenCL buffers: one cl_mem for each window.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/opencl/api.hpp"
#include "backends/opencl/device.hpp"
#include "core/driver.hpp"
#include "core/host_block.hpp"

namespace tandem::opencl {

/// Memory of any kind. What the kinds are depends on whether the device computes on host memory itself:
///
/// | kind    | a CPU                        | any other device                                                    |
/// | ------- | ---------------------------- | ------------------------------------------------------------------- |
/// | device  | clCreateBuffer; as pinned    | clCreateBuffer                                                      |
/// |         | where it takes more windows  |                                                                     |
/// | pinned  | own pages, USE_HOST_PTR      | ALLOC_HOST_PTR                                                      |
/// | shared  | own pages, USE_HOST_PTR      | SVM, USE_HOST_PTR over it                                           |
/// | adopted | USE_HOST_PTR                 | file mappings: USE_HOST_PTR where it shares the host's memory; else |
/// |         |                              | not in place                                                        |
///
/// On a CPU fine-grained SVM would be the same memory, but no larger than one window.
class Memory final : public driver::Memory {
public:
    /// Takes every window, or none. Native calls: clCreateBuffer, clSVMAlloc.
    Memory(std::shared_ptr<Device> device, std::size_t size_bytes, MemoryKind kind);
    /// Adopts `range`. Throws unsupported where the device would copy it. Native call: clCreateBuffer(CL_MEM_USE_HOST_PTR).
    Memory(std::shared_ptr<Device> device, const driver::HostRange& range);
    /// Another driver's memory; one window. Throws as `import_buffer`.
    Memory(std::shared_ptr<Device> device, const driver::SharedRange& range, int file);
    ~Memory() override;

    /// The host's address where there is one. OpenCL 1.2 tells none of the device's, so else these are numbers from a counter,
    /// which no host address is equal to.
    [[nodiscard]] std::uint64_t address() const noexcept override { return address_; }
    [[nodiscard]] std::size_t window_bytes() const noexcept override { return window_bytes_; }
    [[nodiscard]] std::byte* host_address() const noexcept override { return is_always_mapped_ ? host_ : nullptr; }

    /// In place on a device that shares the host's memory; elsewhere the driver moves the bytes, at the speed of the link. Null
    /// for a range over windows that have no common address. Native calls: clEnqueueMapBuffer, blocking;
    /// clEnqueueUnmapMemObject, waited for.
    void* map(std::size_t offset_bytes, std::size_t size_bytes, Access access) override;
    void unmap(void* address, Access access) override;

    /// True where each use of it lies between acquiring and releasing it.
    [[nodiscard]] bool is_imported() const noexcept { return imported_.is_open(); }
    std::pair<driver::SharedRange, FileDescriptor> share() override;

    /// A place in one window; `id` names the window for as long as the process runs, which a cl_mem doesn't.
    struct Place {
        cl_mem window;
        std::uint64_t id;
        std::size_t offset_bytes;
        std::size_t left_bytes;  ///< in this window, from the place on
    };
    [[nodiscard]] Place place(std::size_t offset_bytes) const noexcept {
        const std::size_t index = offset_bytes < window_bytes_ ? 0 : offset_bytes / window_bytes_;
        const std::size_t within = offset_bytes - index * window_bytes_;
        return {windows_[index].get(), first_id_ + index, lead_bytes_ + within, window_bytes_ - within};
    }

    /// A buffer that starts at the place, for as long as the memory lives: the window itself, a sub-buffer, or on a device that
    /// computes on host memory another buffer over it. Null where the place is not aligned to the device's base address
    /// alignment. Native calls: clCreateSubBuffer; clCreateBuffer(CL_MEM_USE_HOST_PTR).
    struct Start {
        cl_mem buffer;
        std::uint64_t id;  ///< as a place's, of the buffer
    };
    [[nodiscard]] Start start_at(const Place& at) const;

private:
    // What one call of `map` made: a native mapping for each window.
    struct View {
        struct Part {
            cl_mem window;
            void* address;
        };
        std::vector<Part> parts;  // the view starts where the first does
    };
    using SvmPointer = std::unique_ptr<void, std::function<void(void*)>>;

    void create_windows(cl_mem_flags flags);
    void give_back() noexcept;
    [[nodiscard]] std::size_t bytes_of_window(std::size_t index) const noexcept {
        return lead_bytes_ + std::min(window_bytes_, size_bytes() - index * window_bytes_);
    }
    void end(const View& view) const;
    SvmPointer allocate_svm(std::size_t size_bytes) const;

    std::shared_ptr<Device> device_;
    std::size_t window_bytes_;    // multiples of it start windows
    std::size_t lead_bytes_ = 0;  // of each window's cl_mem, before the memory: cl_mems start at pages
    HostBlock block_;
    std::vector<SvmPointer> svm_;  // one for each window
    std::byte* host_ = nullptr;    // where the windows lie on the host, if they lie side by side
    bool is_always_mapped_ = false;
    std::vector<MemoryHandle> windows_;
    bool is_pooled_ = false;   // the windows are the pool's
    FileDescriptor imported_;  // what another driver's memory was imported by
    std::uint64_t first_id_;
    std::uint64_t address_;
    struct Inner {
        std::uint64_t window_id;
        std::size_t offset_bytes;
        MemoryHandle buffer;
        std::uint64_t id;
    };
    mutable std::mutex mutex_;
    std::vector<View> views_;
    mutable std::deque<Inner> inner_;  // buffers within windows, which they go before; the oldest are dropped
};

}  // namespace tandem::opencl
