#pragma once
// Callers' own kernels: compiled for a device, and launched on a queue.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <tandem/array.hpp>
#include <tandem/buffer.hpp>
#include <tandem/host_function.hpp>

namespace tandem {

namespace driver {
class Kernel;
}
struct LaunchBuilder;

/// One kernel in as many languages as the caller likes: a device takes what it understands, an image before a source where it is
/// given both and can use the image, and ignores the rest. What the spans point to is needed during `compile` only.
struct KernelSource {
    std::string cuda{};    ///< CUDA C++, compiled by NVRTC, which is opened at run time; no include path is set
    std::string opencl{};  ///< OpenCL C
    std::span<const std::byte> cuda_image{};  ///< PTX, a cubin or a fat binary
    std::span<const std::byte> spirv{};       ///< SPIR-V, for OpenCL devices that take it
    HostFunction host{};                        ///< a function, for the host backend: `host_kernel(...)`
    std::string file_name{};                  ///< what compilers' messages call the source; empty: the kernel's name
};

/// How to compile. The lists of words go to the compiler as they stand, behind what the fields above them make.
struct CompileOptions {
    std::vector<std::string> defines{};  ///< "NAME" or "NAME=VALUE", for both languages
    /// NVRTC's --use_fast_math; OpenCL's -cl-fast-relaxed-math. Results may differ in the last bits, and for special values more.
    bool fast_math = false;
    std::vector<std::string> cuda{};    ///< for NVRTC: "--std=c++20", "-I/usr/local/cuda/include"
    std::vector<std::string> opencl{};  ///< for clBuildProgram: "-cl-std=CL2.0"
};

/// What the driver tells about a parameter of a kernel; what it does not tell is unknown, 0 or empty.
struct ParameterInfo {
    enum class Kind : std::uint8_t { unknown, memory, value, local };
    Kind kind = Kind::unknown;
    std::size_t size_bytes = 0;  ///< of a value; of a pointer on the device
    std::string type{};          ///< as the source has it
    std::string name{};
};

/// What is known of a kernel.
struct KernelInfo {
    std::string name{};
    std::uint32_t max_group_items = 1;  ///< the most that one group may have
    std::uint32_t group_items = 1;      ///< of a one-dimensional group where the caller leaves it open; 0: the driver's choice
    std::uint32_t group_multiple = 1;   ///< groups of a multiple of it leave no lane idle
    std::uint64_t max_local_bytes = 0;  ///< the most that `local` arguments may have together
    bool has_local_parameters = false;  ///< `local` arguments count as parameters (OpenCL); on CUDA they do not
    bool is_from_cache = false;         ///< it was compiled by an earlier run, or an earlier call
    std::array<std::uint64_t, 3> max_groups{UINT64_MAX, UINT64_MAX, UINT64_MAX};  ///< in each dimension
    std::optional<std::vector<ParameterInfo>> parameters{};                       ///< empty: the driver does not tell
};

/// A kernel of one device. A handle: copies refer to the same one, which goes with the last of them and of the work that uses it.
/// Thread safe. One that was moved from, or made by default, is none: launching it throws invalid_argument.
class Kernel {
public:
    Kernel() = default;

    [[nodiscard]] const KernelInfo& info() const;
    [[nodiscard]] const Device& device() const { return device_; }

    /// For core/ alone.
    Kernel(const Device& device, std::shared_ptr<driver::Kernel> native) : device_(device), native_(std::move(native)) {}
    [[nodiscard]] const std::shared_ptr<driver::Kernel>& native() const noexcept { return native_; }

private:
    Device device_{nullptr};
    std::shared_ptr<driver::Kernel> native_;
};

}  // namespace tandem
