#pragma once
// The part of the implementer's interface that callers' own kernels need. Included by core/driver.hpp, whose rules hold here.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory_uses.hpp"
#include "tandem/kernel.hpp"

namespace tandem::driver {

class Memory;

/// A kernel built for one device. Shared; holds its device. Thread safe: several queues may launch it at once.
class Kernel {
public:
    explicit Kernel(KernelInfo info) : info_(std::move(info)) {}
    virtual ~Kernel() = default;
    Kernel(const Kernel&) = delete;
    Kernel& operator=(const Kernel&) = delete;

    [[nodiscard]] const KernelInfo& info() const noexcept { return info_; }

    /// Which queues still run it: what core/ keeps with the kernel.
    MemoryUses uses;

private:
    KernelInfo info_;
};

/// What a kernel is built from. Each device takes what it understands, an image before a source, and leaves the rest.
struct CompileRequest {
    std::string name;                             ///< of the kernel function
    std::string file_name;                        ///< what the compiler's messages call the source; may be empty
    std::string_view cuda_source;                 ///< CUDA C++
    std::string_view opencl_source;               ///< OpenCL C
    std::span<const std::byte> cuda_image;        ///< PTX, cubin or fat binary
    std::span<const std::byte> spirv;             ///< SPIR-V
    std::vector<std::string> cuda_options;        ///< for NVRTC, each as one word
    std::vector<std::string> opencl_options;      ///< for clBuildProgram
    const HostFunction* host_function = nullptr;  ///< for the host backend
    /// The host function is the library's own, whose items take no longer than an operation's elements: a caller's may do
    /// anything, and hang.
    bool is_own_function = false;
};

/// One argument of a launch.
struct KernelArgument {
    enum class Kind : std::uint8_t {
        /// A pointer to a byte of `memory`. On OpenCL only where the byte is aligned to the device's base address alignment.
        memory,
        /// A pointer to the start of the native allocation (on OpenCL: the cl_mem) that a byte of `memory` lies in.
        base,
        /// 8 bytes, unsigned: how far behind that start the byte lies. Together they reach every byte on every device.
        offset,
        value,  ///< the bytes themselves
        local,  ///< memory that the items of a group share; on CUDA dynamic shared memory, and no parameter of the kernel
    };
    Kind kind = Kind::value;
    Memory* memory = nullptr;  ///< null: no bytes; the kernel gets a null pointer, or 0 as the offset
    std::size_t offset_bytes = 0;
    const void* value = nullptr;
    std::size_t size_bytes = 0;  ///< of a value, or of local memory
};

/// Arguments beyond these are refused by core/.
inline constexpr std::size_t max_launch_arguments = 64;
/// CUDA has one region of dynamic shared memory: each `local` argument starts in it at the next multiple of this.
inline constexpr std::size_t local_alignment = 16;

/// One launch. Items are not zero; groups not larger than the kernel's limit.
struct Launch {
    Kernel* kernel = nullptr;
    int dimensions = 1;
    std::array<std::uint64_t, 3> items{1, 1, 1};
    std::array<std::uint32_t, 3> group{0, 0, 0};  ///< items of a group in each dimension; all 0: the device chooses
    std::span<const KernelArgument> arguments;
};

/// Work that was recorded, ready to be submitted as often as wanted. Holds its device, and nothing that it works on.
class Recording {
public:
    Recording() = default;
    virtual ~Recording() = default;
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

    /// What the driver calls it: "CUDA graph".
    [[nodiscard]] virtual const char* method() const noexcept = 0;
};

}  // namespace tandem::driver
