#include "backends/cuda/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "backends/cuda/compiler.hpp"
#include "backends/cuda/device.hpp"
#include "core/disk_cache.hpp"
#include "core/environment.hpp"
#include "tandem/error.hpp"

namespace tandem::cuda {
namespace {

// The most threads of a block where the caller leaves it open: as many as hide latency, and small enough that the last blocks
// do not idle.
constexpr int most_open_threads = 256;

struct Module {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
};

// Where it can't be used on this device, the result tells.
CUresult try_load(const Context& context, const void* image, const std::string& name, Module& loaded) {
    const Api& api = context.api();
    CUresult result = api.cuModuleLoadData(&loaded.module, image);
    if (result != CUDA_SUCCESS) return result;
    result = api.cuModuleGetFunction(&loaded.function, loaded.module, name.c_str());
    if (result == CUDA_SUCCESS) return result;
    api.cuModuleUnload(loaded.module);
    loaded.module = nullptr;
    return result;
}

[[noreturn]] void fail_to_load(const Device& device, const std::string& name, CUresult result) {
    if (result == CUDA_ERROR_NOT_FOUND) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: compile of {}: the image has no kernel of that name", device.info().spec, name),
                    static_cast<int>(result));
    }
    if (result == CUDA_ERROR_INVALID_IMAGE || result == CUDA_ERROR_INVALID_PTX) {
        throw Error(ErrorCode::build_failed,
                    fmt::format("{}: cuModuleLoadData of {}: {}", device.info().spec, name,
                                result == CUDA_ERROR_INVALID_PTX ? "CUDA_ERROR_INVALID_PTX" : "CUDA_ERROR_INVALID_IMAGE"),
                    static_cast<int>(result));
    }
    device.context().fail(result, fmt::format("cuModuleLoadData of {}", name));
}

// In the cache: the kernel's name in the image, a zero, the image.
std::vector<std::byte> packed(const CompiledSource& compiled) {
    const auto* name = reinterpret_cast<const std::byte*>(compiled.kernel_name.c_str());
    std::vector<std::byte> bytes(name, name + compiled.kernel_name.size() + 1);
    bytes.insert(bytes.end(), compiled.image.begin(), compiled.image.end());
    return bytes;
}

std::optional<CompiledSource> unpacked(const std::vector<std::byte>& bytes) {
    const auto end = std::find(bytes.begin(), bytes.end(), std::byte{0});
    if (end == bytes.end()) return std::nullopt;
    CompiledSource compiled;
    compiled.kernel_name.assign(reinterpret_cast<const char*>(bytes.data()));
    compiled.image.assign(end + 1, bytes.end());
    return compiled;
}

Module build(const Device& device, const driver::CompileRequest& request, bool& is_from_cache) {
    const Context& context = device.context();
    int driver_version = 0;
    context.check(context.api().cuDriverGetVersion(&driver_version), "cuDriverGetVersion");
    const Compiler& compiler = Compiler::get(driver_version);
    const std::string file_name = request.file_name.empty() ? request.name + ".cu" : request.file_name;
    std::string key = fmt::format("{}\n{}\n{}\nsm_{}\n{}\n{}\n", compiler.version(), driver_version, device.info().name,
                                  device.compute_capability(), request.name, file_name);
    for (const std::string& option : request.cuda_options)
        key += option + '\n';
    key += request.cuda_source;

    const auto base = environment::cache_directory();
    const bool is_kept =
        !reads_files(request.cuda_source) && std::none_of(request.cuda_options.begin(), request.cuda_options.end(),
                                                          [](const auto& option) { return reads_files(option); });
    const DiskCache cache(base.empty() || !is_kept ? std::filesystem::path() : base / "cuda");
    Module loaded;
    if (const auto bytes = cache.load(key)) {
        const auto cached = unpacked(*bytes);
        if (cached && try_load(context, cached->image.data(), cached->kernel_name, loaded) == CUDA_SUCCESS) {
            is_from_cache = true;
            return loaded;
        }
    }
    const CompiledSource compiled = compiler.compile(device.info().spec, std::string(request.cuda_source), file_name,
                                                     request.name, request.cuda_options, device.compute_capability());
    const CUresult result = try_load(context, compiled.image.data(), compiled.kernel_name, loaded);
    if (result != CUDA_SUCCESS) fail_to_load(device, request.name, result);
    cache.store(key, packed(compiled));
    return loaded;
}

