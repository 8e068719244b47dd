#include "backends/opencl/program.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/opencl/device.hpp"
#include "backends/opencl/memory.hpp"
#include "core/at_exit.hpp"
#include "tandem/error.hpp"

namespace tandem::opencl {
namespace {

using Kind = ParameterInfo::Kind;

// A GPU's group where the caller leaves it open and the items divide by it: large enough to hide latency on any.
constexpr std::uint32_t gpu_group_items = 256;

// OpenCL C's types by their names: scalars, and vectors of them. 0 for what is not among them, a caller's struct for one.
std::size_t bytes_of_type(std::string_view type) noexcept {
    static constexpr std::pair<std::string_view, std::size_t> scalars[] = {
        {"char", 1}, {"uchar", 1}, {"short", 2}, {"ushort", 2}, {"half", 2},   {"int", 4},
        {"uint", 4}, {"float", 4}, {"long", 8},  {"ulong", 8},  {"double", 8},
    };
    static constexpr std::pair<std::string_view, std::size_t> widths[] = {{"", 1},  {"2", 2}, {"3", 4},
                                                                          {"4", 4}, {"8", 8}, {"16", 16}};
    if (type == "unsigned char") type = "uchar";
    if (type == "unsigned short") type = "ushort";
    if (type == "unsigned int" || type == "unsigned") type = "uint";
    if (type == "unsigned long") type = "ulong";
    for (const auto& [name, bytes] : scalars) {
        if (!type.starts_with(name)) continue;
        for (const auto& [width, count] : widths) {
            if (type.substr(name.size()) == width) return bytes * count;
        }
    }
    return 0;
}

std::string argument_text(cl_kernel kernel, cl_uint index, cl_kernel_arg_info what) {
    std::size_t size = 0;
    if (api().clGetKernelArgInfo(kernel, index, what, 0, nullptr, &size) != CL_SUCCESS || size == 0) return {};
    std::string text(size, '\0');
    if (api().clGetKernelArgInfo(kernel, index, what, size, text.data(), nullptr) != CL_SUCCESS) return {};
    text.resize(std::min(text.find('\0'), text.size()));
    return text;
}

ParameterInfo describe_parameter(cl_kernel kernel, cl_uint index) {
    ParameterInfo parameter;
    cl_kernel_arg_address_qualifier space = 0;
    if (api().clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof space, &space, nullptr) != CL_SUCCESS)
        return parameter;  // a program from a binary may know nothing of them
    parameter.type = argument_text(kernel, index, CL_KERNEL_ARG_TYPE_NAME);
    parameter.name = argument_text(kernel, index, CL_KERNEL_ARG_NAME);
    switch (space) {
        case CL_KERNEL_ARG_ADDRESS_GLOBAL:
        case CL_KERNEL_ARG_ADDRESS_CONSTANT:
            parameter.kind = Kind::memory;
            parameter.size_bytes = sizeof(cl_mem);
            break;
        case CL_KERNEL_ARG_ADDRESS_LOCAL:
            parameter.kind = Kind::local;
            break;
        case CL_KERNEL_ARG_ADDRESS_PRIVATE:
            parameter.kind = Kind::value;
            parameter.size_bytes = bytes_of_type(parameter.type);
            break;
        default:
            break;
    }
    return parameter;
}

// Whether the parameter takes an object that launches have no argument for. Drivers take whatever bytes stand in its place for
// one. Images, whatever a typedef calls them, are what has an access qualifier; pipes have it too.
bool is_object(cl_kernel kernel, cl_uint index, std::string_view type) {
    cl_kernel_arg_access_qualifier access = CL_KERNEL_ARG_ACCESS_NONE;
    if (api().clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_ACCESS_QUALIFIER, sizeof access, &access, nullptr) == CL_SUCCESS &&
        access != CL_KERNEL_ARG_ACCESS_NONE)
        return true;
    cl_kernel_arg_type_qualifier qualifiers = 0;
    if (api().clGetKernelArgInfo(kernel, index, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof qualifiers, &qualifiers, nullptr) ==
            CL_SUCCESS &&
        (qualifiers & CL_KERNEL_ARG_TYPE_PIPE) != 0)
        return true;
    return type == "sampler_t" || type == "queue_t" || (type.starts_with("image") && type.ends_with("_t"));
}

