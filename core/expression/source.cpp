#include "core/expression/source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kernels/elementwise.hpp"
#include "kernels/embedded_expression.hpp"

namespace tandem::expression {
namespace {

// What the languages differ in.
constexpr const char* cuda_prelude = R"(
#define TD_CUDA 1
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef unsigned char b1; typedef float f32; typedef double f64;
#define TD_FN static __device__ __forceinline__
#define TD_KERNEL extern "C" __global__ void __launch_bounds__(TD_GROUP_ITEMS)
#define TD_GLOBAL
#define TD_CALL const __grid_constant__ struct tandem_call
#define TD_ITEM ((u64)blockIdx.x * TD_GROUP_ITEMS + threadIdx.x)
#define TD_UNROLL _Pragma("unroll")
#define TD_MATH_f32(name) name##f
#define TD_MATH_f64(name) name
#define TD_ROUNDED(x) (x)
#define TD_F32_BITS(x) __float_as_uint(x)
#define TD_BITS_F32(x) __uint_as_float(x)
#define TD_BITS_F64(x) __longlong_as_double((long long)(x))
typedef uint4 td_word_16; typedef uint2 td_word_8;
TD_FN f32 td_value_float16(u16 bits) {
    f32 value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
TD_FN u16 td_bits_float16(f32 value) { /* through 32 bits, as kernels/elementwise.cuh explains */
    u32 both;
    asm("{ .reg .b16 half; cvt.rn.f16.f32 half, %1; mov.b32 %0, {half, half}; }" : "=r"(both) : "f"(value));
    return (u16)both;
}
)";
constexpr const char* opencl_prelude = R"(
#pragma OPENCL FP_CONTRACT OFF
typedef char i8; typedef short i16; typedef int i32; typedef long i64;
typedef uchar u8; typedef ushort u16; typedef uint u32; typedef ulong u64;
typedef uchar b1; typedef float f32;
#define TD_FN static inline
#define TD_KERNEL __kernel __attribute__((reqd_work_group_size(TD_GROUP_ITEMS, 1, 1))) void
#define TD_GLOBAL __global
#define TD_CALL const struct tandem_call
#define TD_ITEM get_global_id(0)
#define TD_UNROLL _Pragma("unroll")
#define TD_MATH_f32(name) name
#define TD_MATH_f64(name) name
#define TD_ROUNDED(x) (x)
#define TD_F32_BITS(x) as_uint(x)
#define TD_BITS_F32(x) as_float(x)
#define TD_BITS_F64(x) as_double(x)
typedef uint4 td_word_16; typedef uint2 td_word_8;
TD_FN f32 td_value_float16(u16 bits) { return vload_half(0, (const __private half*)&bits); }
TD_FN u16 td_bits_float16(f32 value) {
    u16 bits;
    vstore_half_rte(value, 0, (__private half*)&bits);
    return bits;
}
)";
constexpr const char* opencl_float64 = R"(
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
typedef double f64;
)";
constexpr const char* words = R"(
typedef u32 td_word_4; typedef u16 td_word_2; typedef u8 td_word_1;
)";
// The element's place in each operand: `locate` adds it to `at`, and returns how many elements the innermost row still has. A
// 64-bit division costs several times as much as one of 32 bits.
constexpr const char* locate = R"(
TD_FN u64 td_locate(const struct tandem_call* call, u64 index, u64* at) {
    const b1 is_short = (call->count >> 32) == 0;
    u64 row = 0;
    for (int d = TD_DIMENSIONS - 1; d >= (int)call->first_dimension; --d) {
        const u64 size = (u64)call->shape[d];
        u64 position = index;
        if (d > (int)call->first_dimension) {
            index = is_short ? (u64)((u32)index / (u32)size) : index / size;
            position -= index * size;
        }
        if (d == TD_DIMENSIONS - 1) row = size - position;
        TD_UNROLL for (int i = 0; i < TD_ARRAYS; ++i) at[i] += position * (u64)call->strides[i][d];
    }
    return row;
}
)";

