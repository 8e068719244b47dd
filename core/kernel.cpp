#include "tandem/kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "core/device_state.hpp"
#include "core/overlap.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

using NativeKind = driver::KernelArgument::Kind;
using ParameterKind = ParameterInfo::Kind;

const char* what_is(Argument::Kind kind) noexcept {
    switch (kind) {
        case Argument::Kind::memory:
        case Argument::Kind::base:
            return "an array";
        case Argument::Kind::offset:
            return "an array's offset";
        case Argument::Kind::value:
            return "a value";
        case Argument::Kind::local:
            return "local memory";
    }
    return "?";
}

const char* what_is(ParameterKind kind) noexcept {
    switch (kind) {
        case ParameterKind::memory:
            return "a pointer to global memory";
        case ParameterKind::value:
            return "a value";
        case ParameterKind::local:
            return "a pointer to local memory";
        default:
            return "something else";
    }
}

ParameterKind kind_for(Argument::Kind kind) noexcept {
    switch (kind) {
        case Argument::Kind::memory:
        case Argument::Kind::base:
            return ParameterKind::memory;
        case Argument::Kind::local:
            return ParameterKind::local;
        default:
            return ParameterKind::value;
    }
}

std::string counts_text(const Items& items) {
    return fmt::format("({})", fmt::join(items.counts().begin(), items.counts().begin() + items.dimensions(), ", "));
}

}  // namespace

// The checks of one launch.
class Launcher {
public:
    Launcher(const Queue& queue, const Kernel& kernel) : queue_(queue), info_(kernel.info()) {
        if (!(kernel.device() == queue.device()))
            refuse(fmt::format("the kernel is on {}, the queue on {}", kernel.device().spec(), queue.device().spec()));
    }

    // Writes the launch's items and groups; false where there are no items.
    bool take(const Items& items, const Items& group, driver::Launch& launch) const {
        if (items.dimensions() == 0) refuse("no items are given: 1 to 3 numbers");
        launch.dimensions = items.dimensions();
        bool any = true;
        std::int64_t all = 1;
        bool is_countable = true;
        for (std::size_t d = 0; d < 3; ++d) {
            if (items.counts()[d] < 0) refuse(fmt::format("{} items", counts_text(items)));
            launch.items[d] = static_cast<std::uint64_t>(items.counts()[d]);
            any = any && launch.items[d] != 0;
            is_countable = is_countable && !__builtin_mul_overflow(all, items.counts()[d], &all);
        }
        if (any && !is_countable) refuse(fmt::format("{} items: more than can be counted in 63 bits", counts_text(items)));
        if (group.dimensions() == 0) {
            if (info_.required_group[0] != 0) require_group(items, info_.required_group, launch);
            return any;
        }
        if (group.dimensions() != items.dimensions())
            refuse(fmt::format("items {} in groups of {}: as many dimensions", counts_text(items), counts_text(group)));
        std::uint64_t group_items = 1;
        for (std::size_t d = 0; d < 3; ++d) {
            const std::int64_t count = group.counts()[d];
            if (count <= 0) refuse(fmt::format("groups of {} items", counts_text(group)));
            group_items = static_cast<std::uint64_t>(count) > info_.max_group_items
                              ? UINT64_MAX / 2
                              : group_items * static_cast<std::uint64_t>(count);
            if (group_items > info_.max_group_items)
                refuse(fmt::format("groups of {} items: this kernel's may have {} on {}", counts_text(group),
                                   info_.max_group_items, queue_.device().spec()));
            launch.group[d] = static_cast<std::uint32_t>(count);
        }
        if (info_.required_group[0] != 0) require_group(items, launch.group, launch);
        return any;
    }

    // For a kernel that takes groups of one size alone.
    void require_group(const Items& items, const std::array<std::uint32_t, 3>& group, driver::Launch& launch) const {
        const std::array<std::uint32_t, 3>& required = info_.required_group;
        const auto text = [](const std::array<std::uint32_t, 3>& counts) { return fmt::format("({})", fmt::join(counts, ", ")); };
        if (group != required)
            refuse(fmt::format("groups of {} items: this kernel requires groups of {}", text(group), text(required)));
        for (auto d = static_cast<std::size_t>(items.dimensions()); d < required.size(); ++d) {
            if (required[d] > 1)
                refuse(fmt::format("items {}: this kernel requires groups of {}, which have {} dimensions", counts_text(items),
                                   text(required), required[2] > 1 ? 3 : 2));
        }
        launch.group = required;
    }

