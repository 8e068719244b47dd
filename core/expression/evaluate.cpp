#include "core/expression/evaluate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/expression/lexer.hpp"
#include "core/instruction_set.hpp"
#include "kernels/elementwise.hpp"

namespace tandem::expression {

// Defined by kernels/expression.cpp, once for each instruction set that the build has.
extern const HostLoops host_loops_baseline;
extern const HostLoops host_loops_x86_64_v3;
extern const HostLoops host_loops_x86_64_v4;

namespace {

const HostLoops& loops() noexcept {
    [[maybe_unused]] const InstructionSet best = best_instruction_set();
#if defined(TANDEM_HAS_x86_64_v4)
    if (best == InstructionSet::x86_64_v4) return host_loops_x86_64_v4;
#endif
#if defined(TANDEM_HAS_x86_64_v3)
    if (best == InstructionSet::x86_64_v3) return host_loops_x86_64_v3;
#endif
    return host_loops_baseline;
}

HostLoop loop_for(const Program& program, const Step& step) {
    const int arguments = argument_count(step);
    const DType last = program.steps[static_cast<std::size_t>(step.arguments[static_cast<std::size_t>(arguments - 1)])].dtype;
    HostLoop loop = step.op == StepOp::convert
                        ? loops().conversions[static_cast<std::size_t>(step.dtype)][static_cast<std::size_t>(last)]
                        : loops().by_argument[static_cast<std::size_t>(step.op)][static_cast<std::size_t>(last)];
    if (loop == nullptr) {
        throw Error(ErrorCode::internal,
                    fmt::format("elementwise: the host has no '{}' of {}", function_name(step.op), to_string(last)));
    }
    return loop;
}

void write_literal(const Literal& literal, std::byte* to) {
    const auto put = [&](auto value) { std::memcpy(to, &value, sizeof value); };
    switch (literal.type.dtype) {
        case DType::boolean:
            return put(static_cast<std::uint8_t>(literal.integer));
        case DType::float64:
            return put(literal.real.real());
        case DType::complex128:
            return put(literal.real);
        default:
            return put(literal.integer);
    }
}

// Whether the integer of 64 bits fits into `to`.
bool fits(DType from, const std::byte* bytes, DType to) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, sizeof word);
    const bool is_negative = from == DType::int64 && static_cast<std::int64_t>(word) < 0;
    const auto bits = static_cast<unsigned>(8 * size_bytes(to));
    if (category(to) == Category::unsigned_integer) return !is_negative && (bits == 64 || word >> bits == 0);
    const std::uint64_t magnitude = is_negative ? ~word : word;
    return magnitude >> (bits - 1) == 0;
}

std::string integer_text(DType from, const std::byte* bytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, sizeof word);
    return from == DType::int64 ? fmt::format("{}", static_cast<std::int64_t>(word)) : fmt::format("{}", word);
}

}  // namespace

std::vector<std::uint64_t> evaluate_uniforms(std::string_view operation, const Program& program,
                                             std::span<const ScalarBytes> scalars) {
    struct alignas(16) Register {
        std::array<std::byte, 16> bytes{};
    };
    if (program.uniforms.empty()) return {};
    std::array<Register, 32> few;  // and no allocation
    std::vector<Register> many(program.steps.size() > few.size() ? program.steps.size() : 0);
    Register* registers = many.empty() ? few.data() : many.data();
    for (std::size_t i = 0; i < program.steps.size(); ++i) {
        const Step& step = program.steps[i];
        if (!step.is_uniform) continue;
        std::byte* out = registers[i].bytes.data();
        if (step.op == StepOp::constant) {
            if (step.literal >= 0) {
                write_literal(program.literals[static_cast<std::size_t>(step.literal)], out);
            } else {
                const DType dtype = program.operands[static_cast<std::size_t>(step.operand)].type.dtype;
                const std::byte* from = scalars[static_cast<std::size_t>(step.operand)].bytes.data();
                loops().loads[static_cast<std::size_t>(dtype)](out, from, static_cast<std::int64_t>(size_bytes(dtype)), 1);
            }
            continue;
        }
        std::array<const std::byte*, 3> arguments{};
        for (std::size_t k = 0; k < static_cast<std::size_t>(argument_count(step)); ++k)
            arguments[k] = registers[static_cast<std::size_t>(step.arguments[k])].bytes.data();
        if (step.is_checked) {
            const DType from = program.steps[static_cast<std::size_t>(step.arguments[0])].dtype;
            if (!fits(from, arguments[0], step.dtype)) {
                refuse_at(operation, step.position,
                          fmt::format("{} does not fit {}", integer_text(from, arguments[0]), to_string(step.dtype)));
            }
        }
        loop_for(program, step)(out, arguments[0], arguments[1], arguments[2], 1);
    }
    std::vector<std::uint64_t> words(2 * program.uniforms.size());
    for (std::size_t k = 0; k < program.uniforms.size(); ++k)
        std::memcpy(&words[2 * k], registers[static_cast<std::size_t>(program.uniforms[k])].bytes.data(), 16);
    return words;
}

