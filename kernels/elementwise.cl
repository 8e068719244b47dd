// What every elementwise kernel shares in OpenCL C 1.2; kernels/NAME.cl follows in the same text, defines one operation and
// invokes TANDEM_DEFINE_UNARY or TANDEM_DEFINE_BINARY, which emit its kernels: packs_16, _8, _4, _2, _1, strided_aligned and
// strided_bytes, or those of them that differ.
//
// backends/opencl/kernel.cpp defines on the command line: TANDEM_DTYPE_name; TANDEM_LANES, how many components make a pack;
// TANDEM_UNALIGNED, whether the device reads and writes any type at any address (CPUs do); TANDEM_STREAMING; how work is
// spread, TANDEM_GROUP_ITEMS, TANDEM_PACKS_PER_ITEM (0: the call says), TANDEM_ELEMENTS_PER_ITEM; and the limits
// TANDEM_DIMENSIONS and TANDEM_OPERANDS.
//
// Elements are handled as bits, in components: a complex number is two, everything else is one. An operation is a macro that
// takes `one` (a single component) or `pack` (a vector of them), then its inputs' bits, and gives the output's bits.

#pragma OPENCL FP_CONTRACT OFF
#ifdef __clang__  // packs wider than the CPU's registers are passed between functions that are all inlined
#pragma clang diagnostic ignored "-Wpsabi"
#endif

#define TANDEM_JOIN_(a, b) a##b
#define TANDEM_JOIN(a, b) TANDEM_JOIN_(a, b)

// The component: its bits' type, its bytes, how many make an element.
#if defined(TANDEM_DTYPE_boolean) || defined(TANDEM_DTYPE_uint8)
#define TANDEM_COMPONENT uchar
#define TANDEM_COMPONENT_BYTES 1
#elif defined(TANDEM_DTYPE_uint16) || defined(TANDEM_DTYPE_float16) || defined(TANDEM_DTYPE_bfloat16)
#define TANDEM_COMPONENT ushort
#define TANDEM_COMPONENT_BYTES 2
#elif defined(TANDEM_DTYPE_uint32) || defined(TANDEM_DTYPE_float32) || defined(TANDEM_DTYPE_complex64)
#define TANDEM_COMPONENT uint
#define TANDEM_COMPONENT_BYTES 4
#elif defined(TANDEM_DTYPE_uint64) || defined(TANDEM_DTYPE_float64) || defined(TANDEM_DTYPE_complex128)
#define TANDEM_COMPONENT ulong
#define TANDEM_COMPONENT_BYTES 8
#endif
#if defined(TANDEM_DTYPE_complex64) || defined(TANDEM_DTYPE_complex128)
#define TANDEM_COMPONENTS 2
#else
#define TANDEM_COMPONENTS 1
#endif

typedef TANDEM_COMPONENT tandem_one;
typedef TANDEM_JOIN(TANDEM_COMPONENT, TANDEM_LANES) tandem_pack;
#define TANDEM_PACK_BYTES (TANDEM_LANES * TANDEM_COMPONENT_BYTES)

// Values: what sums are formed of. TANDEM_VALUE(n, bits) and TANDEM_BITS(n, value) convert; `n` is one or pack.
#define TANDEM_VALUE(n, bits) tandem_value_##n(bits)
#define TANDEM_BITS(n, value) tandem_bits_##n(value)
#define TANDEM_SUM(left, right) ((left) + (right))
// Expands DEFINE for both shapes; the second argument is what a type's name ends in.
#define TANDEM_EACH_SHAPE(define) define(one, ) TANDEM_WITH_LANES(define, pack, TANDEM_LANES)
#define TANDEM_WITH_LANES(define, n, lanes) define(n, lanes)
// What a move makes of bits.
#define TANDEM_PROPER(bits) (bits)