    // Whether the arguments are what the kernel takes.
    void check(std::span<const Argument> arguments) const {
        if (arguments.size() > driver::max_launch_arguments)
            refuse(fmt::format("{} arguments: {} at most", arguments.size(), driver::max_launch_arguments));
        std::size_t passed = 0;
        for (const Argument& argument : arguments)
            passed += takes_place(argument) ? std::size_t{1} : 0;
        if (info_.parameters && passed != info_.parameters->size())
            refuse(fmt::format("{} arguments are given, the kernel takes {}", passed, info_.parameters->size()));
        std::size_t position = 0;
        std::uint64_t local_bytes = 0;
        for (std::size_t i = 0; i < arguments.size(); ++i) {
            const Argument& argument = arguments[i];
            const bool is_local = argument.kind_ == Argument::Kind::local;
            if (is_local) {
                if (argument.size_bytes_ == 0) refuse(fmt::format("argument {} is local memory of 0 bytes", i));
                // Where all parts lie in one region, each starts at a multiple of the alignment.
                constexpr std::uint64_t rest = driver::local_alignment - 1;
                if (!info_.has_local_parameters) local_bytes = (local_bytes + rest) / (rest + 1) * (rest + 1);
                const std::uint64_t left = info_.max_local_bytes - std::min(local_bytes, info_.max_local_bytes);
                if (argument.size_bytes_ > left)
                    refuse(
                        fmt::format("argument {} is local memory of {} bytes, behind {} of the arguments before it: this kernel "
                                    "may have {} on {}",
                                    i, argument.size_bytes_, local_bytes, info_.max_local_bytes, queue_.device().spec()));
                local_bytes += argument.size_bytes_;
            }
            if (!takes_place(argument)) continue;
            if (info_.parameters) check(i, argument, (*info_.parameters)[position]);
            ++position;
        }
    }

    // One array: whether the device may work on it as declared.
    void check_memory(std::size_t index, const Argument& argument) const {
        if (argument.device_ != nullptr && argument.device_ != queue_.device().state().get())
            refuse(fmt::format("argument {} is on {}, the queue on {}", index, argument.device_->native->info().spec,
                               queue_.device().spec()));
        const driver::Memory& memory = *argument.memory_;
        if (argument.access_ != Access::read && !memory.is_writable)
            refuse(fmt::format("argument {} lies in read-only memory ({})", index, memory.residency().description));
        if (!memory.mapped.are_none() && memory.mapped.conflicts(argument.first_byte_, argument.size_bytes_, argument.access_)) {
            refuse(fmt::format("argument {} is mapped for the host; end that view first", index));
        }
        const std::size_t window = memory.window_bytes();
        if (window >= memory.size_bytes() || argument.kind_ == Argument::Kind::offset) return;
        const std::size_t end = argument.first_byte_ + argument.size_bytes_ - 1;
        if (argument.first_byte_ / window == end / window) return;
        throw Error(ErrorCode::unsupported,
                    fmt::format("launch of {}: argument {} has {} bytes, which lie in several allocations: {} allocates {} at "
                                "most; launch on parts of it, or stream over the file piece by piece",
                                info_.name, index, argument.size_bytes_, queue_.device().spec(), window));
    }

    static driver::KernelArgument native(const Argument& argument) noexcept {
        return {static_cast<NativeKind>(argument.kind_), argument.memory_.get(), argument.offset_bytes_, argument.value_.data(),
                argument.size_bytes_};
    }
    static const std::shared_ptr<driver::Memory>& memory(const Argument& argument) noexcept { return argument.memory_; }
    static std::size_t size_bytes(const Argument& argument) noexcept { return argument.size_bytes_; }

private:
    [[noreturn]] void refuse(const std::string& what) const {
        throw Error(ErrorCode::invalid_argument, fmt::format("launch of {}: {}", info_.name, what));
    }

    // Whether it is one of the kernel's parameters.
    [[nodiscard]] bool takes_place(const Argument& argument) const noexcept {
        return argument.kind_ != Argument::Kind::local || info_.has_local_parameters;
    }

    void check(std::size_t index, const Argument& argument, const ParameterInfo& parameter) const {
        const auto parameter_name = [&] {
            if (parameter.name.empty()) return std::string("the kernel's parameter");
            return fmt::format("the kernel's parameter `{}`", parameter.name);
        };
        if (parameter.kind != ParameterKind::unknown && parameter.kind != kind_for(argument.kind_))
            refuse(fmt::format("argument {} is {}, {} is {}", index, what_is(argument.kind_), parameter_name(),
                               what_is(parameter.kind)));
        if (argument.kind_ == Argument::Kind::local || parameter.size_bytes == 0) return;
        const std::size_t size_bytes = argument.kind_ == Argument::Kind::value ? argument.size_bytes_ : sizeof(std::uint64_t);
        if (size_bytes == parameter.size_bytes) return;
        refuse(fmt::format("argument {} is {} of {} bytes, {} has {}{}{}", index, what_is(argument.kind_), size_bytes,
                           parameter_name(), parameter.size_bytes, parameter.type.empty() ? "" : ": ", parameter.type));
    }

    const Queue& queue_;
    const KernelInfo& info_;
};