template <class T>
T of_group(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what, T otherwise) {
    T value{};
    return api().clGetKernelWorkGroupInfo(kernel, device, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : otherwise;
}

KernelInfo describe(const Device& device, cl_kernel kernel, const std::string& name) {
    KernelInfo info;
    info.name = name;
    info.max_group_items = static_cast<std::uint32_t>(
        std::min<std::size_t>(of_group<std::size_t>(kernel, device.native(), CL_KERNEL_WORK_GROUP_SIZE, 1), UINT32_MAX));
    info.group_multiple = static_cast<std::uint32_t>(std::min<std::size_t>(
        of_group<std::size_t>(kernel, device.native(), CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, 1), info.max_group_items));
    info.group_items = device.info().type == DeviceType::cpu ? 0 : std::min(gpu_group_items, info.max_group_items);
    cl_ulong local_bytes = 0;
    api().clGetDeviceInfo(device.native(), CL_DEVICE_LOCAL_MEM_SIZE, sizeof local_bytes, &local_bytes, nullptr);
    const auto taken = of_group<cl_ulong>(kernel, device.native(), CL_KERNEL_LOCAL_MEM_SIZE, 0);
    if (taken > local_bytes)  // which drivers may find out in the middle of the launch
        throw Error(ErrorCode::unsupported, fmt::format("{}: compile of {}: it needs {} bytes of local memory, the device has {}",
                                                        device.spec(), name, taken, local_bytes));
    info.max_local_bytes = local_bytes - taken;
    info.has_local_parameters = true;
    std::array<std::size_t, 3> required{};
    if (api().clGetKernelWorkGroupInfo(kernel, device.native(), CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof required,
                                       required.data(), nullptr) == CL_SUCCESS)
        std::transform(required.begin(), required.end(), info.required_group.begin(),
                       [](std::size_t items) { return static_cast<std::uint32_t>(items); });
    cl_uint count = 0;
    if (api().clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, nullptr) == CL_SUCCESS) {
        info.parameters.emplace();
        for (cl_uint i = 0; i < count; ++i) {
            const ParameterInfo& parameter = info.parameters->emplace_back(describe_parameter(kernel, i));
            if (is_object(kernel, i, parameter.type))
                throw Error(
                    ErrorCode::unsupported,
                    fmt::format("{}: compile of {}: its parameter `{}` is an {}: kernels take arrays, buffers, values and "
                                "local memory",
                                device.spec(), name, parameter.name, parameter.type));
        }
    }
    return info;
}

}  // namespace

std::shared_ptr<Program> Program::compile(std::shared_ptr<Device> device, const driver::CompileRequest& request) {
    if (request.spirv.empty() && request.opencl_source.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: compile of {}: there is neither OpenCL C nor SPIR-V for it", device->spec(), request.name));
    }
    Programs::Recipe recipe{request.name, std::string(request.opencl_source), "-cl-kernel-arg-info", {}};
    for (const std::string& option : request.opencl_options)
        recipe.options += ' ' + option;
    bool is_from_cache = false;
    ProgramHandle program;
    if (!request.spirv.empty()) {
        Programs::Recipe image = recipe;
        image.source.clear();
        image.spirv = request.spirv;
        try {
            program = device->programs().build(image, &is_from_cache);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::unsupported || recipe.source.empty()) throw;
        }
    }
    if (program.get() == nullptr) program = device->programs().build(recipe, &is_from_cache);
    finish_work_at_exit();  // a compiler sets up what goes at exit when it is first used

    cl_int status = CL_SUCCESS;
    KernelHandle kernel(api().clCreateKernel(program.get(), request.name.c_str(), &status));
    if (status == CL_INVALID_KERNEL_NAME) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: compile of {}: the program has no kernel of that name", device->spec(), request.name),
                    status);
    }
    check(status, Stage::setup, device->spec(), "clCreateKernel of {}", request.name);
    KernelInfo info = describe(*device, kernel.get(), request.name);
    info.is_from_cache = is_from_cache;
    return std::make_shared<Program>(std::move(device), std::move(kernel), std::move(info));
}

Program::Program(std::shared_ptr<Device> device, KernelHandle kernel, KernelInfo info)
    : driver::Kernel(std::move(info)), device_(std::move(device)), kernel_(std::move(kernel)) {}

bool Program::lay_out(const driver::Launch& launch, std::size_t* items, std::size_t* group) const noexcept {
    const auto dimensions = static_cast<std::size_t>(launch.dimensions);
    for (std::size_t d = 0; d < dimensions; ++d) {
        const bool is_given = launch.group[0] != 0;
        group[d] = is_given ? launch.group[d] : 1;
        items[d] = is_given ? (launch.items[d] + group[d] - 1) / group[d] * group[d] : launch.items[d];
    }
    if (launch.group[0] != 0) return true;
    const std::uint32_t wanted = info().group_items;
    if (wanted == 0) return false;
    // Exactly the items that were asked for: a group that divides them, or none that is named.
    std::size_t left = wanted;
    for (std::size_t d = 0; d < dimensions; ++d) {
        group[d] = std::size_t{1};
        while (group[d] * 2 <= left && items[d] % (group[d] * 2) == 0)
            group[d] *= 2;
        left /= group[d];
    }
    return wanted / left >= info().group_multiple;
}