namespace {

constexpr std::size_t head_words = 4;
constexpr std::size_t dimensions_at_most = max_kernel_dimensions;
// Outputs larger than this don't stay in the caches until somebody reads them, so they are written past the caches.
constexpr std::uint64_t streaming_bytes = std::uint64_t{16} << 20U;
constexpr std::uint64_t streamed_block_bytes = 4096;  // of the output, at most

// A call's arguments, as kernels are given them.
struct Call {
    std::array<std::byte*, max_arrays> addresses{};
    std::uint64_t count = 0;
    const std::uint64_t* uniforms = nullptr;
    const std::uint64_t* first_dimension = nullptr;  // followed by the shape and the strides
};

class Evaluator {
public:
    Evaluator(std::shared_ptr<const Program> program, Layout layout) : program_(std::move(program)), layout_(layout) {
        const std::vector<Step>& steps = program_->steps;
        loops_.resize(steps.size());
        places_.resize(steps.size());
        std::vector<std::size_t> last_use(steps.size(), 0);
        for (std::size_t i = 0; i < steps.size(); ++i) {
            for (const std::int32_t argument : steps[i].arguments) {
                if (argument >= 0) last_use[static_cast<std::size_t>(argument)] = i;
            }
        }
        for (const Store& store : program_->stores)
            last_use[static_cast<std::size_t>(store.step)] = steps.size();
        // Registers are used again as soon as their value is not needed any more: the fewer, the better they stay in the caches.
        std::vector<std::pair<std::size_t, std::size_t>> unused;  // bytes and place
        const auto take = [&](std::size_t bytes) {
            const auto found = std::find_if(unused.begin(), unused.end(), [&](const auto& one) { return one.first == bytes; });
            if (found != unused.end()) {
                const std::size_t place = found->second;
                unused.erase(found);
                return place;
            }
            const std::size_t place = scratch_bytes_;
            scratch_bytes_ += bytes;
            return place;
        };
        for (std::size_t i = 0; i < steps.size(); ++i) {
            const Step& step = steps[i];
            if (step.is_uniform && !is_passed(i)) continue;
            places_[i] = step.is_uniform ? scratch_bytes_ : take(block_bytes(step));
            if (step.is_uniform) {
                scratch_bytes_ += block_bytes(step);
                continue;
            }
            if (step.op != StepOp::load) loops_[i] = loop_for(*program_, step);
            for (std::size_t k = 0; k < static_cast<std::size_t>(argument_count(step)); ++k) {
                const auto argument = static_cast<std::size_t>(step.arguments[k]);
                const bool is_repeated =
                    std::find(step.arguments.begin(), step.arguments.begin() + static_cast<std::ptrdiff_t>(k),
                              step.arguments[k]) != step.arguments.begin() + static_cast<std::ptrdiff_t>(k);
                if (last_use[argument] == i && !steps[argument].is_uniform && !is_repeated)
                    unused.emplace_back(block_bytes(steps[argument]), places_[argument]);
            }
        }
        // The last step may write to the output itself.
        const Store& first = program_->stores[0];
        const auto last = static_cast<std::size_t>(first.step);
        const DType dtype = program_->operands[static_cast<std::size_t>(first.operand)].type.dtype;
        writes_directly_ = program_->stores.size() == 1 && last + 1 == steps.size() && !steps[last].is_uniform &&
                           steps[last].op != StepOp::load && carrier(dtype) == dtype;
    }