#if defined(TANDEM_DTYPE_float16)
// Conversions by vload_half and vstore_half need no cl_khr_fp16. They go through private memory, which compilers turn into
// registers, so that the access to global memory has the pack's width and not a half's.
#define TANDEM_CONVERSIONS(n, lanes)                                     \
    static inline float##lanes tandem_value_##n(tandem_##n bits) {       \
        return vload_half##lanes(0, (const __private half*)&bits);       \
    }                                                                    \
    static inline tandem_##n tandem_bits_##n(float##lanes value) {       \
        tandem_##n bits;                                                 \
        vstore_half##lanes##_rte(value, 0, (__private half*)&bits);      \
        return bits;                                                     \
    }
#if defined(__F16C__) && __clang_major__ >= 15
// An x86 CPU: a compiler's vload_half may be emulated there, though the CPU has the instructions. Older versions lack _Float16.
TANDEM_CONVERSIONS(one, )
typedef TANDEM_JOIN(float, TANDEM_LANES) tandem_float_pack;
typedef _Float16 tandem_half_pack __attribute__((ext_vector_type(TANDEM_LANES)));
static inline tandem_float_pack tandem_value_pack(tandem_pack bits) {
    return __builtin_convertvector(__builtin_astype(bits, tandem_half_pack), tandem_float_pack);
}
static inline tandem_pack tandem_bits_pack(tandem_float_pack value) {
    return __builtin_astype(__builtin_convertvector(value, tandem_half_pack), tandem_pack);
}
#else
TANDEM_EACH_SHAPE(TANDEM_CONVERSIONS)
#endif

#elif defined(TANDEM_DTYPE_bfloat16)
// The upper half of a float; rounded to nearest even, a NaN kept one by setting its quiet bit.
#define TANDEM_CONVERSIONS(n, lanes)                                                      \
    static inline float##lanes tandem_value_##n(tandem_##n bits) {                        \
        return as_float##lanes(convert_uint##lanes(bits) << 16);                          \
    }                                                                                     \
    static inline tandem_##n tandem_bits_##n(float##lanes value) {                        \
        const uint##lanes word = as_uint##lanes(value);                                   \
        const uint##lanes rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;         \
        const uint##lanes quiet = (word >> 16) | 0x40u;                                   \
        return convert_ushort##lanes((word & 0x7fffffffu) > 0x7f800000u ? quiet : rounded); \
    }
TANDEM_EACH_SHAPE(TANDEM_CONVERSIONS)

#elif defined(TANDEM_DTYPE_float32) || defined(TANDEM_DTYPE_complex64)
#define tandem_value_one as_float
#define tandem_value_pack TANDEM_JOIN(as_float, TANDEM_LANES)
#define tandem_bits_one as_uint
#define tandem_bits_pack TANDEM_JOIN(as_uint, TANDEM_LANES)

#elif defined(TANDEM_DTYPE_float64) || defined(TANDEM_DTYPE_complex128)
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#define tandem_value_one as_double
#define tandem_value_pack TANDEM_JOIN(as_double, TANDEM_LANES)
#define tandem_bits_one as_ulong
#define tandem_bits_pack TANDEM_JOIN(as_ulong, TANDEM_LANES)

#elif defined(TANDEM_DTYPE_boolean)
#undef TANDEM_SUM
#undef TANDEM_PROPER
#define TANDEM_SUM(left, right) ((left) | (right))
#define TANDEM_PROPER(bits) min(bits, (uchar)1)
#define tandem_value_one TANDEM_PROPER
#define tandem_value_pack TANDEM_PROPER
#define tandem_bits_one(value) (value)
#define tandem_bits_pack(value) (value)

#else
#define tandem_value_one(bits) (bits)
#define tandem_value_pack(bits) (bits)
#define tandem_bits_one(value) (value)
#define tandem_bits_pack(value) (value)
#endif

// Accesses. `packs_16` kernels store packs at addresses that are multiples of TANDEM_PACK_BYTES.
static inline void tandem_store_pack_16(__global uchar* to, tandem_pack bits) { *(__global tandem_pack*)to = bits; }

