#include "backends/host/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "backends/host/memory.hpp"
#include "core/thread_pool.hpp"
#include "tandem/error.hpp"

namespace tandem::host {
namespace {

constexpr std::size_t alignment = 16;
// Fewer items are done by one thread; what an item costs is not known, and waking a thread costs some microseconds.
constexpr std::uint64_t parallel_items = 8192;
// What one thread loses to other work on the machine, another makes up.
constexpr std::uint64_t parts_per_thread = 8;

}  // namespace

std::shared_ptr<Program> Program::compile(const std::string& spec, const driver::CompileRequest& request) {
    if (request.host_function == nullptr) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: compile of {}: there is no host function for it", spec, request.name));
    }
    const HostFunction& function = *request.host_function;
    KernelInfo info;
    info.name = request.name;
    info.max_group_items = 1U << 20U;  // groups mean nothing here
    info.max_local_bytes = UINT64_MAX / 2;
    if (function.has_parameters) {
        info.parameters.emplace();
        for (std::size_t i = 0; i < function.parameter_bytes.size(); ++i) {
            const bool is_pointer = function.is_pointer[i];
            info.parameters->push_back({is_pointer ? ParameterInfo::Kind::memory : ParameterInfo::Kind::value,
                                        function.parameter_bytes[i], is_pointer ? "pointer" : "", ""});
        }
    }
    return std::make_shared<Program>(spec, std::move(info), function, request.is_own_function);
}

void Program::check(const driver::Launch& launch) const {
    if (launch.dimensions <= function_.max_dimensions) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: launch of {}: {} dimensions, but its host function takes an index: give it a tandem::Item",
                            spec_, info().name, launch.dimensions));
}

Program::Call::Call(std::shared_ptr<const Program> called, const driver::Launch& launch)
    : program(std::move(called)), dimensions(launch.dimensions), items(launch.items) {
    using Kind = driver::KernelArgument::Kind;
    const auto add = [&](const void* value, std::size_t size_bytes) {
        const std::size_t position = values.size();
        positions.push_back(position);
        values.resize(position + (size_bytes + alignment - 1) / alignment * alignment);
        std::memcpy(values.data() + position, value, size_bytes);
    };
    values.reserve(launch.arguments.size() * alignment);
    for (const driver::KernelArgument& argument : launch.arguments) {
        if (argument.kind == Kind::local) continue;
        if (argument.kind == Kind::value) {
            add(argument.value, argument.size_bytes);
        } else if (argument.kind == Kind::offset) {
            const std::uint64_t offset = argument.memory != nullptr ? argument.offset_bytes : 0;
            add(&offset, sizeof offset);
        } else {
            std::byte* pointer = argument.memory != nullptr ? static_cast<Memory*>(argument.memory)->data() : nullptr;
            if (pointer != nullptr && argument.kind == Kind::memory) pointer += argument.offset_bytes;
            add(&pointer, sizeof pointer);
        }
    }
}

void Program::Call::run() const {
    std::vector<const void*> arguments;
    arguments.reserve(positions.size());
    for (const std::size_t position : positions)
        arguments.push_back(values.data() + position);
    std::mutex mutex;
    std::string failure;
    const auto run_range = [&](const ItemRange& range) {
        std::string text;
        try {
            program->function_.run(range, arguments.data());
            return;
        } catch (const std::exception& error) {
            text = error.what();
        } catch (...) {
            text = "an exception of unknown type";
        }
        const std::lock_guard lock(mutex);
        if (failure.empty()) failure = text.empty() ? "an exception" : text;
    };
    const ItemRange all{{0, 0, 0}, items};
    const std::uint64_t count = items[0] * items[1] * items[2];
    if (count < parallel_items) {
        run_range(all);
    } else {
        // Along the outermost dimension that has enough for all threads.
        ThreadPool& pool = ThreadPool::instance();
        std::size_t axis = static_cast<std::size_t>(dimensions) - 1;
        while (axis > 0 && items[axis] < pool.threads())
            --axis;
        if (items[axis] < pool.threads())
            axis = static_cast<std::size_t>(std::max_element(items.begin(), items.end()) - items.begin());
        const std::uint64_t parts = std::min<std::uint64_t>(pool.threads() * parts_per_thread, items[axis]);
        pool.parallel(static_cast<std::int64_t>(parts), [&](std::int64_t part) {
            ItemRange range = all;
            const auto index = static_cast<std::uint64_t>(part);
            const std::uint64_t each = items[axis] / parts;
            const std::uint64_t more = items[axis] % parts;  // the first ones have one more
            range.begin[axis] = index * each + std::min(index, more);
            range.end[axis] = range.begin[axis] + each + (index < more ? 1 : 0);
            run_range(range);
        });
    }
    if (failure.empty()) return;
    throw Error(ErrorCode::device_lost, fmt::format("{}: {}: {}", program->spec_, program->info().name, failure));
}

}  // namespace tandem::host
