#include "core/expression/run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/device_state.hpp"
#include "core/elementwise.hpp"
#include "core/expression/evaluate.hpp"
#include "core/expression/lexer.hpp"
#include "core/expression/operands.hpp"
#include "core/expression/parser.hpp"
#include "core/expression/source.hpp"
#include "core/expression/walk.hpp"
#include "core/split.hpp"

namespace tandem {
namespace expression {
namespace {

// A processor's item does this much of the largest operand, or less where that leaves units without work.
constexpr std::uint64_t max_stretch_bytes = std::uint64_t{256} << 10U;
constexpr std::uint64_t min_stretch_bytes = std::uint64_t{32} << 10U;
constexpr std::uint64_t items_per_unit = 4;

constexpr std::uint64_t divide_up(std::uint64_t count, std::uint64_t size) noexcept {
    return count / size + (count % size != 0 ? 1 : 0);
}

// What tells one program from another.
std::string key_of(std::string_view text, std::span<const NamedOperand> operands) {
    std::string key;
    key.reserve(text.size() + 16 * operands.size());
    key += text;
    for (const NamedOperand& operand : operands) {
        key += '\0';
        key += operand.name;
        key += '\0';
        const DType dtype = operand.array != nullptr ? operand.array->dtype() : operand.scalar.dtype();
        key += static_cast<char>('a' + static_cast<int>(dtype));
        key += operand.array != nullptr ? 'a' : operand.scalar.is_weak() ? 'w' : 's';
    }
    return key;
}

std::shared_ptr<CachedExpression> look_up(DeviceState& device, std::string_view operation, std::string_view text,
                                          std::span<const NamedOperand> operands) {
    const std::string key = key_of(text, operands);
    if (std::shared_ptr<CachedExpression> found = device.expressions.find(key)) return found;
    check_names(operation, operands);
    std::vector<OperandType> types;
    for (const NamedOperand& operand : operands) {
        const bool is_array = operand.array != nullptr;
        const ValueType type{is_array ? operand.array->dtype() : operand.scalar.dtype(), !is_array && operand.scalar.is_weak()};
        types.push_back({std::string(operand.name), type, is_array});
    }
    auto entry = std::make_shared<CachedExpression>();
    entry->program = std::make_shared<const Program>(make_program(operation, text, parse(operation, text), std::move(types)));
    return device.expressions.keep(key, entry);
}

void check_float64(std::string_view operation, const DeviceInfo& device, const Program& program) {
    if (device.has_float64) return;
    for (const std::int32_t operand : program.arrays)
        check_dtype_supported(device, operation, program.operands[static_cast<std::size_t>(operand)].type.dtype);
    for (const Step& step : program.steps) {
        if (step.is_uniform || component_type(step.dtype) != DType::float64) continue;
        refuse_at(operation, step.position,
                  fmt::format("computes in {}, which {} ({}) does not have: cast to float32", to_string(step.dtype), device.spec,
                              device.name));
    }
}

// One call on its way.
class Launcher {
public:
    Launcher(const Device& device, CachedExpression& entry, std::vector<std::uint64_t> uniforms)
        : device_(device),
          info_(device.info()),
          entry_(entry),
          program_(*entry.program),
          uniforms_(std::move(uniforms)),
          is_host_(info_.backend == "host"),
          dialect_(info_.backend == "cuda"         ? Dialect::cuda
                   : info_.type == DeviceType::cpu ? Dialect::opencl_cpu
                                                   : Dialect::opencl_gpu) {}

