#include "backends/opencl/kernel.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "backends/opencl/memory.hpp"
#include "core/at_exit.hpp"
#include "core/environment.hpp"
#include "kernels/embedded.hpp"
#include "tandem/error.hpp"

namespace tandem::opencl {
namespace {

// GPUs: one pack an item, so that neighbours' accesses coalesce and the scheduler hides the latency.
constexpr Tuning gpu_tuning{.is_unaligned = false,
                            .pack_bytes = tandem::pack_bytes,
                            .group_items = 128,
                            .packs_per_item = 1,
                            .min_item_bytes = 0,
                            .max_item_bytes = 0,
                            .elements_per_item = 1,
                            .streaming_bytes = 0,
                            .compute_units = 0};
// CPUs: a group is what a thread fetches from the driver's list, so it is one item that walks a stretch of memory, a cache line
// at a time: narrower accesses fill the core's reorder buffer before enough lines are under way.
constexpr Tuning cpu_tuning{.is_unaligned = true,
                            .pack_bytes = 64,
                            .group_items = 1,
                            .packs_per_item = 0,
                            .min_item_bytes = std::size_t{32} << 10U,
                            .max_item_bytes = std::size_t{256} << 10U,
                            .elements_per_item = 4096,
                            .streaming_bytes = std::uint64_t{8} << 20U,
                            .compute_units = 0};
// In a call too small for items of full size: what one unit loses to other work, another makes up.
constexpr unsigned items_per_unit = 4;
constexpr std::size_t max_lanes = 16;
// Groups of a reduction for each unit: as many as run side by side, and some for balance.
constexpr unsigned reduce_groups = 16;

// The structs of kernels/elementwise.cl, which says what they mean.
struct PacksArguments {
    std::uint64_t offsets[max_operands];
    std::uint64_t packs;
    std::uint32_t head;
    std::uint32_t edges;
    std::uint32_t streaming;
    std::uint32_t packs_per_item;
};
struct StridedArguments {
    std::uint64_t offsets[max_operands];
    std::uint64_t count;
    std::int64_t first_dimension;
    std::int64_t shape[max_kernel_dimensions];
    std::int64_t strides[max_operands][max_kernel_dimensions];
};

// And those of kernels/reduce.cl, where the input is the one operand with an offset.
struct ReducePacksArguments {
    std::uint64_t offset;
    std::uint64_t packs;
    std::uint64_t packs_per_group;
    std::uint32_t head;
    std::uint32_t tail;
    std::uint32_t is_first;
    std::uint32_t padding;
};
struct ReduceStridedArguments {
    std::uint64_t offset;
    std::uint64_t count;
    std::int64_t first_dimension;
    std::int64_t shape[max_kernel_dimensions];
    std::int64_t strides[max_kernel_dimensions];
    std::uint64_t elements_per_group;
    std::uint64_t is_first;
};
struct ReducePartialsArguments {
    std::uint32_t partials;
    std::uint32_t is_first;
};

static_assert(sizeof(PacksArguments) <= max_argument_bytes && sizeof(StridedArguments) <= max_argument_bytes &&
              sizeof(ReduceStridedArguments) <= max_argument_bytes);

// Pack kernels stand at the logarithm of their width.
constexpr std::array names = {"packs_1", "packs_2", "packs_4", "packs_8", "packs_16", "strided_bytes", "strided_aligned"};
constexpr std::size_t strided_bytes = 5;
constexpr std::size_t strided_aligned = 6;
constexpr std::array reduce_names = {"reduce_packs", "reduce_aligned", "reduce_bytes", "reduce_partials"};
enum ReduceVariant : std::size_t { reduce_in_packs, reduce_aligned, reduce_bytes, reduce_partials };
// What is left where alignment makes no difference: packs_1, packs_16, strided_aligned.
constexpr bool is_for_any_alignment(std::size_t variant) noexcept {
    return variant == 0 || variant == 4 || variant == strided_aligned;
}

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) noexcept {
    return (a + b - 1) / b;
}

Tuning choose_tuning(const DeviceInfo& info, cl_device_id device) {
    Tuning tuning = info.type == DeviceType::cpu ? cpu_tuning : gpu_tuning;
    tuning.compute_units = std::max(1U, info.compute_units);
    std::size_t largest = 0;
    check(api().clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof largest, &largest, nullptr), Stage::setup,
          info.spec, "clGetDeviceInfo");
    tuning.group_items = std::min(tuning.group_items, static_cast<unsigned>(largest));
    return tuning;
}