#if TANDEM_UNALIGNED
typedef tandem_one tandem_one_anywhere __attribute__((aligned(1)));
typedef tandem_pack tandem_pack_anywhere __attribute__((aligned(1)));
static inline tandem_one tandem_load_aligned(__global const uchar* from) { return *(__global const tandem_one_anywhere*)from; }
static inline void tandem_store_aligned(__global uchar* to, tandem_one bits) { *(__global tandem_one_anywhere*)to = bits; }
static inline tandem_pack tandem_load_pack_16(__global const uchar* from) { return *(__global const tandem_pack_anywhere*)from; }
static inline void tandem_store_pack_1(__global uchar* to, tandem_pack bits) { *(__global tandem_pack_anywhere*)to = bits; }
#define tandem_load_pack_1 tandem_load_pack_16

#else  // packs are of 16 bytes
// vloadN asks for the alignment of one lane only, so the lane's size is the access's width.
#define TANDEM_PACK_ACCESS(width, lane, lanes)                                                                 \
    static inline tandem_pack tandem_load_pack_##width(__global const uchar* from) {                           \
        return TANDEM_JOIN(TANDEM_JOIN(as_, TANDEM_COMPONENT), TANDEM_LANES)(vload##lanes(0, (__global const lane*)from)); \
    }                                                                                                          \
    static inline void tandem_store_pack_##width(__global uchar* to, tandem_pack bits) {                       \
        vstore##lanes(as_##lane##lanes(bits), 0, (__global lane*)to);                                          \
    }
TANDEM_PACK_ACCESS(8, ulong, 2)
TANDEM_PACK_ACCESS(4, uint, 4)
TANDEM_PACK_ACCESS(2, ushort, 8)
TANDEM_PACK_ACCESS(1, uchar, 16)
static inline tandem_pack tandem_load_pack_16(__global const uchar* from) { return *(__global const tandem_pack*)from; }

static inline tandem_one tandem_load_aligned(__global const uchar* from) { return *(__global const tandem_one*)from; }
static inline void tandem_store_aligned(__global uchar* to, tandem_one bits) { *(__global tandem_one*)to = bits; }
#if TANDEM_COMPONENT_BYTES == 1
#define tandem_load_bytes tandem_load_aligned
#define tandem_store_bytes tandem_store_aligned
#else
static inline tandem_one tandem_load_bytes(__global const uchar* from) {
    return TANDEM_JOIN(as_, TANDEM_COMPONENT)(TANDEM_JOIN(vload, TANDEM_COMPONENT_BYTES)(0, from));
}
static inline void tandem_store_bytes(__global uchar* to, tandem_one bits) {
    TANDEM_JOIN(vstore, TANDEM_COMPONENT_BYTES)(TANDEM_JOIN(as_uchar, TANDEM_COMPONENT_BYTES)(bits), 0, to);
}
#endif
#endif

// A streaming store leaves the cache alone: where the output is written once and too large to stay there, a CPU is spared
// reading each line before it is overwritten. No fence is needed: what hands a finished kernel over to other threads orders
// these stores too.
#if TANDEM_STREAMING && defined(__has_builtin)
#if __has_builtin(__builtin_nontemporal_store)
#define TANDEM_CAN_STREAM 1
static inline void tandem_stream_pack(__global uchar* to, tandem_pack bits) {
    __builtin_nontemporal_store(bits, (__global tandem_pack*)to);
}
#endif
#endif

// The arguments beside the buffers, as backends/opencl/kernel.cpp fills them in. Offsets and strides are in bytes.
struct tandem_packs {
    ulong offsets[TANDEM_OPERANDS];
    ulong packs;
    uint head;       // components before the packs
    uint edges;      // and those after them
    uint streaming;  // whether the output is to bypass the cache
    uint packs_per_item;
};
#if TANDEM_PACKS_PER_ITEM == 0
#define TANDEM_STEPS call.packs_per_item
#else
#define TANDEM_STEPS TANDEM_PACKS_PER_ITEM
#endif
struct tandem_strided {
    ulong offsets[TANDEM_OPERANDS];
    ulong count;
    long first_dimension;  // dimensions are ranged right, so that the innermost has a fixed place
    long shape[TANDEM_DIMENSIONS];
    long strides[TANDEM_OPERANDS][TANDEM_DIMENSIONS];
};

