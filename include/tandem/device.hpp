#pragma once
// Backends and devices: what there is, and how to open it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

struct DeviceState;
class Kernel;
struct KernelSource;
struct CompileOptions;

enum class DeviceType : std::uint8_t { gpu, accelerator, cpu };

/// "gpu", "accelerator" or "cpu".
std::string_view to_string(DeviceType type) noexcept;

/// What is known of a device without opening it.
struct DeviceInfo {
    std::string spec;     ///< what `open_device` takes: "cuda:0", "opencl:1", "host:0"
    std::string backend;  ///< "cuda", "opencl" or "host"
    int index = 0;        ///< within its backend
    DeviceType type = DeviceType::cpu;
    std::string name;      ///< as the driver tells it
    std::string platform;  ///< OpenCL's platform, "NVIDIA CUDA" or the host's architecture
    std::string driver;    ///< version of driver and interface
    std::string uuid;      ///< 32 hexadecimal digits where the driver tells it, else empty

    std::uint64_t memory_bytes = 0;      ///< all of the device's memory
    std::uint64_t max_window_bytes = 0;  ///< the largest single allocation; larger buffers consist of several, inside the library
    unsigned compute_units = 0;          ///< multiprocessors, OpenCL compute units, or threads
    int numa_node = -1;  ///< the host's memory and processors that are nearest to it; -1 where the driver does not tell

    bool has_float64 = true;          ///< without it, operations on float64 and complex128 are `unsupported`
    bool shares_host_memory = false;  ///< device memory is host memory: mapping moves no bytes
};

/// One backend, present or not.
struct BackendInfo {
    std::string name;
    std::vector<DeviceInfo> devices;  ///< empty where the backend can't be used
    std::string reason;               ///< then why, in a few words; else empty
};

/// Every backend that tandem knows, in order of preference, each with its devices or the reason why it has none.
/// Never throws for what a machine lacks. The first call loads the vendors' libraries.
/// Native calls: cuInit, cuDeviceGet...; clGetPlatformIDs, clGetDeviceIDs.
std::vector<BackendInfo> list_backends();

/// One device of one backend, open. A handle: copies refer to the same device, which closes with the last of them and of the
/// buffers and queues made on it. Opening a device twice gives the same one.
///
/// Thread safe. One that was moved from is no device: what needs one throws invalid_argument.
class Device {
public:
    /// Without a spec and a name where the device was moved from.
    [[nodiscard]] const DeviceInfo& info() const noexcept;
    /// Short for `info().spec`.
    [[nodiscard]] const std::string& spec() const noexcept { return info().spec; }

    /// Compiles a kernel of the caller's for this device, `name` being the kernel function: a __global__ function, also one of a
    /// namespace or a template ("scale<float>"), a __kernel, or what the image calls it. Compiled images are kept on disk between
    /// runs ($XDG_CACHE_HOME/tandem), by source, options, device, driver and compiler, and a damaged one is made anew. A
    /// source that includes files is compiled each time.
    ///
    /// Needs <tandem/kernel.hpp>. Waits for the compiler. Thread safe. Throws build_failed with the compiler's log, whose lines
    /// are those of the source; invalid_argument where the source holds nothing for this device, or no kernel of that name;
    /// unavailable where NVRTC is not there; unsupported for an image of another kind of device, and for a kernel that needs more
    /// local memory than there is, or takes an image, a sampler, a queue or a pipe. Native calls: nvrtcCompileProgram,
    /// cuModuleLoadData; clBuildProgram, clCreateKernel.
    [[nodiscard]] Kernel compile(const KernelSource& source, const std::string& name) const;
    [[nodiscard]] Kernel compile(const KernelSource& source, const std::string& name, const CompileOptions& options) const;

    friend bool operator==(const Device& left, const Device& right) noexcept { return left.state_ == right.state_; }

    /// For core/ alone.
    explicit Device(std::shared_ptr<DeviceState> state) noexcept : state_(std::move(state)) {}
    [[nodiscard]] const std::shared_ptr<DeviceState>& state() const {
        if (state_ == nullptr) throw_moved_from();
        return state_;
    }

private:
    [[noreturn]] static void throw_moved_from();

    std::shared_ptr<DeviceState> state_;
};

/// Opens the device that `spec` names: a backend ("cuda" is its first device), a backend and an index ("opencl:1"), or a backend
/// and a part of a device's or platform's name in any case ("opencl:pocl"). An empty `spec` means the environment variable
/// TANDEM_DEVICE, and where that is empty too the best there is: CUDA, an OpenCL GPU, an OpenCL accelerator or CPU, this CPU.
///
/// Thread safe. Throws unavailable where the named device is not there, with the reason; nothing else is opened in its place.
/// invalid_argument for a backend that tandem does not know.
/// Native calls: cuDevicePrimaryCtxRetain (so memory is shared with others in the process that use the runtime API);
/// clCreateContext.
Device open_device(std::string_view spec = {});

}  // namespace tandem