// Where any address will do, only the output's alignment matters: stores that stay within a cache line are cheaper, and streaming
// ones need it.
PackPlan plan_unaligned(std::uint64_t out_address, std::size_t item_bytes, std::size_t pack, std::int64_t count) noexcept {
    PackPlan plan;
    const std::uint64_t gap = (pack - out_address % pack) % pack;
    if (gap % item_bytes == 0) {
        plan.head = std::min(static_cast<std::int64_t>(gap / item_bytes), count);
        plan.width = tandem::pack_bytes;
    }
    const auto per_pack = static_cast<std::int64_t>(pack / item_bytes);
    plan.packs = (count - plan.head) / per_pack;
    plan.tail = count - plan.head - plan.packs * per_pack;
    return plan;
}

std::size_t lanes(const Tuning& tuning, DType dtype) noexcept {
    return std::min(tuning.pack_bytes / component_bytes(dtype), max_lanes);
}

std::filesystem::path cache_directory() {
    const auto base = environment::cache_directory();
    return base.empty() ? base : base / "opencl";
}

std::string build_log(cl_program program, cl_device_id device) {
    std::size_t size = 0;
    api().clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
    std::string log(size, '\0');
    api().clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
    log.resize(std::min(log.find('\0'), log.size()));
    return log;
}

}  // namespace

Programs::Programs(const DeviceInfo& info, cl_context context, cl_device_id device, std::string build_identity)
    : spec_(info.spec),
      context_(context),
      device_(device),
      build_identity_(std::move(build_identity)),
      tuning_(choose_tuning(info, device)),
      cache_(cache_directory()) {}

cl_program Programs::get(Op op, DType dtype) {
    ProgramHandle& program = programs_[static_cast<std::size_t>(op)][static_cast<std::size_t>(dtype)];
    return get(program, {fmt::format("{} {}", to_string(op), to_string(dtype)), embedded::opencl_source(op),
                         options(dtype, max_operands)});
}

cl_program Programs::get(ReduceOp op, DType dtype) {
    ProgramHandle& program = reduce_programs_[static_cast<std::size_t>(op)][static_cast<std::size_t>(dtype)];
    // kernels/elementwise.cl tells integers by their size.
    const bool is_signed = dtype >= DType::int8 && dtype <= DType::int64;
    constexpr int to_unsigned = static_cast<int>(DType::uint8) - static_cast<int>(DType::int8);
    const DType bits = is_signed ? static_cast<DType>(static_cast<int>(dtype) + to_unsigned) : dtype;
    return get(program, {fmt::format("{} {}", to_string(op), to_string(dtype)), embedded::opencl_reduce_source(),
                         fmt::format("{} -D TANDEM_REDUCE_{} -D TANDEM_SIGNED={:d} -D TANDEM_BLOCK={} -D TANDEM_PARTIAL_BYTES={} "
                                     "-D TANDEM_RESULT_AT={} -D TANDEM_PARTIALS_AT={}",
                                     options(bits, 1), to_string(op), is_signed, block_elements, partial_bytes,
                                     result_offset_bytes, partials_offset_bytes)});
}

cl_program Programs::get_iamax(DType dtype) {
    const bool is_double = component_bytes(dtype) == sizeof(double);
    return get(iamax_programs_[static_cast<std::size_t>(dtype)],
               {fmt::format("iamax {}", to_string(dtype)), embedded::opencl_iamax_source(),
                fmt::format("-cl-std=CL1.2 -w -D TANDEM_REAL={} {} -D TANDEM_COMPONENTS={} -D TANDEM_GROUP_ITEMS={} -D "
                            "TANDEM_GROUPS={}",
                            is_double ? "double" : "float", is_double ? "-D TANDEM_DOUBLE" : "",
                            size_bytes(dtype) / component_bytes(dtype), tuning_.group_items, iamax_groups)});
}

cl_program Programs::get(ProgramHandle& program, const Recipe& recipe) {
    const std::lock_guard lock(mutex_);
    if (program.get() == nullptr) {
        program = build(recipe);
        finish_work_at_exit();  // a compiler sets up what goes at exit when it is first used
    }
    return program.get();
}

