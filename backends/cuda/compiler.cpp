#include "backends/cuda/compiler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "tandem/error.hpp"

namespace tandem::cuda {
namespace {

// nvrtcResult
constexpr int nvrtc_success = 0;
constexpr int nvrtc_invalid_option = 5;
constexpr int nvrtc_compilation = 6;

// Newer ones first, after the driver's own: a driver loads what compilers of its version and older ones make.
constexpr int versions[] = {13, 12, 11};

std::string library_name(int major) {
    return major == 11 ? "libnvrtc.so.11.2" : fmt::format("libnvrtc.so.{}", major);
}

}  // namespace

struct Compiler::ProgramHandle {
    const Compiler& compiler;
    Program program = nullptr;

    explicit ProgramHandle(const Compiler& owner) : compiler(owner) {}
    ProgramHandle(const ProgramHandle&) = delete;
    ProgramHandle& operator=(const ProgramHandle&) = delete;
    ~ProgramHandle() {
        if (program != nullptr) compiler.nvrtcDestroyProgram_(&program);
    }
};

Compiler::Compiler(const char* library)
    : library_(library)
#define TANDEM_X(name) , name##_(library_.get<decltype(name##_)>(#name))
          TANDEM_X(nvrtcVersion) TANDEM_X(nvrtcGetErrorString) TANDEM_X(nvrtcCreateProgram) TANDEM_X(nvrtcDestroyProgram)
              TANDEM_X(nvrtcCompileProgram) TANDEM_X(nvrtcGetProgramLogSize) TANDEM_X(nvrtcGetProgramLog)
                  TANDEM_X(nvrtcGetPTXSize) TANDEM_X(nvrtcGetPTX) TANDEM_X(nvrtcAddNameExpression) TANDEM_X(nvrtcGetLoweredName)
#undef TANDEM_X
#define TANDEM_X(name) , name##_(library_.find<decltype(name##_)>(#name))
                      TANDEM_X(nvrtcGetCUBINSize) TANDEM_X(nvrtcGetCUBIN) TANDEM_X(nvrtcGetNumSupportedArchs)
                          TANDEM_X(nvrtcGetSupportedArchs)
#undef TANDEM_X
{
    int major = 0, minor = 0;
    nvrtcVersion_(&major, &minor);
    version_ = fmt::format("{}.{} {}", major, minor, library);
    int count = 0;
    if (nvrtcGetNumSupportedArchs_ == nullptr || nvrtcGetSupportedArchs_ == nullptr ||
        nvrtcGetNumSupportedArchs_(&count) != nvrtc_success || count <= 0) {
        return;
    }
    architectures_.resize(static_cast<std::size_t>(count));
    if (nvrtcGetSupportedArchs_(architectures_.data()) != nvrtc_success) architectures_.clear();
}

const Compiler& Compiler::get(int driver_version) {
    // Never destroyed, as the driver's function table is not. A failed attempt is repeated by the next call.
    static std::mutex mutex;
    static const Compiler* compiler = nullptr;
    const std::lock_guard lock(mutex);
    if (compiler != nullptr) return *compiler;
    std::vector<std::string> names;
    const int driver_major = driver_version / 1000;
    for (const bool is_newer : {false, true}) {
        for (const int major : versions) {
            if ((major > driver_major) == is_newer) names.push_back(library_name(major));
        }
    }
    names.emplace_back("libnvrtc.so");
    // Where the toolkit is installed without telling the loader.
    names.emplace_back("/usr/local/cuda/lib64/libnvrtc.so");
    std::string reasons;
    for (const std::string& name : names) {
        try {
            compiler = new Compiler(name.c_str());
            return *compiler;
        } catch (const Error& error) {
            reasons += fmt::format("{}{}", reasons.empty() ? "" : ", ", error.what());
        }
    }
    throw Error(ErrorCode::unavailable, fmt::format("NVRTC, which compiles CUDA C++: {}", reasons));
}

void Compiler::check(int result, std::string_view where, const char* call) const {
    if (result == nvrtc_success) return;
    throw Error(ErrorCode::internal, fmt::format("{}: {}: {}", where, call, nvrtcGetErrorString_(result)), result);
}

std::string Compiler::architecture_option(int compute_capability, bool& is_exact) const {
    is_exact = nvrtcGetCUBIN_ != nullptr && nvrtcGetCUBINSize_ != nullptr &&
               (architectures_.empty() ||
                std::find(architectures_.begin(), architectures_.end(), compute_capability) != architectures_.end());
    if (is_exact) return fmt::format("--gpu-architecture=sm_{}", compute_capability);
    int best = 0;  // the newest that is not newer than the device, whose driver compiles it to the end
    for (const int architecture : architectures_) {
        if (architecture <= compute_capability) best = std::max(best, architecture);
    }
    return fmt::format("--gpu-architecture=compute_{}", best != 0 ? best : compute_capability);
}

bool Compiler::try_compile(Program program, const std::vector<std::string>& options, std::string& log, int& result) const {
    std::vector<const char*> words;
    words.reserve(options.size());
    for (const std::string& option : options)
        words.push_back(option.c_str());
    result = nvrtcCompileProgram_(program, static_cast<int>(words.size()), words.data());
    if (result == nvrtc_success) return true;
    std::size_t size = 0;
    if (nvrtcGetProgramLogSize_(program, &size) != nvrtc_success || size == 0) return false;
    log.resize(size);
    if (nvrtcGetProgramLog_(program, log.data()) != nvrtc_success) log.clear();
    log.resize(std::min(log.find('\0'), log.size()));
    return false;
}

CompiledSource Compiler::compile(std::string_view where, const std::string& source, const std::string& file_name,
                                 const std::string& name, const std::vector<std::string>& options, int compute_capability) const {
    bool is_exact = false;
    std::vector<std::string> words{architecture_option(compute_capability, is_exact)};
    words.insert(words.end(), options.begin(), options.end());
    const auto create = [&](ProgramHandle& handle) {
        check(nvrtcCreateProgram_(&handle.program, source.c_str(), file_name.c_str(), 0, nullptr, nullptr), where,
              "nvrtcCreateProgram");
    };
    ProgramHandle handle(*this);
    create(handle);
    const bool is_name = nvrtcAddNameExpression_(handle.program, name.c_str()) == nvrtc_success;
    std::string log;
    int result = nvrtc_success;
    if (!is_name || !try_compile(handle.program, words, log, result)) {
        if (result == nvrtc_invalid_option) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("{}: compile of {}: NVRTC {} does not take the options \"{}\": {}", where, name, version_,
                                    fmt::join(words, " "), log.substr(0, log.find('\n'))),
                        result);
        }
        // Asking for a name that is not there fails like a fault in the source; without the question only the latter does.
        ProgramHandle again(*this);
        create(again);
        std::string own_log;
        if (try_compile(again.program, words, own_log, result))
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("{}: compile of {}: the source has no kernel of that name", where, name), nvrtc_compilation);
        throw Error(ErrorCode::build_failed,
                    fmt::format("{}: nvrtcCompileProgram of {}: {}\n{}", where, name, nvrtcGetErrorString_(result), own_log),
                    result);
    }
    const char* lowered = nullptr;
    check(nvrtcGetLoweredName_(handle.program, name.c_str(), &lowered), where, "nvrtcGetLoweredName");
    CompiledSource compiled;
    compiled.kernel_name = lowered;
    std::size_t size = 0;
    check(is_exact ? nvrtcGetCUBINSize_(handle.program, &size) : nvrtcGetPTXSize_(handle.program, &size), where,
          "nvrtcGetCUBINSize");
    compiled.image.resize(size);
    auto* bytes = reinterpret_cast<char*>(compiled.image.data());
    check(is_exact ? nvrtcGetCUBIN_(handle.program, bytes) : nvrtcGetPTX_(handle.program, bytes), where, "nvrtcGetCUBIN");
    return compiled;
}

}  // namespace tandem::cuda