#define TANDEM_KERNEL __kernel __attribute__((reqd_work_group_size(TANDEM_GROUP_ITEMS, 1, 1))) void
#define TANDEM_UNARY_INPUTS __global const uchar* left
#define TANDEM_BINARY_INPUTS __global const uchar *left, __global const uchar *right
#define TANDEM_UNARY_APPLY(op, n, left, right) op(n, left)
#define TANDEM_BINARY_APPLY(op, n, left, right) op(n, left, right)

#define TANDEM_APPLY_AT(arity, op, n, load, store, at)                                                                    \
    store(out + call.offsets[0] + (at), TANDEM_##arity##_APPLY(op, n, load(left + call.offsets[1] + (at)),                \
                                                               load(right + call.offsets[2] + (at))))

// The items of a group take neighbouring packs, and each item every TANDEM_GROUP_ITEMS-th: neighbouring items' accesses
// coalesce on a GPU, while a group of one item walks a stretch of memory, which is what suits a CPU. The first group does the
// edges besides. Where an item has one pack, as on GPUs, its life is too short for a loop's bookkeeping.
#define TANDEM_PACK_AT(arity, op, width, store, at) TANDEM_APPLY_AT(arity, op, pack, tandem_load_pack_##width, store, at)
#if TANDEM_PACKS_PER_ITEM == 1
#define TANDEM_EACH_PACK(arity, op, width, store) \
    if (pack < call.packs) { TANDEM_PACK_AT(arity, op, width, store, start); }
#else
#define TANDEM_EACH_PACK(arity, op, width, store)                                                                      \
    const ulong ahead = pack < call.packs ? (call.packs - pack + TANDEM_GROUP_ITEMS - 1) / TANDEM_GROUP_ITEMS : 0;     \
    const uint steps = ahead < TANDEM_STEPS ? ahead : TANDEM_STEPS;                                                    \
    for (uint step = 0; step < steps; ++step) {                                                                        \
        TANDEM_PACK_AT(arity, op, width, store, start + (ulong)step * (TANDEM_GROUP_ITEMS * TANDEM_PACK_BYTES));       \
    }
#endif

#define TANDEM_PACKS_KERNEL(arity, op, width, access, each_pack)                                                       \
    TANDEM_KERNEL packs_##width(__global uchar* out, TANDEM_##arity##_INPUTS, const struct tandem_packs call) {        \
        const ulong pack = get_group_id(0) * (ulong)(TANDEM_GROUP_ITEMS * TANDEM_STEPS) + get_local_id(0);             \
        const ulong start = call.head * TANDEM_COMPONENT_BYTES + pack * TANDEM_PACK_BYTES;                             \
        each_pack(arity, op, width)                                                                                    \
        if (get_group_id(0) == 0) {                                                                                    \
            for (uint edge = get_local_id(0); edge < call.edges; edge += TANDEM_GROUP_ITEMS) {                         \
                const ulong at = (edge < call.head ? edge : edge + call.packs * TANDEM_LANES) * TANDEM_COMPONENT_BYTES; \
                TANDEM_APPLY_AT(arity, op, one, tandem_load_##access, tandem_store_##access, at);                      \
            }                                                                                                          \
        }                                                                                                              \
    }
#define TANDEM_PLAIN(arity, op, width) TANDEM_EACH_PACK(arity, op, width, tandem_store_pack_##width)
#ifdef TANDEM_CAN_STREAM
#define TANDEM_STREAMING_OR_PLAIN(arity, op, width)                  \
    if (call.streaming) {                                            \
        TANDEM_EACH_PACK(arity, op, width, tandem_stream_pack)       \
    } else {                                                         \
        TANDEM_PLAIN(arity, op, width)                               \
    }