std::string Programs::options(DType dtype, int operands) const {
    return fmt::format(
        "-cl-std=CL1.2 -w -D TANDEM_DTYPE_{} -D TANDEM_LANES={} -D TANDEM_UNALIGNED={:d} -D TANDEM_STREAMING={:d} -D "
        "TANDEM_GROUP_ITEMS={} "
        "-D TANDEM_PACKS_PER_ITEM={} -D TANDEM_ELEMENTS_PER_ITEM={} -D TANDEM_DIMENSIONS={} -D TANDEM_OPERANDS={}",
        dtype == DType::boolean ? "boolean" : to_string(dtype), lanes(tuning_, dtype), tuning_.is_unaligned,
        tuning_.streaming_bytes != 0, tuning_.group_items, tuning_.packs_per_item, tuning_.elements_per_item,
        max_kernel_dimensions, operands);
}

ProgramHandle Programs::create(const Recipe& recipe) const {
    cl_int status = CL_SUCCESS;
    if (!recipe.spirv.empty()) {
        if (api().clCreateProgramWithIL == nullptr)
            throw Error(ErrorCode::unsupported, fmt::format("{}: {}: its driver takes no SPIR-V", spec_, recipe.name));
        ProgramHandle program(api().clCreateProgramWithIL(context_, recipe.spirv.data(), recipe.spirv.size(), &status));
        if (status == CL_INVALID_OPERATION)  // no device of the context takes any
            throw Error(ErrorCode::unsupported, fmt::format("{}: {}: the device takes no SPIR-V", spec_, recipe.name), status);
        if (status == CL_INVALID_VALUE)
            throw Error(ErrorCode::build_failed, fmt::format("{}: {}: not valid SPIR-V", spec_, recipe.name), status);
        check(status, Stage::setup, spec_, "clCreateProgramWithIL of {}", recipe.name);
        return program;
    }
    const char* text = recipe.source.c_str();
    ProgramHandle program(api().clCreateProgramWithSource(context_, 1, &text, nullptr, &status));
    check(status, Stage::setup, spec_, "clCreateProgramWithSource of {}", recipe.name);
    return program;
}

ProgramHandle Programs::build(const Recipe& recipe, bool* is_from_cache) const {
    const std::string& options = recipe.options;
    std::string key = build_identity_ + options + '\n' + recipe.source;
    key.append(reinterpret_cast<const char*>(recipe.spirv.data()), recipe.spirv.size());
    const bool is_kept = !reads_files(recipe.source) && !reads_files(options);
    ProgramHandle cached = is_kept ? load(key, options) : ProgramHandle();
    if (is_from_cache != nullptr) *is_from_cache = cached.get() != nullptr;
    if (cached.get() != nullptr) return cached;

    ProgramHandle program = create(recipe);
    const cl_int status = api().clBuildProgram(program.get(), 1, &device_, options.c_str(), nullptr, nullptr);
    if (status == CL_INVALID_BUILD_OPTIONS) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: {}: the compiler does not take the options \"{}\"", spec_, recipe.name, options), status);
    }
    if (status != CL_SUCCESS) {
        throw Error(ErrorCode::build_failed,
                    fmt::format("{}: clBuildProgram of {}: {}\n{}", spec_, recipe.name, error_name(status),
                                build_log(program.get(), device_)),
                    status);
    }
    if (is_kept) save(key, program.get());
    return program;
}

ProgramHandle Programs::load(const std::string& key, const std::string& options) const {
    const auto binary = cache_.load(key);
    if (!binary) return {};
    const std::size_t size = binary->size();
    const auto* bytes = reinterpret_cast<const unsigned char*>(binary->data());
    cl_int status = CL_SUCCESS;
    ProgramHandle program(api().clCreateProgramWithBinary(context_, 1, &device_, &size, &bytes, nullptr, &status));
    if (status != CL_SUCCESS) return {};
    status = api().clBuildProgram(program.get(), 1, &device_, options.c_str(), nullptr, nullptr);
    return status == CL_SUCCESS ? std::move(program) : ProgramHandle();
}