static_assert(static_cast<int>(NativeKind::memory) == static_cast<int>(Argument::Kind::memory) &&
              static_cast<int>(NativeKind::base) == static_cast<int>(Argument::Kind::base) &&
              static_cast<int>(NativeKind::offset) == static_cast<int>(Argument::Kind::offset) &&
              static_cast<int>(NativeKind::value) == static_cast<int>(Argument::Kind::value) &&
              static_cast<int>(NativeKind::local) == static_cast<int>(Argument::Kind::local));

// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): the value's room is not part of an array
Argument::Argument(const Array& array, Access access, Kind kind) : kind_(kind), access_(access) {
    if (array.count() == 0) return;
    memory_ = array.memory();
    device_ = array.device().state().get();
    offset_bytes_ = array.offset_bytes();
    if (array.is_dense(Order::c) || array.is_dense(Order::fortran)) {
        first_byte_ = offset_bytes_;
        size_bytes_ = array.size_bytes();
        return;
    }
    const ByteRange bytes = byte_range(array);
    first_byte_ = static_cast<std::size_t>(bytes.first);
    size_bytes_ = static_cast<std::size_t>(bytes.end - bytes.first);
}

// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): likewise
Argument::Argument(const Buffer& buffer, Access access, Kind kind)
    : kind_(kind), access_(access), size_bytes_(buffer.size_bytes()), memory_(buffer.memory()) {
    if (memory_ != nullptr) device_ = buffer.device().state().get();
}

Argument Argument::base() const {
    Argument copy = *this;
    if (kind_ != Kind::memory && kind_ != Kind::base)
        throw Error(ErrorCode::invalid_argument, fmt::format("{} has no base", what_is(kind_)));
    copy.kind_ = Kind::base;
    return copy;
}

const KernelInfo& Kernel::info() const {
    if (native_ == nullptr) throw Error(ErrorCode::invalid_argument, "this is no kernel: it was moved from, or never compiled");
    return native_->info();
}

Kernel Device::compile(const KernelSource& source, const std::string& name) const {
    return compile(source, name, {});
}

Kernel Device::compile(const KernelSource& source, const std::string& name, const CompileOptions& options) const {
    if (name.empty() || name.find('\0') != std::string::npos)
        throw Error(ErrorCode::invalid_argument, "compile: a kernel function's name is needed");
    driver::CompileRequest request;
    request.name = name;
    request.file_name = source.file_name;
    request.cuda_source = source.cuda;
    request.opencl_source = source.opencl;
    request.cuda_image = source.cuda_image;
    request.spirv = source.spirv;
    request.host_function = source.host ? &source.host : nullptr;
    for (const std::string& define : options.defines) {
        // OpenCL's options are one string that is cut at spaces.
        if (define.empty() || define.find_first_of(" \t\n") != std::string::npos)
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("compile of {}: \"{}\" is no define: a word without spaces is", name, define));
        request.cuda_options.push_back("-D" + define);
        request.opencl_options.push_back("-D " + define);
    }
    if (options.fast_math) {
        request.cuda_options.emplace_back("--use_fast_math");
        request.opencl_options.emplace_back("-cl-fast-relaxed-math");
    }
    request.cuda_options.insert(request.cuda_options.end(), options.cuda.begin(), options.cuda.end());
    request.opencl_options.insert(request.opencl_options.end(), options.opencl.begin(), options.opencl.end());
    return {*this, state()->native->compile(request)};
}

void Queue::launch(const Kernel& kernel, const Items& items, std::initializer_list<Argument> arguments) {
    launch(kernel, items, std::span(arguments.begin(), arguments.size()), {});
}

void Queue::launch(const Kernel& kernel, const Items& items, std::initializer_list<Argument> arguments,
                   const LaunchOptions& options) {
    launch(kernel, items, std::span(arguments.begin(), arguments.size()), options);
}

void Queue::launch(const Kernel& kernel, const Items& items, std::span<const Argument> arguments, const LaunchOptions& options) {
    QueueState& queue = state();
    const Launcher launcher(*this, kernel);
    driver::Launch launch;
    launch.kernel = kernel.native().get();
    const bool has_items = launcher.take(items, options.group, launch);
    launcher.check(arguments);

    // Room that costs nothing where it is not used.
    alignas(driver::KernelArgument) std::array<std::byte, driver::max_launch_arguments * sizeof(driver::KernelArgument)> room;
    auto* natives = reinterpret_cast<driver::KernelArgument*>(room.data());
    std::size_t work_bytes = 0;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        if (Launcher::memory(arguments[i]) != nullptr) {
            launcher.check_memory(i, arguments[i]);
            work_bytes += Launcher::size_bytes(arguments[i]);
        }
        new (natives + i) driver::KernelArgument(Launcher::native(arguments[i]));
    }
    if (!has_items) return;
    launch.arguments = {natives, arguments.size()};

    QueueState::Submission submission(queue, work_bytes);
    submission.use(kernel.native());
    for (const Argument& argument : arguments) {
        if (Launcher::memory(argument) != nullptr) submission.use(Launcher::memory(argument));
    }
    submission.native().launch(launch);
}

}  // namespace tandem
