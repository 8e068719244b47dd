#pragma once
// Callers' own kernels: compiled for a device, and launched on a queue.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/array.hpp>
#include <tandem/buffer.hpp>
#include <tandem/host_function.hpp>

namespace tandem {

namespace driver {
class Kernel;
}

/// One kernel in as many languages as the caller likes: a device takes what it understands, an image before a source where it is
/// given both and can use the image, and ignores the rest. What the spans point to is needed during `compile` only.
struct KernelSource {
    std::string cuda{};    ///< CUDA C++, compiled by NVRTC, which is opened at run time; no include path is set
    std::string opencl{};  ///< OpenCL C
    std::span<const std::byte> cuda_image{};  ///< PTX, a cubin or a fat binary
    std::span<const std::byte> spirv{};       ///< SPIR-V, for OpenCL devices that take it
    HostFunction host{};                      ///< a function, for the host backend: `host_kernel(...)`
    std::string file_name{};                  ///< what compilers' messages call the source; empty: the kernel's name
};

/// How to compile. The lists of words go to the compiler as they stand, behind what the fields above them make.
struct CompileOptions {
    std::vector<std::string> defines{};  ///< "NAME" or "NAME=VALUE" without spaces, for both languages
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
    /// The one size that its groups may have (reqd_work_group_size), which they then have where the caller leaves it open, too;
    /// zeros: none is set, or the driver does not tell.
    std::array<std::uint32_t, 3> required_group{};
    std::uint64_t max_local_bytes = 0;  ///< the most that `local` arguments may have together
    bool has_local_parameters = false;  ///< `local` arguments count as parameters (OpenCL); on CUDA they do not
    bool is_from_cache = false;         ///< it was compiled by an earlier run, or an earlier call
    std::optional<std::vector<ParameterInfo>> parameters{};  ///< empty: the driver does not tell
};

/// A kernel of one device. A handle: copies refer to the same one, which goes with the last of them and of the work that uses it.
/// Thread safe. One that was moved from, or made by default, is none: launching it throws invalid_argument.
class Kernel {
public:
    Kernel() = default;

    [[nodiscard]] const KernelInfo& info() const;
    [[nodiscard]] const Device& device() const { return device_; }

    /// For core/ alone.
    Kernel(Device device, std::shared_ptr<driver::Kernel> native) noexcept
        : device_(std::move(device)), native_(std::move(native)) {}
    [[nodiscard]] const std::shared_ptr<driver::Kernel>& native() const noexcept { return native_; }

private:
    Device device_{nullptr};
    std::shared_ptr<driver::Kernel> native_;
};

/// How many items a launch has, or a group of them: one to three dimensions, x first, which runs fastest.
class Items {
public:
    /// None: for a group, the device's choice.
    Items() = default;
    template <std::integral X>
    Items(X x) : dimensions_(1), counts_{to_count(x), 1, 1} {}  // NOLINT(google-explicit-constructor): a plain number at a call
    template <std::integral X, std::integral Y>
    Items(X x, Y y) : dimensions_(2), counts_{to_count(x), to_count(y), 1} {}
    template <std::integral X, std::integral Y, std::integral Z>
    Items(X x, Y y, Z z) : dimensions_(3), counts_{to_count(x), to_count(y), to_count(z)} {}

    [[nodiscard]] int dimensions() const noexcept { return dimensions_; }
    /// In each dimension, 1 in those that there are not; negative as it was given.
    [[nodiscard]] const std::array<std::int64_t, 3>& counts() const noexcept { return counts_; }

private:
    template <std::integral T>
    static constexpr std::int64_t to_count(T value) noexcept {
        return static_cast<std::int64_t>(value);
    }

    int dimensions_ = 0;
    std::array<std::int64_t, 3> counts_{0, 0, 0};
};

/// How to launch.
struct LaunchOptions {
    /// Items of a group (CUDA: threads of a block), in as many dimensions as the items. Where it is left open it is what the
    /// kernel requires, else the device chooses, by occupancy on CUDA.
    Items group{};
};

/// One argument of a launch, made by the functions below. Holds the array's memory, or the value; may be kept.
class Argument {
public:
    /// Passes the start of the allocation that the array lies in, where the array itself may not be what a driver can point to:
    /// OpenCL's buffers start at multiples of the device's base address alignment. `offset(array)` tells the kernel the rest.
    [[nodiscard]] Argument base() const;

    static constexpr std::size_t max_value_bytes = 256;

    /// For core/ alone.
    enum class Kind : std::uint8_t { memory, base, offset, value, local };
    Argument(const Array& array, Access access, Kind kind);
    Argument(const Buffer& buffer, Access access, Kind kind);
    Argument(const void* value, std::size_t size_bytes) noexcept : kind_(Kind::value), size_bytes_(size_bytes) {
        std::memcpy(value_.data(), value, size_bytes);
    }
    explicit Argument(std::size_t local_bytes) noexcept : kind_(Kind::local), size_bytes_(local_bytes) {}
    friend class Launcher;

private:
    Kind kind_;
    Access access_ = Access::read;
    std::size_t size_bytes_ = 0;                // of a value or local memory; of the bytes from the first to the last element
    std::size_t offset_bytes_ = 0;              // of the first element
    std::size_t first_byte_ = 0;                // the lowest that belongs to the array: another one where strides are negative
    const DeviceState* device_ = nullptr;       // of the memory, which holds it
    std::shared_ptr<driver::Memory> memory_{};  // null: an array without elements
    alignas(16) std::array<std::byte, max_value_bytes> value_;  // no more is written than is there
};

/// An array or a buffer that the kernel reads, writes, or both. The kernel gets a pointer to its first element; its shape and
/// strides are for the caller to pass on as values. What is declared is what the library goes by: read-only memory may be read
/// only, a part that is mapped for the host may not be worked on unless both only read.
inline Argument read(const Array& array) {
    return {array, Access::read, Argument::Kind::memory};
}
inline Argument write(const Array& array) {
    return {array, Access::write, Argument::Kind::memory};
}
inline Argument read_write(const Array& array) {
    return {array, Access::read_write, Argument::Kind::memory};
}
inline Argument read(const Buffer& buffer) {
    return {buffer, Access::read, Argument::Kind::memory};
}
inline Argument write(const Buffer& buffer) {
    return {buffer, Access::write, Argument::Kind::memory};
}
inline Argument read_write(const Buffer& buffer) {
    return {buffer, Access::read_write, Argument::Kind::memory};
}
/// How many bytes the array's first element lies behind its `base()`, as an unsigned 64-bit integer.
inline Argument offset(const Array& array) {
    return {array, Access::read, Argument::Kind::offset};
}
/// A value, copied here: any type without pointers of its own that is laid out as the kernel's parameter is. What is larger than
/// `max_value_bytes` goes into a buffer.
template <class T>
Argument value(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>, "a kernel's parameters are plain bytes");
    static_assert(sizeof(T) <= Argument::max_value_bytes, "too large for an argument: put it into a buffer");
    return {&value, sizeof value};
}
/// Memory that the items of a group share: a __local pointer parameter on OpenCL. On CUDA a part of the one region of dynamic
/// shared memory (`extern __shared__`), each part behind the other at the next multiple of 16 bytes, and no parameter. Nothing on
/// the host.
inline Argument local(std::size_t size_bytes) {
    return Argument(size_bytes);
}

}  // namespace tandem