void Programs::save(const std::string& key, cl_program program) const {
    if (!cache_.is_enabled()) return;  // PoCL compiles to the end only when it is asked for the binary
    std::size_t size = 0;
    if (api().clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr) != CL_SUCCESS || size == 0) return;
    std::vector<std::byte> binary(size);
    auto* bytes = reinterpret_cast<unsigned char*>(binary.data());
    if (api().clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, nullptr) == CL_SUCCESS)
        cache_.store(key, binary);
}

// A call on its way: the buffers that its kernels take, in their order.
struct Kernels::Launch {
    cl_command_queue queue;
    std::string_view op;
    const driver::Walk& call;
    cl_uint buffers;
    std::array<Memory::Place, max_operands> places;
};

void Kernels::create(cl_program program, const char* name, Kernel& kernel) const {
    cl_int status = CL_SUCCESS;
    kernel.handle = KernelHandle(api().clCreateKernel(program, name, &status));
    check(status, Stage::setup, programs_.spec(), "clCreateKernel of {}", name);
}

std::size_t Kernels::run(cl_command_queue queue, const driver::Elementwise& call) {
    auto& set = sets_[static_cast<std::size_t>(call.op)][static_cast<std::size_t>(call.dtype)];
    if (!set) [[unlikely]] {
        const cl_program program = programs_.get(call.op, call.dtype);
        auto made = std::make_unique<Set>();
        for (std::size_t i = 0; i < variants; ++i) {
            if (!programs_.tuning().is_unaligned || is_for_any_alignment(i)) create(program, names[i], (*made)[i]);
        }
        set = std::move(made);
    }
    Launch launch{queue, to_string(call.op), call, static_cast<cl_uint>(call.operand_count), {}};
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.operand_count); ++i) {
        launch.places[i] = static_cast<const Memory*>(call.operands[i].memory)->place(call.operands[i].offset_bytes);
    }
    return call.contiguous ? run_packs(launch, call, *set) : run_strided(launch, call, *set);
}

std::size_t Kernels::run_packs(const Launch& launch, const driver::Elementwise& call, Set& kernels) {
    const Tuning& tuning = programs_.tuning();
    const std::size_t item_bytes = size_bytes(call.dtype);
    const auto size = static_cast<std::uint64_t>(call.shape[0]) * item_bytes;
    PacksArguments arguments{};
    bool in_place = false;
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.operand_count); ++i) {
        arguments.offsets[i] = launch.places[i].offset_bytes;
        in_place =
            in_place || (i != 0 && launch.places[i].id == launch.places[0].id && arguments.offsets[i] == arguments.offsets[0]);
    }
    // A cl_mem's base is aligned to 128 bytes at least, so offsets tell the alignment.
    const std::size_t pack = lanes(tuning, call.dtype) * component_bytes(call.dtype);
    const PackPlan plan = tuning.is_unaligned ? plan_unaligned(arguments.offsets[0], item_bytes, pack, call.shape[0])
                                              : plan_packs(arguments.offsets, call.operand_count, item_bytes, call.shape[0]);
    const auto components = static_cast<std::uint32_t>(item_bytes / component_bytes(call.dtype));
    arguments.packs = static_cast<std::uint64_t>(plan.packs);
    arguments.head = static_cast<std::uint32_t>(plan.head) * components;
    arguments.edges = static_cast<std::uint32_t>(plan.head + plan.tail) * components;
    arguments.streaming = tuning.streaming_bytes != 0 && size >= tuning.streaming_bytes && !in_place ? 1 : 0;
    std::uint64_t per_item = tuning.packs_per_item;
    if (per_item == 0) {
        per_item = std::clamp<std::uint64_t>(size / (std::uint64_t{tuning.compute_units} * items_per_unit), tuning.min_item_bytes,
                                             tuning.max_item_bytes) /
                   pack;
        arguments.packs_per_item = static_cast<std::uint32_t>(per_item);
    }
    enqueue(launch, kernels[static_cast<std::size_t>(std::countr_zero(plan.width))], &arguments, sizeof arguments,
            std::max<std::uint64_t>(1, ceil_div(arguments.packs, tuning.group_items * per_item)));
    return size;
}