// The names of kernels/expression_functions.h.
constexpr std::string_view type_name(DType dtype) noexcept {
    constexpr std::string_view names[] = {"b1",  "i8",  "i16", "i32", "i64", "u8",  "u16", "u32",
                                          "u64", "u16", "u16", "f32", "f64", "c64", "c128"};
    return names[static_cast<std::size_t>(dtype)];
}

std::string function(const Program& program, const Step& step) {
    const DType from = program.steps[static_cast<std::size_t>(step.arguments[0])].dtype;
    switch (step.op) {
        case StepOp::convert:
            return fmt::format("td_{}_from_{}", type_name(step.dtype), type_name(from));
        case StepOp::round_float16:
            return "td_round_float16";
        case StepOp::round_bfloat16:
            return "td_round_bfloat16";
        case StepOp::odd_float32:
            return "td_odd_from_f64";
        case StepOp::select:
            return fmt::format("td_where_{}", type_name(step.dtype));
        default:
            return fmt::format("td_{}_{}", function_name(step.op), type_name(from));
    }
}

// The macro that defines a conversion.
std::string conversion(DType to, DType from) {
    const std::string_view t = type_name(to);
    const std::string_view f = type_name(from);
    if (is_complex(to)) {
        return fmt::format("{}({}, {}, {})", is_complex(from) ? "TD_COMPLEX_TO_COMPLEX" : "TD_TO_COMPLEX", t,
                           type_name(component_type(to)), f);
    }
    if (to == DType::boolean) return fmt::format("TD_TRUTH({}, {})", t, f);
    if (is_integer(to) && is_floating(from)) return fmt::format("TD_TO_{}({}, {})", t, t, f);
    return fmt::format("TD_PLAIN({}, {})", t, f);
}

class Writer {
public:
    Writer(const Program& program, Dialect dialect, Layout layout)
        : program_(program), dialect_(dialect), layout_(layout), elements_(pack_elements(program)) {}