    // `piece` lies in one window of each operand.
    void launch(QueueState::Submission& submission, const Walk& piece) {
        word_count_ = 0;
        const auto count = static_cast<std::uint64_t>(piece.count());
        std::uint64_t items = 0;
        std::array<std::uint64_t, 4> head{count, 0, 0, 0};  // count, packs, head, elements per item
        Layout layout = piece.contiguous ? Layout::packs : Layout::aligned;
        if (is_host_) {
            items = count;
        } else if (dialect_ == Dialect::opencl_cpu) {
            head[3] = layout == Layout::packs ? stretch(piece, count) : strided_elements_per_item;
            items = divide_up(count, head[3]);
        } else {
            if (layout == Layout::packs && !plan_packs(piece, count, head[1], head[2])) layout = Layout::loose;
            if (layout != Layout::packs && !is_aligned(piece)) layout = Layout::bytes;
            items = layout == Layout::packs   ? std::max(head[1], count - head[1] * pack_elements(program_))
                    : layout == Layout::loose ? divide_up(count, loose_elements)
                                              : count;
            items = divide_up(items, group_items) * group_items;
        }
        for (const std::uint64_t word : head)
            add(word);
        for (const std::uint64_t word : uniforms_)
            add(word);
        if (layout == Layout::aligned || layout == Layout::bytes) add_layout(piece);

        const std::shared_ptr<driver::Kernel> kernel = kernel_for(layout);
        submission.use(kernel);
        std::array<driver::KernelArgument, 2 * max_arrays + 1> arguments;
        std::size_t argument_count = 0;
        for (std::size_t i = 0; i < static_cast<std::size_t>(piece.operand_count); ++i) {
            driver::KernelArgument argument;
            argument.memory = piece.operands[i].memory;
            argument.offset_bytes = piece.operands[i].offset_bytes;
            argument.kind = driver::KernelArgument::Kind::base;
            arguments[argument_count++] = argument;
            argument.kind = driver::KernelArgument::Kind::offset;
            arguments[argument_count++] = argument;
        }
        driver::KernelArgument call;
        call.kind = driver::KernelArgument::Kind::value;
        call.value = words_.data();
        call.size_bytes = word_count_ * sizeof(std::uint64_t);
        arguments[argument_count++] = call;

        driver::Launch launch;
        launch.kernel = kernel.get();
        launch.items[0] = items;
        if (!is_host_) launch.group = {dialect_ == Dialect::opencl_cpu ? 1 : group_items, 1, 1};
        launch.arguments = std::span(arguments.data(), argument_count);
        submission.native().launch(launch);
    }

private:
    // As many elements as a processor's item walks.
    [[nodiscard]] std::uint64_t stretch(const Walk& piece, std::uint64_t count) const {
        std::size_t largest = 1;
        for (std::size_t i = 0; i < static_cast<std::size_t>(piece.operand_count); ++i)
            largest = std::max(largest, piece.operands[i].item_bytes);
        const std::uint64_t units = std::uint64_t{std::max(1U, info_.compute_units)} * items_per_unit;
        return std::clamp<std::uint64_t>(count * largest / units, min_stretch_bytes, max_stretch_bytes) / largest;
    }

    // How many elements lie before the first pack that is aligned in every operand, and how many packs follow; false where there
    // is no such pack.
    [[nodiscard]] bool plan_packs(const Walk& piece, std::uint64_t count, std::uint64_t& packs, std::uint64_t& head) const {
        const std::uint64_t elements = pack_elements(program_);
        for (std::uint64_t first = 0; first < elements; ++first) {
            const bool fits = std::all_of(
                piece.operands.begin(), piece.operands.begin() + piece.operand_count, [&](const WalkOperand& operand) {
                    const std::uint64_t address = operand.memory->address() + operand.offset_bytes + first * operand.item_bytes;
                    return address % access_bytes(operand.item_bytes, elements) == 0;
                });
            if (!fits) continue;
            head = std::min(first, count);
            packs = (count - head) / elements;
            return true;
        }
        return false;
    }

    [[nodiscard]] bool is_aligned(const Walk& piece) const {
        for (std::size_t i = 0; i < static_cast<std::size_t>(piece.operand_count); ++i) {
            const WalkOperand& operand = piece.operands[i];
            const std::size_t bytes = component_bytes(program_.operands[static_cast<std::size_t>(program_.arrays[i])].type.dtype);
            std::uint64_t bits = operand.memory->address() + operand.offset_bytes;
            for (std::size_t d = 0; d < static_cast<std::size_t>(piece.dimensions); ++d)
                bits |= static_cast<std::uint64_t>(operand.strides_bytes[d]);
            if (bits % bytes != 0) return false;
        }
        return true;
    }

    void add(std::uint64_t word) { words_[word_count_++] = word; }

    // Ranged right, so that the innermost dimension has a fixed place.
    void add_layout(const Walk& piece) {
        constexpr auto most = static_cast<std::size_t>(max_kernel_dimensions);
        const auto dimensions = static_cast<std::size_t>(piece.dimensions);
        const std::size_t first = most - dimensions;
        add(first);
        for (std::size_t d = 0; d < most; ++d)
            add(d < first ? 1 : static_cast<std::uint64_t>(piece.shape[d - first]));
        for (std::size_t i = 0; i < static_cast<std::size_t>(piece.operand_count); ++i) {
            for (std::size_t d = 0; d < most; ++d)
                add(d < first ? 0 : static_cast<std::uint64_t>(piece.operands[i].strides_bytes[d - first]));
        }
    }

    std::shared_ptr<driver::Kernel> kernel_for(Layout layout) {
        const std::lock_guard lock(entry_.mutex);
        std::shared_ptr<driver::Kernel>& kernel = entry_.kernels[static_cast<std::size_t>(layout)];
        if (kernel != nullptr) return kernel;
        driver::CompileRequest request;
        request.name = kernel_name;
        HostFunction function;
        std::string source;
        if (is_host_) {
            function = host_function(entry_.program, layout);
            request.host_function = &function;
            request.is_own_function = true;
        } else {
            source = kernel_source(program_, dialect_, layout);
            (dialect_ == Dialect::cuda ? request.cuda_source : request.opencl_source) = source;
            request.cuda_options = {"--fmad=false"};  // as everywhere else
            request.opencl_options = {"-cl-std=CL1.2", "-w"};
        }
        kernel = device_.state()->native->compile(request);
        return kernel;
    }