int attribute(const Context& context, CUfunction function, CUfunction_attribute which) {
    int value = 0;
    context.check(context.api().cuFuncGetAttribute(&value, which, function), "cuFuncGetAttribute");
    return value;
}

KernelInfo describe(const Context& context, CUfunction function, const std::string& name) {
    const Api& api = context.api();
    KernelInfo info;
    info.name = name;
    info.max_group_items = static_cast<std::uint32_t>(attribute(context, function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
    info.group_multiple = 32;
    int grid = 0, block = 0;
    context.check(api.cuOccupancyMaxPotentialBlockSize(&grid, &block, function, nullptr, 0, most_open_threads),
                  "cuOccupancyMaxPotentialBlockSize");
    info.group_items = std::clamp<std::uint32_t>(static_cast<std::uint32_t>(block), 1, info.max_group_items);
    // All of a multiprocessor's shared memory that a block may have; without asking for it, 48 KiB.
    int most = 0;
    context.check(api.cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, context.device()),
                  "cuDeviceGetAttribute");
    most -= attribute(context, function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    if (api.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most) != CUDA_SUCCESS)
        most = attribute(context, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    info.max_local_bytes = static_cast<std::uint64_t>(std::max(most, 0));
#if CUDA_VERSION >= 12040
    if (api.cuFuncGetParamInfo == nullptr) return info;
    std::vector<ParameterInfo> parameters;
    for (std::size_t offset = 0, size = 0;; parameters.push_back({ParameterInfo::Kind::unknown, size, {}, {}})) {
        const CUresult result = api.cuFuncGetParamInfo(function, parameters.size(), &offset, &size);
        if (result == CUDA_ERROR_INVALID_VALUE) break;  // behind the last
        if (result != CUDA_SUCCESS) return info;
    }
    info.parameters = std::move(parameters);
#endif
    return info;
}

struct Shape {
    std::array<unsigned, 3> grid{1, 1, 1};
    std::array<unsigned, 3> block{1, 1, 1};
};

}  // namespace

std::shared_ptr<Program> Program::compile(std::shared_ptr<Device> device, const driver::CompileRequest& request) {
    if (request.cuda_image.empty() && request.cuda_source.empty()) {
        throw Error(ErrorCode::invalid_argument, fmt::format("{}: compile of {}: there is neither CUDA C++ nor an image for it",
                                                             device->info().spec, request.name));
    }
    const Context& context = device->context();
    const Current current(context);
    Module loaded;
    bool is_from_cache = false;
    if (!request.cuda_image.empty()) {
        // PTX is text, which the driver reads up to a zero; other images tell their size, and take no harm.
        std::vector<std::byte> image(request.cuda_image.begin(), request.cuda_image.end());
        image.push_back(std::byte{0});
        const CUresult result = try_load(context, image.data(), request.name, loaded);
        const bool is_other_device = result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
        if (result != CUDA_SUCCESS && (!is_other_device || request.cuda_source.empty()))
            fail_to_load(*device, request.name, result);
    }
    if (loaded.module == nullptr) loaded = build(*device, request, is_from_cache);
    try {
        KernelInfo info = describe(context, loaded.function, request.name);
        info.is_from_cache = is_from_cache;
        return std::make_shared<Program>(std::move(device), loaded.module, loaded.function, std::move(info));
    } catch (...) {
        context.api().cuModuleUnload(loaded.module);
        throw;
    }
}

Program::Program(std::shared_ptr<Device> device, CUmodule module, CUfunction function, KernelInfo info)
    : driver::Kernel(std::move(info)), device_(std::move(device)), module_(module), function_(function) {}

Program::~Program() {
    const Current current(device_->context(), std::nothrow);
    if (current.is_ready()) device_->context().api().cuModuleUnload(module_);
}

void Program::launch(CUstream stream, const driver::Launch& launch) const {
    Shape shape;
    unsigned left = info().group_items;
    for (std::size_t d = 0; d < static_cast<std::size_t>(launch.dimensions); ++d) {
        // A warp along x, where neighbours are, before other dimensions get theirs; no wider than the items.
        const unsigned most = d == 0 && launch.dimensions > 1 ? std::min(left, 32U) : left;
        const auto needed = static_cast<unsigned>(std::bit_ceil(std::min<std::uint64_t>(launch.items[d], 1024)));
        shape.block[d] = launch.group[0] != 0 ? launch.group[d] : std::min({needed, std::bit_floor(most), d == 2 ? 64U : 1024U});
        left = std::max(left / shape.block[d], 1U);
        const std::uint64_t blocks = (launch.items[d] + shape.block[d] - 1) / shape.block[d];
        constexpr std::uint64_t most_blocks[] = {2147483647, 65535, 65535};
        if (blocks > most_blocks[d]) {
            throw Error(
                ErrorCode::invalid_argument,
                fmt::format("{}: launch of {}: {} items in blocks of {} are {} blocks in dimension {}, which may have {}",
                            device_->info().spec, info().name, launch.items[d], shape.block[d], blocks, d, most_blocks[d]));
        }
        shape.grid[d] = static_cast<unsigned>(blocks);
    }

    std::array<void*, driver::max_launch_arguments> parameters;   // NOLINT: filled as far as it is used
    std::array<std::uint64_t, driver::max_launch_arguments> own;  // NOLINT: likewise; addresses and offsets
    std::size_t count = 0, local_bytes = 0;
    for (const driver::KernelArgument& argument : launch.arguments) {
        using Kind = driver::KernelArgument::Kind;
        if (argument.kind == Kind::local) {
            local_bytes = (local_bytes + driver::local_alignment - 1) / driver::local_alignment * driver::local_alignment;
            local_bytes += argument.size_bytes;
            continue;
        }
        if (argument.kind == Kind::value) {
            parameters[count++] = const_cast<void*>(argument.value);  // the driver's signature; it only reads
            continue;
        }
        const bool has_bytes = argument.memory != nullptr;
        own[count] = has_bytes && argument.kind != Kind::offset ? argument.memory->address() : 0;
        if (has_bytes && argument.kind != Kind::base) own[count] += argument.offset_bytes;
        parameters[count] = &own[count];
        ++count;
    }
    const Context& context = device_->context();
    const CUresult result =
        context.api().cuLaunchKernel(function_, shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0], shape.block[1],
                                     shape.block[2], static_cast<unsigned>(local_bytes), stream, parameters.data(), nullptr);
    if (result == CUDA_SUCCESS) [[likely]]
        return;
    const std::string what = fmt::format("cuLaunchKernel of {}, ({}) blocks of ({}) threads", info().name,
                                         fmt::join(shape.grid, ", "), fmt::join(shape.block, ", "));
    if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("{}: {}: {}", device_->info().spec, what,
                        result == CUDA_ERROR_INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
            static_cast<int>(result));
    }
    context.fail(result, what);
}

Recording::Recording(std::shared_ptr<Device> device, CUgraph graph) : device_(std::move(device)) {
    const Context& context = device_->context();
    const CUresult result = context.api().cuGraphInstantiateWithFlags(&executable_, graph, 0);
    context.api().cuGraphDestroy(graph);
    context.check(result, "cuGraphInstantiate");
}

Recording::~Recording() {
    const Current current(device_->context(), std::nothrow);
    if (current.is_ready()) device_->context().api().cuGraphExecDestroy(executable_);
}

}  // namespace tandem::cuda