std::size_t Kernels::run_strided(const Launch& launch, const driver::Elementwise& call, Set& kernels) {
    const Tuning& tuning = programs_.tuning();
    StridedArguments arguments{};
    const int first = max_kernel_dimensions - call.dimensions;
    arguments.first_dimension = first;
    arguments.count = 1;
    std::uint64_t bits = 0;  // of every offset and stride: its lowest is the alignment they share
    for (int d = 0; d < call.dimensions; ++d) {
        arguments.shape[first + d] = call.shape[static_cast<std::size_t>(d)];
        arguments.count *= static_cast<std::uint64_t>(call.shape[static_cast<std::size_t>(d)]);
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.operand_count); ++i) {
        arguments.offsets[i] = launch.places[i].offset_bytes;
        bits |= arguments.offsets[i];
        for (int d = 0; d < call.dimensions; ++d) {
            arguments.strides[i][first + d] = call.operands[i].strides_bytes[static_cast<std::size_t>(d)];
            bits |= static_cast<std::uint64_t>(arguments.strides[i][first + d]);
        }
    }
    const bool is_aligned = tuning.is_unaligned || bits % component_bytes(call.dtype) == 0;
    const std::uint64_t per_group = std::uint64_t{tuning.group_items} * tuning.elements_per_item;
    enqueue(launch, kernels[is_aligned ? strided_aligned : strided_bytes], &arguments, sizeof arguments,
            ceil_div(arguments.count, per_group));
    return arguments.count * size_bytes(call.dtype);
}

std::size_t Kernels::reduce(cl_command_queue queue, const driver::Reduce& call) {
    const Tuning& tuning = programs_.tuning();
    auto& set = reduce_sets_[static_cast<std::size_t>(call.op)][static_cast<std::size_t>(call.dtype)];
    if (!set) [[unlikely]] {
        const cl_program program = programs_.get(call.op, call.dtype);
        auto made = std::make_unique<ReduceSet>();
        for (std::size_t i = 0; i < reduce_variants; ++i) {
            if (!tuning.is_unaligned || i != reduce_bytes) create(program, reduce_names[i], (*made)[i]);
        }
        set = std::move(made);
    }
    Launch launch{queue, to_string(call.op), call, 2, {}};
    launch.places[0] = static_cast<const Memory*>(call.state)->place(0);
    launch.places[1] = static_cast<const Memory*>(call.operands[0].memory)->place(call.operands[0].offset_bytes);

    const std::size_t item_bytes = size_bytes(call.dtype);
    std::uint64_t groups = 0;
    if (call.contiguous && tuning.is_unaligned) {
        const std::size_t pack = lanes(tuning, call.dtype) * component_bytes(call.dtype);
        groups = reduce_packs(launch, call, plan_unaligned(0, item_bytes, pack, call.shape[0]), *set);
    } else {
        const std::uint64_t address = launch.places[1].offset_bytes;
        const PackPlan plan = plan_packs(&address, 1, item_bytes, call.shape[0]);
        groups = call.contiguous && plan.width == tandem::pack_bytes ? reduce_packs(launch, call, plan, *set)
                                                                     : reduce_strided(launch, call, *set);
    }
    if (groups > 1) {
        launch.buffers = 1;
        const ReducePartialsArguments arguments{static_cast<std::uint32_t>(groups), call.is_first};
        enqueue(launch, (*set)[reduce_partials], &arguments, sizeof arguments, 1);
    }
    return static_cast<std::size_t>(call.count()) * item_bytes;
}

// Returns how many groups, each of which leaves a partial result where there are several.
std::uint64_t Kernels::reduce_packs(const Launch& launch, const driver::Reduce& call, const PackPlan& plan, ReduceSet& kernels) {
    const Tuning& tuning = programs_.tuning();
    const std::size_t pack = lanes(tuning, call.dtype) * component_bytes(call.dtype);
    ReducePacksArguments arguments{};
    arguments.offset = launch.places[1].offset_bytes;
    arguments.packs = static_cast<std::uint64_t>(plan.packs);
    arguments.head = static_cast<std::uint32_t>(plan.head);
    arguments.tail = static_cast<std::uint32_t>(plan.tail);
    arguments.is_first = call.is_first;
    // A group of several items waits for its slowest; a few packs for each hide it.
    const std::uint64_t least = tuning.is_unaligned ? tuning.min_item_bytes / pack : std::uint64_t{4} * tuning.group_items;
    const std::uint64_t most = std::min<std::uint64_t>(call.max_partials, std::uint64_t{tuning.compute_units} * reduce_groups);
    arguments.packs_per_group = std::max(least, ceil_div(arguments.packs, most));
    const std::uint64_t groups = std::max<std::uint64_t>(1, ceil_div(arguments.packs, arguments.packs_per_group));
    enqueue(launch, kernels[reduce_in_packs], &arguments, sizeof arguments, groups);
    return groups;
}