    const Device& device_;
    const DeviceInfo& info_;
    CachedExpression& entry_;
    const Program& program_;
    std::vector<std::uint64_t> uniforms_;
    bool is_host_;
    Dialect dialect_;
    std::array<std::uint64_t, 4 + 2 * max_uniforms + 1 + static_cast<std::size_t>(max_kernel_dimensions) * (1 + max_arrays)>
        words_{};
    std::size_t word_count_ = 0;
};

class ExpressionSink final : public PieceSinkOf<Walk> {
public:
    ExpressionSink(QueueState::Submission& submission, driver::Device& device, Launcher& launcher, std::size_t outputs)
        : submission_(submission), device_(device), launcher_(launcher), outputs_(outputs) {}

    void take(const Walk& piece) override { launcher_.launch(submission_, piece); }

    // The element's operands are brought together in memory of one window, and the outputs back from there.
    void take_straddling(const Walk& element) override {
        constexpr std::size_t slot_bytes = 16;
        if (scratch_ == nullptr) scratch_ = device_.allocate(slot_bytes * max_arrays, MemoryKind::device);
        submission_.use(scratch_);
        Walk moved = element;
        for (std::size_t i = 0; i < static_cast<std::size_t>(element.operand_count); ++i) {
            WalkOperand& slot = moved.operands[i];
            slot.memory = scratch_.get();
            slot.offset_bytes = i * slot_bytes;
            submission_.native().copy(*scratch_, slot.offset_bytes, *element.operands[i].memory, element.operands[i].offset_bytes,
                                      slot.item_bytes);
        }
        launcher_.launch(submission_, moved);
        for (std::size_t i = 0; i < outputs_; ++i) {
            const WalkOperand& out = element.operands[i];
            submission_.native().copy(*out.memory, out.offset_bytes, *scratch_, i * slot_bytes, out.item_bytes);
        }
    }

private:
    QueueState::Submission& submission_;
    driver::Device& device_;
    Launcher& launcher_;
    std::size_t outputs_;
    std::shared_ptr<driver::Memory> scratch_;
};

}  // namespace
}  // namespace expression

void run_expression(Queue& queue, std::string_view operation, std::string_view text, std::span<const NamedOperand> operands) {
    using namespace expression;
    (void)queue.state();  // throws where the queue was moved from
    DeviceState& device = *queue.device().state();
    const std::shared_ptr<CachedExpression> entry = look_up(device, operation, text, operands);
    const Program& program = *entry->program;
    check_float64(operation, queue.device().info(), program);
    std::vector<ScalarBytes> scalars(program.uniforms.empty() ? 0 : operands.size());
    for (std::size_t i = 0; i < scalars.size(); ++i)
        scalars[i].bytes = operands[i].scalar.bytes();
    std::vector<std::uint64_t> uniforms = evaluate_uniforms(operation, program, scalars);
    const Broadcast places = check_operands(operation, queue, program, operands);

    const auto array = [&](std::size_t i) -> const Array& {
        return *operands[static_cast<std::size_t>(program.arrays[i])].array;
    };
    const std::int64_t count = array(0).count();
    if (count == 0) return;
    Walk call;
    call.operand_count = static_cast<int>(program.arrays.size());
    std::size_t work_bytes = 0;
    bool one_window = true;
    for (std::size_t i = 0; i < program.arrays.size(); ++i) {
        WalkOperand& operand = call.operands[i];
        operand.memory = array(i).memory().get();
        operand.offset_bytes = array(i).offset_bytes();
        operand.item_bytes = size_bytes(array(i).dtype());
        operand.strides_bytes[0] = static_cast<std::int64_t>(operand.item_bytes);
        one_window = one_window && operand.memory->window_bytes() >= operand.memory->size_bytes();
        work_bytes += array(i).size_bytes();
    }
    Launcher launcher(queue.device(), *entry, std::move(uniforms));
    QueueState::Submission submission(queue.state(), work_bytes);
    for (std::size_t i = 0; i < program.arrays.size(); ++i)
        submission.use(array(i).memory());
    ExpressionSink sink(submission, *device.native, launcher, program.stores.size());
    if (places.is_dense) {
        call.contiguous = true;
        call.shape[0] = count;
        if (one_window) {
            launcher.launch(submission, call);
        } else {
            split(call, sink);
        }
        return;
    }
    std::vector<const Strides*> strides_bytes;
    for (const Strides& strides : places.strides_bytes)
        strides_bytes.push_back(&strides);
    split_strided(call, *places.shape, strides_bytes, sink);
}

void elementwise(Queue& queue, std::string_view expression, std::span<const NamedOperand> operands) {
    run_expression(queue, "elementwise", expression, operands);
}

void elementwise(Queue& queue, std::string_view expression, std::initializer_list<NamedOperand> operands) {
    run_expression(queue, "elementwise", expression, operands);
}

}  // namespace tandem