    std::string run() {
        write_functions();
        write_call();
        write_element();
        write_accesses();
        write_kernel();
        return std::move(text_);
    }

private:
    template <class... Arguments>
    void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
        fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
        text_ += '\n';
    }

    [[nodiscard]] DType dtype(std::size_t array) const {
        return program_.operands[static_cast<std::size_t>(program_.arrays[array])].type.dtype;
    }
    [[nodiscard]] bool is_read(std::size_t array) const {
        return program_.is_read[static_cast<std::size_t>(program_.arrays[array])];
    }
    [[nodiscard]] bool is_output(std::size_t array) const { return array < program_.stores.size(); }

    [[nodiscard]] bool has_shape() const { return layout_ == Layout::aligned || layout_ == Layout::bytes; }

    void write_functions() {
        std::set<DType> types;
        for (const Step& step : program_.steps) {
            if (!step.is_uniform || is_passed(step)) types.insert(step.dtype);
        }
        for (std::size_t i = 0; i < program_.arrays.size(); ++i)
            types.insert(carrier(dtype(i)));
        types.insert(DType::float32);  // others' conversions and complex64 need it
        if (types.contains(DType::complex128)) types.insert(DType::float64);

        text_ += fmt::format("#define TD_GROUP_ITEMS {}\n#define TD_DIMENSIONS {}\n#define TD_ARRAYS {}\n",
                             dialect_ == Dialect::opencl_cpu ? 1 : group_items, max_kernel_dimensions, program_.arrays.size());
        text_ += dialect_ == Dialect::cuda ? cuda_prelude : opencl_prelude;
        if (dialect_ != Dialect::cuda && types.contains(DType::float64)) text_ += opencl_float64;
        text_ += words;
        if (types.contains(DType::complex64)) line("typedef struct {{ f32 x, y; }} c64;");
        if (types.contains(DType::complex128)) line("typedef struct {{ f64 x, y; }} c128;");
        text_ += embedded::expression_functions();
        for (const DType type : types)
            line("TD_TYPE_{}", type_name(type));
        std::set<std::string> conversions;
        for (const Step& step : program_.steps) {
            if (step.is_uniform) continue;
            if (step.op == StepOp::convert)
                conversions.insert(conversion(step.dtype, program_.steps[static_cast<std::size_t>(step.arguments[0])].dtype));
            if (step.op == StepOp::odd_float32) conversions.insert("TD_ODD_f64");
        }
        for (const std::string& one : conversions)
            line("{}", one);
    }

    [[nodiscard]] bool is_passed(const Step& step) const {
        const auto index = static_cast<std::int32_t>(&step - program_.steps.data());
        return std::find(program_.uniforms.begin(), program_.uniforms.end(), index) != program_.uniforms.end();
    }

    void write_call() {
        line("struct tandem_call {{");
        line("    u64 count, packs, head, elements_per_item;");
        if (!program_.uniforms.empty()) line("    u64 uniforms[{}];", 2 * program_.uniforms.size());
        if (has_shape()) line("    i64 first_dimension, shape[TD_DIMENSIONS], strides[TD_ARRAYS][TD_DIMENSIONS];");
        line("}};");
        if (has_shape()) text_ += locate;
    }

    std::string uniform_value(std::size_t k, DType type) {
        const auto word = [&](std::size_t i) { return fmt::format("call->uniforms[{}]", 2 * k + i); };
        switch (type) {
            case DType::float32:
                return fmt::format("TD_BITS_F32((u32){})", word(0));
            case DType::float64:
                return fmt::format("TD_BITS_F64({})", word(0));
            case DType::complex64:
                return fmt::format("td_make_c64(TD_BITS_F32((u32){}), TD_BITS_F32((u32)({} >> 32)))", word(0), word(0));
            case DType::complex128:
                return fmt::format("td_make_c128(TD_BITS_F64({}), TD_BITS_F64({}))", word(0), word(1));
            default:
                return fmt::format("({}){}", type_name(type), word(0));
        }
    }

    std::string loaded_value(std::size_t array) {
        switch (dtype(array)) {
            case DType::boolean:
                return fmt::format("(b1)(in_{} != 0)", array);
            case DType::float16:
            case DType::bfloat16:
                return fmt::format("td_value_{}(in_{})", to_string(dtype(array)), array);
            default:
                return fmt::format("in_{}", array);
        }
    }

    // One element: bits in, bits out.
    void write_element() {
        text_ += "TD_FN void td_element(const struct tandem_call* call";
        for (std::size_t i = 0; i < program_.arrays.size(); ++i) {
            if (is_read(i)) text_ += fmt::format(", {} in_{}", type_name(dtype(i)), i);
        }
        for (std::size_t i = 0; i < program_.stores.size(); ++i)
            text_ += fmt::format(", {}* out_{}", type_name(dtype(i)), i);
        line(") {{");
        for (std::size_t i = 0; i < program_.steps.size(); ++i) {
            const Step& step = program_.steps[i];
            if (step.is_uniform && !is_passed(step)) continue;
            std::string value;
            if (step.is_uniform) {
                const auto found = std::find(program_.uniforms.begin(), program_.uniforms.end(), static_cast<std::int32_t>(i));
                value = uniform_value(static_cast<std::size_t>(found - program_.uniforms.begin()), step.dtype);
            } else if (step.op == StepOp::load) {
                value = loaded_value(program_.array_of(step.operand));
            } else {
                value = function(program_, step) + "(";
                for (int k = 0; k < argument_count(step); ++k)
                    value += fmt::format("{}v{}", k == 0 ? "" : ", ", step.arguments[static_cast<std::size_t>(k)]);
                value += ")";
            }
            line("    const {} v{} = {};", type_name(step.dtype), i, value);
        }
        for (std::size_t i = 0; i < program_.stores.size(); ++i) {
            const bool is_half = carrier(dtype(i)) != dtype(i);
            line("    *out_{} = {}v{}{};", i, is_half ? fmt::format("td_bits_{}(", to_string(dtype(i))) : "",
                 program_.stores[i].step, is_half ? ")" : "");
        }
        line("}}");
    }

    // td_load_TYPE and td_store_TYPE for one element.
    void write_accesses() {
        std::set<std::string_view> done;
        for (std::size_t i = 0; i < program_.arrays.size(); ++i) {
            const DType part = component_type(dtype(i));
            if (done.insert(type_name(part)).second) write_access(type_name(part), size_bytes(part));
            if (!is_complex(dtype(i)) || !done.insert(type_name(dtype(i))).second) continue;
            const std::string_view c = type_name(dtype(i));
            const std::string_view t = type_name(part);
            line("TD_FN {0} td_load_{0}(TD_GLOBAL const u8* from) {{", c);
            line("    return td_make_{0}(td_load_{1}(from), td_load_{1}(from + sizeof({1})));", c, t);
            line("}}");
            line("TD_FN void td_store_{0}(TD_GLOBAL u8* to, {0} value) {{", c);
            line("    td_store_{0}(to, value.x);\n    td_store_{0}(to + sizeof({0}), value.y);", t);
            line("}}");
        }
    }

    void write_access(std::string_view type, std::size_t bytes) {
        if (layout_ == Layout::bytes && dialect_ != Dialect::opencl_cpu && bytes > 1) {
            line("TD_FN {0} td_load_{0}(TD_GLOBAL const u8* from) {{", type);
            line("    union {{ {} value; u8 byte[{}]; }} both;", type, bytes);
            line("    TD_UNROLL for (int i = 0; i < {}; ++i) both.byte[i] = from[i];\n    return both.value;\n}}", bytes);
            line("TD_FN void td_store_{0}(TD_GLOBAL u8* to, {0} value) {{", type);
            line("    union {{ {} value; u8 byte[{}]; }} both;\n    both.value = value;", type, bytes);
            line("    TD_UNROLL for (int i = 0; i < {}; ++i) to[i] = both.byte[i];\n}}", bytes);
            return;
        }
        std::string word(type);
        if (dialect_ == Dialect::opencl_cpu) {
            word = fmt::format("td_{}_anywhere", type);
            line("typedef {} {} __attribute__((aligned(1)));", type, word);
        }
        line("TD_FN {0} td_load_{0}(TD_GLOBAL const u8* from) {{ return *(TD_GLOBAL const {1}*)from; }}", type, word);
        line("TD_FN void td_store_{0}(TD_GLOBAL u8* to, {0} value) {{ *(TD_GLOBAL {1}*)to = value; }}", type, word);
    }

    // One element of each operand; `place` gives the address within the i-th array.
    template <class Place>
    void write_one(std::string_view indent, Place&& place) {
        std::string call = "td_element(&call";
        for (std::size_t i = 0; i < program_.arrays.size(); ++i) {
            if (!is_read(i)) continue;
            line("{}const {} x{} = td_load_{}({});", indent, type_name(dtype(i)), i, type_name(dtype(i)), place(i));
            call += fmt::format(", x{}", i);
        }
        for (std::size_t i = 0; i < program_.stores.size(); ++i) {
            line("{}{} y{};", indent, type_name(dtype(i)), i);
            call += fmt::format(", &y{}", i);
        }
        line("{}{});", indent, call);
        for (std::size_t i = 0; i < program_.stores.size(); ++i)
            line("{}td_store_{}({}, y{});", indent, type_name(dtype(i)), place(i), i);
    }

    void write_kernel() {
        if (layout_ == Layout::packs && dialect_ != Dialect::opencl_cpu) write_packs();
        text_ += "TD_KERNEL ";
        text_ += kernel_name;
        text_ += "(";
        for (std::size_t i = 0; i < program_.arrays.size(); ++i)
            text_ += fmt::format("TD_GLOBAL {}u8* p{}, const u64 o{}, ", is_output(i) ? "" : "const ", i, i);
        line("TD_CALL call) {{");
        line("    const u64 item = TD_ITEM;");
        if (layout_ == Layout::packs) {
            dialect_ == Dialect::opencl_cpu ? write_stretch() : write_pack_body();
        } else if (layout_ == Layout::loose) {
            write_loose();
        } else {
            dialect_ == Dialect::opencl_cpu ? write_rows() : write_strided();
        }
        line("}}");
    }

    void write_packs() {
        for (std::size_t i = 0; i < program_.arrays.size(); ++i) {
            const std::size_t bytes = size_bytes(dtype(i)) * elements_;
            const std::size_t word = access_bytes(size_bytes(dtype(i)), elements_);
            line("union td_pack_{} {{ td_word_{} word[{}]; {} element[{}]; }};", i, word, bytes / word, type_name(dtype(i)),
                 elements_);
        }
    }

    // All loads come before the first store, since the compiler must take them to overlap.
    void write_pack_body() {
        const auto place = [&](std::size_t i, std::string_view index) {
            return fmt::format("p{} + o{} + {} * {}", i, i, index, size_bytes(dtype(i)));
        };
        line("    if (item < call.packs) {{");
        line("        const u64 first = call.head + item * {};", elements_);
        std::string call = "td_element(&call";
        for (std::size_t i = 0; i < program_.arrays.size(); ++i) {
            if (!is_read(i)) continue;
            const std::size_t word = access_bytes(size_bytes(dtype(i)), elements_);
            line("        union td_pack_{} x{};", i, i);
            for (std::size_t k = 0; k < size_bytes(dtype(i)) * elements_ / word; ++k)
                line("        x{}.word[{}] = ((TD_GLOBAL const td_word_{}*)({}))[{}];", i, k, word, place(i, "first"), k);
            call += fmt::format(", x{}.element[e]", i);
        }
        for (std::size_t i = 0; i < program_.stores.size(); ++i) {
            line("        union td_pack_{} y{};", i, i);
            call += fmt::format(", &y{}.element[e]", i);
        }
        line("        TD_UNROLL for (int e = 0; e < {}; ++e) {});", elements_, call);
        for (std::size_t i = 0; i < program_.stores.size(); ++i) {
            const std::size_t word = access_bytes(size_bytes(dtype(i)), elements_);
            for (std::size_t k = 0; k < size_bytes(dtype(i)) * elements_ / word; ++k)
                line("        ((TD_GLOBAL td_word_{}*)({}))[{}] = y{}.word[{}];", word, place(i, "first"), k, i, k);
        }
        line("    }}");
        line("    if (item < call.count - call.packs * {}) {{", elements_);
        line("        const u64 index = item < call.head ? item : item + call.packs * {};", elements_);
        write_one("        ", [&](std::size_t i) { return place(i, "index"); });
        line("    }}");
    }

    void write_loose() {
        const auto place = [&](std::size_t i, std::string_view index) {
            return fmt::format("p{} + o{} + {} * {}", i, i, index, size_bytes(dtype(i)));
        };
        line("    const u64 first = item / TD_GROUP_ITEMS * {} + item % TD_GROUP_ITEMS;", group_items * loose_elements);
        line("    if (first + {} < call.count) {{", group_items * (loose_elements - 1));
        std::string call = "td_element(&call";
        for (std::size_t i = 0; i < program_.arrays.size(); ++i) {
            if (!is_read(i)) continue;
            line("        {} x{}[{}];", type_name(dtype(i)), i, loose_elements);
            line("        TD_UNROLL for (int k = 0; k < {}; ++k) x{}[k] = td_load_{}({});", loose_elements, i,
                 type_name(dtype(i)), place(i, "(first + k * TD_GROUP_ITEMS)"));
            call += fmt::format(", x{}[k]", i);
        }
        line("        TD_UNROLL for (int k = 0; k < {}; ++k) {{", loose_elements);
        for (std::size_t i = 0; i < program_.stores.size(); ++i) {
            line("            {} y{};", type_name(dtype(i)), i);
            call += fmt::format(", &y{}", i);
        }
        line("            {});", call);
        for (std::size_t i = 0; i < program_.stores.size(); ++i)
            line("            td_store_{}({}, y{});", type_name(dtype(i)), place(i, "(first + k * TD_GROUP_ITEMS)"), i);
        line("        }}\n    }} else {{");
        line("        for (u64 index = first; index < call.count; index += TD_GROUP_ITEMS) {{");
        write_one("            ", [&](std::size_t i) { return place(i, "index"); });
        line("        }}\n    }}");
    }

    // An element that is also an output is read and written at one place, which is no dependence between iterations.
    void write_stretch() {
        line("    const u64 first = item * call.elements_per_item;");
        line("    const u64 rest = first < call.count ? call.count - first : 0;");
        line("    const u64 steps = rest < call.elements_per_item ? rest : call.elements_per_item;");
        write_parallel("    ",
                       [&](std::size_t i) { return fmt::format("p{0} + o{0} + (first + k) * {1}", i, size_bytes(dtype(i))); });
    }

    template <class Place>
    void write_parallel(std::string_view indent, Place&& place) {
        line("#ifdef __clang__\n#pragma clang loop vectorize(assume_safety)\n#endif");
        line("{}for (u64 k = 0; k < steps; ++k) {{", indent);
        write_one(std::string(indent) + "    ", place);
        line("{}}}", indent);
    }

    void write_offsets(std::string_view indent) {
        std::string places;
        for (std::size_t i = 0; i < program_.arrays.size(); ++i)
            places += fmt::format("{}o{}", i == 0 ? "" : ", ", i);
        line("{}u64 at[TD_ARRAYS] = {{{}}};", indent, places);
    }

    void write_strided() {
        line("    if (item < call.count) {{");
        write_offsets("        ");
        line("        td_locate(&call, item, at);");
        write_one("        ", [&](std::size_t i) { return fmt::format("p{} + at[{}]", i, i); });
        line("    }}");
    }

    void write_rows() {
        line("    u64 index = item * call.elements_per_item;");
        line("    const u64 end = index + call.elements_per_item < call.count ? index + call.elements_per_item : call.count;");
        line("    while (index < end) {{");
        write_offsets("        ");
        line("        const u64 row = td_locate(&call, index, at);");
        line("        const u64 steps = row < end - index ? row : end - index;");
        write_parallel("        ", [&](std::size_t i) {
            return fmt::format("p{0} + at[{0}] + k * (u64)call.strides[{0}][TD_DIMENSIONS - 1]", i);
        });
        line("        index += steps;");
        line("    }}");
    }

    const Program& program_;
    Dialect dialect_;
    Layout layout_;
    std::uint64_t elements_;
    std::string text_;
};

}  // namespace

std::uint64_t pack_elements(const Program& program) noexcept {
    std::size_t smallest = 16;
    std::size_t largest = 1;
    for (const std::int32_t operand : program.arrays) {
        const std::size_t bytes = size_bytes(program.operands[static_cast<std::size_t>(operand)].type.dtype);
        smallest = std::min(smallest, bytes);
        largest = std::max(largest, bytes);
    }
    return std::min(16 / smallest, 64 / largest);
}

std::size_t access_bytes(std::size_t item_bytes, std::uint64_t elements) noexcept {
    return std::min<std::size_t>(16, item_bytes * elements);
}

std::string kernel_source(const Program& program, Dialect dialect, Layout layout) {
    return Writer(program, dialect, layout).run();
}

}  // namespace tandem::expression