    void run(const ItemRange& items, const void* const* arguments) const {
        const Call call = read(arguments);
        // A cache line more, so that registers start at one.
        std::vector<std::byte> memory(scratch_bytes_ + 64);
        std::byte* scratch = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64);
        for (std::size_t k = 0; k < program_->uniforms.size(); ++k) {
            const auto i = static_cast<std::size_t>(program_->uniforms[k]);
            const std::size_t bytes = size_bytes(program_->steps[i].dtype);
            for (std::size_t at = 0; at < block_bytes(program_->steps[i]); at += bytes)
                std::memcpy(scratch + places_[i] + at, call.uniforms + 2 * k, bytes);
        }
        std::vector<void*> registers(program_->steps.size());
        // Not where the output is an input too, whose lines are in the caches.
        bool is_streamed = writes_directly_ && call.count * size_bytes(dtype(0)) >= streaming_bytes;
        for (std::size_t i = 0; i < program_->arrays.size(); ++i)
            is_streamed = is_streamed && (i == 0 ? !program_->is_read[static_cast<std::size_t>(program_->arrays[0])]
                                                 : call.addresses[i] != call.addresses[0]);
        // Shorter where the next block's arguments are on their way into the same cache.
        const std::uint64_t most = is_streamed ? streamed_block_bytes / size_bytes(dtype(0)) : std::uint64_t{block_elements};
        const std::uint64_t block = std::min(most, std::uint64_t{block_elements});
        for (std::uint64_t first = items.begin[0]; first < items.end[0]; first += block) {
            const auto count = static_cast<std::int64_t>(std::min(block, items.end[0] - first));
            run_block(call, first, count, scratch, registers, is_streamed);
        }
        if (is_streamed) loops().end_streams();
    }

private:
    static std::size_t block_bytes(const Step& step) noexcept {
        return size_bytes(step.dtype) * static_cast<std::size_t>(block_elements);
    }
    [[nodiscard]] bool is_passed(std::size_t step) const {
        return std::find(program_->uniforms.begin(), program_->uniforms.end(), static_cast<std::int32_t>(step)) !=
               program_->uniforms.end();
    }
    [[nodiscard]] DType dtype(std::size_t array) const {
        return program_->operands[static_cast<std::size_t>(program_->arrays[array])].type.dtype;
    }

    [[nodiscard]] Call read(const void* const* arguments) const {
        Call call;
        const std::size_t arrays = program_->arrays.size();
        for (std::size_t i = 0; i < arrays; ++i) {
            std::byte* base = nullptr;
            std::uint64_t offset = 0;
            std::memcpy(&base, arguments[2 * i], sizeof base);
            std::memcpy(&offset, arguments[2 * i + 1], sizeof offset);
            call.addresses[i] = base + offset;
        }
        const auto* words = static_cast<const std::uint64_t*>(arguments[2 * arrays]);
        call.count = words[0];
        call.uniforms = words + head_words;
        if (layout_ != Layout::packs) call.first_dimension = call.uniforms + 2 * program_->uniforms.size();
        return call;
    }

    // Calls `visit(offsets, strides, position, count)` for each part of the block that lies in one row.
    template <class Visit>
    void each_row(const Call& call, std::uint64_t first, std::int64_t count, Visit&& visit) const {
        const std::size_t arrays = program_->arrays.size();
        std::array<std::int64_t, max_arrays> offsets{};
        std::array<std::int64_t, max_arrays> strides{};
        if (layout_ == Layout::packs) {
            for (std::size_t i = 0; i < arrays; ++i) {
                strides[i] = static_cast<std::int64_t>(size_bytes(dtype(i)));
                offsets[i] = static_cast<std::int64_t>(first) * strides[i];
            }
            visit(offsets, strides, std::int64_t{0}, count);
            return;
        }
        const auto first_dimension = static_cast<std::size_t>(*call.first_dimension);
        const std::uint64_t* shape = call.first_dimension + 1;
        const std::uint64_t* all_strides = shape + dimensions_at_most;
        constexpr std::size_t inner = dimensions_at_most - 1;
        for (std::size_t i = 0; i < arrays; ++i)
            strides[i] = static_cast<std::int64_t>(all_strides[i * dimensions_at_most + inner]);
        for (std::int64_t position = 0; position < count;) {
            std::uint64_t rest = first + static_cast<std::uint64_t>(position);
            offsets.fill(0);
            std::int64_t row = 0;
            for (std::size_t d = dimensions_at_most; d-- > first_dimension;) {
                const std::uint64_t index = d > first_dimension ? rest % shape[d] : rest;
                rest /= shape[d];
                if (d == inner) row = static_cast<std::int64_t>(shape[d] - index);
                for (std::size_t i = 0; i < arrays; ++i)
                    offsets[i] += static_cast<std::int64_t>(index * all_strides[i * dimensions_at_most + d]);
            }
            const std::int64_t now = std::min(row, count - position);
            visit(offsets, strides, position, now);
            position += now;
        }
    }