void Program::launch(cl_command_queue queue, const driver::Launch& launch) {
    std::array<std::size_t, 3> items{};
    std::array<std::size_t, 3> group{};
    const bool has_group = lay_out(launch, items.data(), group.data());
    const std::lock_guard lock(mutex_);
    if (bound_.size() < launch.arguments.size()) bound_.resize(launch.arguments.size());
    cl_uint index = 0;
    for (const driver::KernelArgument& argument : launch.arguments)
        set(index++, argument);
    const cl_int status = api().clEnqueueNDRangeKernel(queue, kernel_.get(), static_cast<cl_uint>(launch.dimensions), nullptr,
                                                       items.data(), has_group ? group.data() : nullptr, 0, nullptr, nullptr);
    if (status == CL_SUCCESS) [[likely]]
        return;
    const std::string what = fmt::format("clEnqueueNDRangeKernel of {}, ({}) items in groups of ({})", info().name,
                                         fmt::join(items.begin(), items.begin() + launch.dimensions, ", "),
                                         fmt::join(group.begin(), group.begin() + launch.dimensions, ", "));
    if (status == CL_INVALID_KERNEL_ARGS || status == CL_INVALID_WORK_GROUP_SIZE || status == CL_INVALID_WORK_ITEM_SIZE ||
        status == CL_INVALID_GLOBAL_WORK_SIZE) {
        throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}: {}", device_->spec(), what, error_name(status)), status);
    }
    fail(status, Stage::submission, device_->spec(), what);
}

void Program::set(cl_uint index, const driver::KernelArgument& argument) {
    using ArgumentKind = driver::KernelArgument::Kind;
    switch (argument.kind) {
        case ArgumentKind::memory:
        case ArgumentKind::base:
            return set_buffer(index, argument);
        case ArgumentKind::offset: {
            cl_ulong offset = 0;
            if (argument.memory != nullptr)
                offset = static_cast<const Memory*>(argument.memory)->place(argument.offset_bytes).offset_bytes;
            return set_value(index, &offset, sizeof offset);
        }
        case ArgumentKind::value:
            return set_value(index, argument.value, argument.size_bytes);
        case ArgumentKind::local:
            return set_value(index, nullptr, argument.size_bytes);
    }
}

void Program::set_buffer(cl_uint index, const driver::KernelArgument& argument) {
    Memory::Start start{nullptr, 0};
    if (argument.memory != nullptr) {
        const auto& memory = *static_cast<const Memory*>(argument.memory);
        const Memory::Place at = memory.place(argument.offset_bytes);
        start = argument.kind == driver::KernelArgument::Kind::base ? Memory::Start{at.window, at.id} : memory.start_at(at);
        if (start.buffer == nullptr) {
            const std::size_t alignment = device_->base_alignment();
            throw Error(
                ErrorCode::invalid_argument,
                fmt::format("{}: launch of {}: argument {} starts at byte {} of its allocation, {}: pass its base and its "
                            "offset",
                            device_->spec(), info().name, index, at.offset_bytes,
                            alignment == 0 ? std::string("into which this driver takes no pointers")
                                           : fmt::format("which is no multiple of {}, the base address alignment", alignment)));
        }
    }
    Bound& bound = bound_[index];
    if (start.id != 0 && bound.id == start.id) return;
    bound = Bound();
    const cl_int status = api().clSetKernelArg(kernel_.get(), index, sizeof(cl_mem), &start.buffer);
    if (status == CL_INVALID_ARG_SIZE || status == CL_INVALID_ARG_VALUE || status == CL_INVALID_ARG_INDEX) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: launch of {}: argument {} is an array: clSetKernelArg: {}", device_->spec(), info().name,
                                index, error_name(status)),
                    status);
    }
    check(status, Stage::submission, device_->spec(), "clSetKernelArg of {}", info().name);
    bound.id = start.id;
}

void Program::set_value(cl_uint index, const void* value, std::size_t size_bytes) {
    Bound& bound = bound_[index];
    const bool fits = value != nullptr && size_bytes <= bound.value.size();
    if (fits && bound.size_bytes == size_bytes && std::memcmp(bound.value.data(), value, size_bytes) == 0) return;
    bound = Bound();
    const cl_int status = api().clSetKernelArg(kernel_.get(), index, size_bytes, value);
    if (status == CL_INVALID_ARG_SIZE || status == CL_INVALID_ARG_VALUE || status == CL_INVALID_ARG_INDEX ||
        status == CL_INVALID_MEM_OBJECT) {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("{}: launch of {}: argument {} is {} of {} bytes: clSetKernelArg: {}", device_->spec(), info().name,
                        index, value != nullptr ? "a value" : "local memory", size_bytes, error_name(status)),
            status);
    }
    check(status, Stage::submission, device_->spec(), "clSetKernelArg of {}", info().name);
    if (!fits) return;
    bound.size_bytes = size_bytes;
    std::memcpy(bound.value.data(), value, size_bytes);
}

}  // namespace tandem::opencl
