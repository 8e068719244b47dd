#pragma once
// Host memory that is registered with the CUDA driver.

#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "backends/cuda/api.hpp"

namespace tandem::cuda {

class Device;

/// Page ranges of the process that the library has registered: one registration for each byte, counted, whoever adopts it how
/// often. The driver refuses to register a page twice, and registrations are the process's, for all devices.
///
/// What a caller had registered is used as it is, and stays registered.
/// Thread safe. Native calls: cuMemHostRegister(CU_MEMHOSTREGISTER_PORTABLE | _DEVICEMAP, and _READ_ONLY where the memory is),
/// in ranges of at most 64 GiB; cuMemHostUnregister.
class Registrations {
public:
    /// The one table of the process.
    static Registrations& instance();

    /// A held part of the address space. Move-only; lets go when it goes.
    class Hold {
    public:
        Hold() = default;
        ~Hold();
        Hold(Hold&& other) noexcept = default;
        Hold& operator=(Hold&& other) noexcept {
            std::swap(ends_, other.ends_);
            std::swap(counted_, other.counted_);
            return *this;
        }

        /// Bytes from `address`, which is held, that lie in one registration: a copy may not cross into the next.
        [[nodiscard]] std::size_t run_bytes(std::uintptr_t address) const noexcept;

    private:
        friend class Registrations;
        std::vector<std::uintptr_t> ends_;     // of every stretch that is held, in order
        std::vector<std::uintptr_t> counted_;  // starts of those that the library registered
    };

    /// Keeps the table as it is for a scope. The driver refuses a copy whose host side begins in a registration and ends outside
    /// it, so whoever copies cuts along them.
    class Frozen {
    public:
        Frozen() : lock_(instance().mutex_) {}
        /// Bytes from `address` to where a registration of the library begins or ends.
        [[nodiscard]] std::size_t run_bytes(const void* address) const noexcept;

    private:
        std::shared_lock<std::shared_mutex> lock_;
    };

    /// Registers what of [address, address + size_bytes) is not yet, by whole pages. Memory that is not writable is registered
    /// for reading alone. Throws out_of_memory with the sizes and the limit, unsupported with what the driver answered; nothing
    /// stays registered then that was not before.
    Hold hold(const std::shared_ptr<Device>& device, const void* address, std::size_t size_bytes, bool is_writable);

private:
    struct Range {
        std::uintptr_t end;
        bool is_writable;
        std::size_t holders;
        std::shared_ptr<Device> device;  // whose context it was registered in, and has to be open to unregister it
    };

    std::uintptr_t extend(Hold& hold, const std::shared_ptr<Device>& device, std::uintptr_t begin, std::uintptr_t end,
                          bool is_writable);
    void let_go(const Hold& hold) noexcept;

    std::shared_mutex mutex_;
    std::map<std::uintptr_t, Range> ranges_;  // by their start
};

}  // namespace tandem::cuda