#else
#define TANDEM_STREAMING_OR_PLAIN TANDEM_PLAIN
#endif

// Adds the element's place in each operand to `at` and returns how many elements its innermost row still has, itself included.
static inline ulong tandem_locate(const struct tandem_strided* call, ulong index, ulong* at) {
    const bool is_short = (call->count >> 32) == 0;  // 64-bit division is many times slower
    ulong row = 0;
    for (int d = TANDEM_DIMENSIONS - 1; d >= call->first_dimension; --d) {
        const ulong size = call->shape[d];
        ulong position = index;
        if (d > call->first_dimension) {
            index = is_short ? (uint)index / (uint)size : index / size;
            position -= index * size;
        }
        if (d == TANDEM_DIMENSIONS - 1) row = size - position;
        for (int i = 0; i < TANDEM_OPERANDS; ++i) at[i] += position * call->strides[i][d];
    }
    return row;
}

#define TANDEM_STRIDED_KERNEL(arity, op, access)                                                                          \
    TANDEM_KERNEL strided_##access(__global uchar* out, TANDEM_##arity##_INPUTS, const struct tandem_strided call) {      \
        ulong index = get_global_id(0) * (ulong)TANDEM_ELEMENTS_PER_ITEM;                                                 \
        const ulong end = min(index + TANDEM_ELEMENTS_PER_ITEM, call.count);                                              \
        while (index < end) {                                                                                             \
            ulong at[TANDEM_OPERANDS];                                                                                    \
            for (int i = 0; i < TANDEM_OPERANDS; ++i) at[i] = call.offsets[i];                                            \
            const ulong row = min(tandem_locate(&call, index, at), end - index);                                          \
            for (ulong k = 0; k < row; ++k) {                                                                             \
                for (int c = 0; c < TANDEM_COMPONENTS * TANDEM_COMPONENT_BYTES; c += TANDEM_COMPONENT_BYTES) {            \
                    tandem_store_##access(out + at[0] + c,                                                                \
                                          TANDEM_##arity##_APPLY(op, one, tandem_load_##access(left + at[1] + c),         \
                                                                 tandem_load_##access(right + at[2] + c)));               \
                }                                                                                                         \
                for (int i = 0; i < TANDEM_OPERANDS; ++i) at[i] += call.strides[i][TANDEM_DIMENSIONS - 1];                \
            }                                                                                                             \
            index += row;                                                                                                 \
        }                                                                                                                 \
    }

#if TANDEM_UNALIGNED
#define TANDEM_DEFINE(arity, op)                                             \
    TANDEM_PACKS_KERNEL(arity, op, 16, aligned, TANDEM_STREAMING_OR_PLAIN)   \
    TANDEM_PACKS_KERNEL(arity, op, 1, aligned, TANDEM_PLAIN)                 \
    TANDEM_STRIDED_KERNEL(arity, op, aligned)
#else
// Narrow packs may start inside an element, so what lies beside them is moved byte by byte; it is less than two packs.
#define TANDEM_DEFINE(arity, op)                                             \
    TANDEM_PACKS_KERNEL(arity, op, 16, aligned, TANDEM_STREAMING_OR_PLAIN)   \
    TANDEM_PACKS_KERNEL(arity, op, 8, bytes, TANDEM_PLAIN)                   \
    TANDEM_PACKS_KERNEL(arity, op, 4, bytes, TANDEM_PLAIN)                   \
    TANDEM_PACKS_KERNEL(arity, op, 2, bytes, TANDEM_PLAIN)                   \
    TANDEM_PACKS_KERNEL(arity, op, 1, bytes, TANDEM_PLAIN)                   \
    TANDEM_STRIDED_KERNEL(arity, op, aligned)                                \
    TANDEM_STRIDED_KERNEL(arity, op, bytes)
#endif

#define TANDEM_DEFINE_UNARY(op) TANDEM_DEFINE(UNARY, op)
#define TANDEM_DEFINE_BINARY(op) TANDEM_DEFINE(BINARY, op)