std::uint64_t Kernels::reduce_strided(const Launch& launch, const driver::Reduce& call, ReduceSet& kernels) {
    const Tuning& tuning = programs_.tuning();
    ReduceStridedArguments arguments{};
    arguments.offset = launch.places[1].offset_bytes;
    arguments.count = static_cast<std::uint64_t>(call.count());
    arguments.first_dimension = max_kernel_dimensions - call.dimensions;
    arguments.is_first = call.is_first;
    std::uint64_t bits = arguments.offset;
    for (int d = 0; d < call.dimensions; ++d) {
        arguments.shape[arguments.first_dimension + d] = call.shape[static_cast<std::size_t>(d)];
        const std::int64_t stride = call.operands[0].strides_bytes[static_cast<std::size_t>(d)];
        arguments.strides[arguments.first_dimension + d] = stride;
        bits |= static_cast<std::uint64_t>(stride);
    }
    const bool is_aligned = tuning.is_unaligned || bits % component_bytes(call.dtype) == 0;
    const std::uint64_t least = std::max<std::uint64_t>(tuning.elements_per_item, std::uint64_t{4} * tuning.group_items);
    const std::uint64_t most = std::min<std::uint64_t>(call.max_partials, std::uint64_t{tuning.compute_units} * reduce_groups);
    arguments.elements_per_group = std::max(least, ceil_div(arguments.count, most));
    const std::uint64_t groups = ceil_div(arguments.count, arguments.elements_per_group);
    enqueue(launch, kernels[is_aligned ? reduce_aligned : reduce_bytes], &arguments, sizeof arguments, groups);
    return groups;
}

void Kernels::enqueue(const Launch& launch, Kernel& kernel, const void* arguments, std::size_t arguments_bytes,
                      std::uint64_t groups) {
    const Api& cl = api();
    const driver::Walk& call = launch.call;
    cl_int status = CL_SUCCESS;
    for (cl_uint i = 0; i < launch.buffers && status == CL_SUCCESS; ++i) {
        if (kernel.bound[i] == launch.places[i].id) continue;
        kernel.bound[i] = 0;
        status = cl.clSetKernelArg(kernel.handle.get(), i, sizeof(cl_mem), &launch.places[i].window);
        if (status == CL_SUCCESS) kernel.bound[i] = launch.places[i].id;
    }
    // Setting an argument costs more than seeing that it has not changed, and a repeated call changes none.
    if (status == CL_SUCCESS &&
        (kernel.set_bytes != arguments_bytes || std::memcmp(kernel.set.data(), arguments, arguments_bytes) != 0)) {
        kernel.set_bytes = 0;
        status = cl.clSetKernelArg(kernel.handle.get(), launch.buffers, arguments_bytes, arguments);
        if (status == CL_SUCCESS) {
            std::memcpy(kernel.set.data(), arguments, arguments_bytes);
            kernel.set_bytes = arguments_bytes;
        }
    }
    if (status == CL_SUCCESS) {
        const std::size_t local = programs_.tuning().group_items;
        const std::size_t global = groups * local;
        status = cl.clEnqueueNDRangeKernel(launch.queue, kernel.handle.get(), 1, nullptr, &global, &local, 0, nullptr, nullptr);
    }
    if (status == CL_SUCCESS) [[likely]]
        return;
    std::string operand_text;
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.operand_count); ++i) {
        operand_text += fmt::format("{}{} of {} bytes", i == 0 ? "" : ", ", call.operands[i].offset_bytes,
                                    call.operands[i].memory->size_bytes());
    }
    fail(status, Stage::submission, programs_.spec(),
         fmt::format("clEnqueueNDRangeKernel of {} {}, shape ({}), operands at {}", launch.op, to_string(call.dtype),
                     fmt::join(call.shape.begin(), call.shape.begin() + call.dimensions, ", "), operand_text));
}

}  // namespace tandem::opencl