    void run_block(const Call& call, std::uint64_t first, std::int64_t count, std::byte* scratch, std::vector<void*>& registers,
                   bool is_streamed) const {
        using Numbers = std::array<std::int64_t, max_arrays>;
        const std::vector<Step>& steps = program_->steps;
        // Elements that are dense, aligned and carried as they are stored are worked on where they are.
        std::array<std::byte*, max_arrays> direct{};
        each_row(call, first, count, [&](const Numbers& offsets, const Numbers& strides, std::int64_t, std::int64_t now) {
            if (now != count) return;
            for (std::size_t i = 0; i < program_->arrays.size(); ++i) {
                std::byte* at = call.addresses[i] + offsets[i];
                const bool is_dense = strides[i] == static_cast<std::int64_t>(size_bytes(dtype(i)));
                const bool is_aligned = reinterpret_cast<std::uintptr_t>(at) % component_bytes(dtype(i)) == 0;
                if (is_dense && is_aligned && carrier(dtype(i)) == dtype(i)) direct[i] = at;
            }
        });
        // An output that is stored to before another's value is read must not be read from where it is.
        for (std::size_t i = 0; program_->stores.size() > 1 && i < program_->stores.size(); ++i)
            direct[i] = nullptr;
        const bool is_direct = writes_directly_ && direct[0] != nullptr;
        // Each operation reads its own arguments, a block at a time: too short for the processor to see them coming.
        if (is_streamed) {
            for (std::size_t i = 1; i < program_->arrays.size(); ++i) {
                const std::size_t bytes = static_cast<std::size_t>(count) * size_bytes(dtype(i));
                for (std::size_t at = 0; direct[i] != nullptr && at < bytes; at += 64)
                    __builtin_prefetch(direct[i] + bytes + at);
            }
        }
        for (std::size_t k = 0; k < steps.size(); ++k) {
            registers[k] = scratch + places_[k];
            if (steps[k].op == StepOp::load) {
                registers[k] = load(call, first, count, direct, k, registers[k]);
            } else if (loops_[k] != nullptr) {
                if (is_direct && !is_streamed && k + 1 == steps.size()) registers[k] = direct[0];
                std::array<const void*, 3> arguments{};
                for (std::size_t a = 0; a < 3 && steps[k].arguments[a] >= 0; ++a)
                    arguments[a] = registers[static_cast<std::size_t>(steps[k].arguments[a])];
                loops_[k](registers[k], arguments[0], arguments[1], arguments[2], count);
            }
        }
        if (is_direct) {
            if (is_streamed) loops().stream(direct[0], registers.back(), count * static_cast<std::int64_t>(size_bytes(dtype(0))));
            return;
        }
        for (std::size_t i = 0; i < program_->stores.size(); ++i) {
            const auto step = static_cast<std::size_t>(program_->stores[i].step);
            const HostStore store = loops().stores[static_cast<std::size_t>(dtype(i))];
            const std::size_t bytes = size_bytes(steps[step].dtype);
            each_row(call, first, count,
                     [&](const Numbers& offsets, const Numbers& strides, std::int64_t position, std::int64_t now) {
                         store(call.addresses[i] + offsets[i], strides[i],
                               static_cast<const std::byte*>(registers[step]) + static_cast<std::size_t>(position) * bytes, now);
                     });
        }
    }

    // The elements of a load: where they are, or brought together at `to`.
    void* load(const Call& call, std::uint64_t first, std::int64_t count, const std::array<std::byte*, max_arrays>& direct,
               std::size_t step, void* to) const {
        const std::size_t array = program_->array_of(program_->steps[step].operand);
        if (direct[array] != nullptr && dtype(array) != DType::boolean) return direct[array];  // whose bytes may not be 0 and 1
        const HostLoad load_row = loops().loads[static_cast<std::size_t>(dtype(array))];
        const std::size_t bytes = size_bytes(program_->steps[step].dtype);
        each_row(call, first, count, [&](const auto& offsets, const auto& strides, std::int64_t position, std::int64_t now) {
            load_row(static_cast<std::byte*>(to) + static_cast<std::size_t>(position) * bytes,
                     call.addresses[array] + offsets[array], strides[array], now);
        });
        return to;
    }

    std::shared_ptr<const Program> program_;
    Layout layout_;
    std::vector<HostLoop> loops_;      // null for loads and uniforms
    std::vector<std::size_t> places_;  // of the registers in the scratch memory
    std::size_t scratch_bytes_ = 0;
    bool writes_directly_ = false;
};

}  // namespace

HostFunction host_function(std::shared_ptr<const Program> program, Layout layout) {
    auto evaluator = std::make_shared<const Evaluator>(std::move(program), layout);
    HostFunction function;
    function.run = [evaluator](const ItemRange& items, const void* const* arguments) { evaluator->run(items, arguments); };
    function.max_dimensions = 1;
    return function;
}

}  // namespace tandem::expression
