#pragma once
// NVRTC, CUDA's run-time compiler: libnvrtc.so, opened at run time.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/shared_library.hpp"

namespace tandem::cuda {

/// What a source became.
struct CompiledSource {
    std::string kernel_name;       ///< as the image has it: mangled, unless it is extern "C"
    std::vector<std::byte> image;  ///< a cubin, or PTX where the compiler is older than the device
};

/// Thread safe. Lives until the process ends.
class Compiler {
public:
    /// Opens the library on the first call, of the driver's version before others. Throws unavailable with the names that were
    /// looked for.
    static const Compiler& get(int driver_version);

    /// "13.0", and the name of the library.
    [[nodiscard]] const std::string& version() const noexcept { return version_; }

    /// Compiles for the compute capability `10 * major + minor`. Throws build_failed with the log, in which lines are those of
    /// `source`; invalid_argument where that has no kernel called `name`, or for options that it does not take.
    /// Native calls: nvrtcCreateProgram, nvrtcAddNameExpression, nvrtcCompileProgram, nvrtcGetCUBIN, nvrtcGetPTX,
    /// nvrtcGetLoweredName.
    [[nodiscard]] CompiledSource compile(std::string_view where, const std::string& source, const std::string& file_name,
                                         const std::string& name, const std::vector<std::string>& options,
                                         int compute_capability) const;

private:
    // nvrtc.h is not part of what the build needs of the toolkit. These are its declarations, with its enumerations as int.
    using Program = struct NvrtcProgram*;
    struct ProgramHandle;

    explicit Compiler(const char* library);
    // Empty where it failed; then the log tells why.
    [[nodiscard]] bool try_compile(Program program, const std::vector<std::string>& options, std::string& log, int& result) const;
    [[nodiscard]] std::string architecture_option(int compute_capability, bool& is_exact) const;
    void check(int result, std::string_view where, const char* call) const;

    SharedLibrary library_;
    std::string version_;
    std::vector<int> architectures_;  // those that it compiles for; empty where it does not tell

    // NOLINTBEGIN(readability-identifier-naming): the library's own names
    int (*nvrtcVersion_)(int*, int*);
    const char* (*nvrtcGetErrorString_)(int);
    int (*nvrtcCreateProgram_)(Program*, const char*, const char*, int, const char* const*, const char* const*);
    int (*nvrtcDestroyProgram_)(Program*);
    int (*nvrtcCompileProgram_)(Program, int, const char* const*);
    int (*nvrtcGetProgramLogSize_)(Program, std::size_t*);
    int (*nvrtcGetProgramLog_)(Program, char*);
    int (*nvrtcGetPTXSize_)(Program, std::size_t*);
    int (*nvrtcGetPTX_)(Program, char*);
    int (*nvrtcAddNameExpression_)(Program, const char*);
    int (*nvrtcGetLoweredName_)(Program, const char*, const char**);
    int (*nvrtcGetCUBINSize_)(Program, std::size_t*);  // these from 11.1 and 11.2 on
    int (*nvrtcGetCUBIN_)(Program, char*);
    int (*nvrtcGetNumSupportedArchs_)(int*);
    int (*nvrtcGetSupportedArchs_)(int*);
    // NOLINTEND(readability-identifier-naming)
};

}  // namespace tandem::cuda
