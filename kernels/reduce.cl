// The reductions in OpenCL C 1.2, behind kernels/elementwise.cl in the same text: reduce_packs, reduce_aligned and reduce_bytes
// (any strides, components aligned or not), each a partial result a group, and reduce_partials.
//
// Beside what that file asks for, backends/opencl/kernel.cpp defines TANDEM_REDUCE_name; TANDEM_SIGNED, whether integers are; and,
// from kernels/reduce.hpp, TANDEM_BLOCK and the offsets TANDEM_PARTIAL_BYTES, TANDEM_RESULT_AT and TANDEM_PARTIALS_AT.
//
// What is kept of some elements has three forms: a `block` of few of them, a `total` of blocks, both for one element and for a pack
// whose lanes are kept apart, and a `partial`, in which the lanes have come together.

#if defined(TANDEM_DTYPE_float64) || defined(TANDEM_DTYPE_complex128)
#define TANDEM_NUMBER double
#define TANDEM_REAL 1
#elif defined(TANDEM_DTYPE_float16) || defined(TANDEM_DTYPE_bfloat16) || defined(TANDEM_DTYPE_float32) || defined(TANDEM_DTYPE_complex64)
#define TANDEM_NUMBER float
#define TANDEM_REAL 1
#else
#define TANDEM_REAL 0
#if !TANDEM_SIGNED
#define TANDEM_NUMBER TANDEM_COMPONENT
#elif TANDEM_COMPONENT_BYTES == 1
#define TANDEM_NUMBER char
#elif TANDEM_COMPONENT_BYTES == 2
#define TANDEM_NUMBER short
#elif TANDEM_COMPONENT_BYTES == 4
#define TANDEM_NUMBER int
#else
#define TANDEM_NUMBER long
#endif
#endif

typedef TANDEM_NUMBER tandem_number_one;
typedef TANDEM_JOIN(TANDEM_NUMBER, TANDEM_LANES) tandem_number_pack;
#define TANDEM_AS_NUMBER(lanes) TANDEM_JOIN(TANDEM_JOIN(as_, TANDEM_NUMBER), lanes)
#if TANDEM_REAL
#define tandem_number_of_one(bits) tandem_value_one(bits)
#define tandem_number_of_pack(bits) tandem_value_pack(bits)
#else
#define tandem_number_of_one(bits) TANDEM_AS_NUMBER()(tandem_value_one(bits))
#define tandem_number_of_pack(bits) TANDEM_AS_NUMBER(TANDEM_LANES)(tandem_value_pack(bits))
#endif
// How many a type of this shape keeps: an element's components are apart, those of a pack are in its lanes.
#define TANDEM_EACH_one TANDEM_COMPONENTS
#define TANDEM_EACH_pack 1

#if defined(TANDEM_REDUCE_sum) && TANDEM_REAL
// Sums of pairs; kernels/double_word.hpp is the same in C++ and says more.
#define TANDEM_DOUBLE_WORD(n, lanes)                                                                                        \
    typedef struct { tandem_number_##n hi, lo; } tandem_pair_##n;                                                           \
    static inline tandem_number_##n tandem_where_finite_##n(tandem_number_##n tested, tandem_number_##n then,               \
                                                            tandem_number_##n otherwise) {                                  \
        return tested - tested == (tandem_number_##n)(0) ? then : otherwise;                                                \
    }                                                                                                                       \
    static inline tandem_pair_##n tandem_two_sum_##n(tandem_number_##n a, tandem_number_##n b) {                            \
        tandem_pair_##n exact;                                                                                              \
        exact.hi = a + b;                                                                                                   \
        const tandem_number_##n from_b = exact.hi - a;                                                                      \
        exact.lo = (a - (exact.hi - from_b)) + (b - from_b);                                                                \
        return exact;                                                                                                       \
    }                                                                                                                       \
    static inline tandem_pair_##n tandem_fast_two_sum_##n(tandem_number_##n a, tandem_number_##n b) {                       \
        tandem_pair_##n exact;                                                                                              \
        exact.hi = a + b;                                                                                                   \
        exact.lo = b - (exact.hi - a);                                                                                      \
        return exact;                                                                                                       \
    }                                                                                                                       \
    static inline tandem_pair_##n tandem_add_##n(tandem_pair_##n a, tandem_pair_##n b) {                                    \
        const tandem_pair_##n high = tandem_two_sum_##n(a.hi, b.hi);                                                        \
        const tandem_pair_##n low = tandem_two_sum_##n(a.lo, b.lo);                                                         \
        const tandem_pair_##n sum = tandem_fast_two_sum_##n(high.hi, high.lo + low.hi);                                     \
        tandem_pair_##n result = tandem_fast_two_sum_##n(sum.hi, low.lo + sum.lo);                                          \
        result.hi = tandem_where_finite_##n(high.hi, tandem_where_finite_##n(sum.hi, result.hi, sum.hi), high.hi);          \
        result.lo = tandem_where_finite_##n(result.lo, result.lo, (tandem_number_##n)(0));                                  \
        return result;                                                                                                      \
    }                                                                                                                       \
    typedef struct { tandem_number_##n sum[TANDEM_EACH_##n], error[TANDEM_EACH_##n]; } tandem_block_##n;                    \
    typedef struct { tandem_pair_##n sum[TANDEM_EACH_##n]; } tandem_total_##n;                                              \
    static inline void tandem_take_##n(tandem_block_##n* block, int c, tandem_##n bits) {                                   \
        const tandem_pair_##n exact = tandem_two_sum_##n(block->sum[c], tandem_number_of_##n(bits));                        \
        block->sum[c] = exact.hi;                                                                                           \
        block->error[c] += exact.lo;                                                                                        \
    }                                                                                                                       \
    static inline void tandem_fold_##n(tandem_total_##n* total, tandem_block_##n* block) {                                  \
        for (int c = 0; c < TANDEM_EACH_##n; ++c) {                                                                         \
            tandem_pair_##n exact = tandem_two_sum_##n(block->sum[c], block->error[c]);                                     \
            exact.hi = tandem_where_finite_##n(block->error[c], exact.hi, block->sum[c]);                                   \
            exact.lo = tandem_where_finite_##n(exact.lo, exact.lo, (tandem_number_##n)(0));                                 \
            total->sum[c] = tandem_add_##n(total->sum[c], exact);                                                           \
            block->sum[c] = block->error[c] = (tandem_number_##n)(0);                                                       \
        }                                                                                                                   \
    }                                                                                                                       \
    static inline void tandem_start_##n(tandem_total_##n* total, tandem_block_##n* block) {                                 \
        for (int c = 0; c < TANDEM_EACH_##n; ++c)                                                                           \
            total->sum[c].hi = total->sum[c].lo = block->sum[c] = block->error[c] = (tandem_number_##n)(0);                 \
    }
TANDEM_EACH_SHAPE(TANDEM_DOUBLE_WORD)

typedef tandem_total_one tandem_partial;

static inline tandem_partial tandem_start(void) {
    tandem_partial none;
    tandem_block_one unused;
    tandem_start_one(&none, &unused);
    return none;
}
static inline tandem_partial tandem_merge(tandem_partial left, tandem_partial right) {
    for (int c = 0; c < TANDEM_COMPONENTS; ++c) left.sum[c] = tandem_add_one(left.sum[c], right.sum[c]);
    return left;
}
static inline tandem_partial tandem_join(tandem_total_pack total) {
    union { tandem_number_pack pack; tandem_number_one one[TANDEM_LANES]; } hi, lo;
    hi.pack = total.sum[0].hi;
    lo.pack = total.sum[0].lo;
    tandem_partial partial = tandem_start();
    for (int lane = 0; lane < TANDEM_LANES; ++lane) {
        const tandem_pair_one pair = {hi.one[lane], lo.one[lane]};
        partial.sum[lane % TANDEM_COMPONENTS] = tandem_add_one(partial.sum[lane % TANDEM_COMPONENTS], pair);
    }
    return partial;
}
static inline void tandem_finish(__global uchar* out, tandem_partial partial) {
    for (int c = 0; c < TANDEM_COMPONENTS; ++c) {
        tandem_number_one value = partial.sum[c].hi;
#if TANDEM_COMPONENT_BYTES == 2  // rounded to odd, so that rounding again loses nothing
        const float rest = partial.sum[c].lo;
        if (rest != 0 && (as_uint(value) & 1u) == 0)
            value = as_float((rest < 0) == (value < 0) ? as_uint(value) + 1u : as_uint(value) - 1u);
#endif
        ((__global tandem_one*)out)[c] = tandem_bits_one(value);
    }
}

#elif defined(TANDEM_REDUCE_sum)
// Lanes of blocks have room for TANDEM_BLOCK elements, those of totals for any number.
#if TANDEM_COMPONENT_BYTES > 2
#define TANDEM_BLOCK_NUMBER long
#else
#define TANDEM_BLOCK_NUMBER int
#endif
#define TANDEM_INTEGER_SUM(n, lanes)                                                                                  \
    typedef TANDEM_JOIN(TANDEM_BLOCK_NUMBER, lanes) tandem_block_##n;                                                 \
    typedef ulong##lanes tandem_total_##n;                                                                            \
    static inline void tandem_take_##n(tandem_block_##n* block, int c, tandem_##n bits) {                             \
        *block += TANDEM_JOIN(TANDEM_JOIN(convert_, TANDEM_BLOCK_NUMBER), lanes)(tandem_number_of_##n(bits));         \
    }                                                                                                                 \
    static inline void tandem_fold_##n(tandem_total_##n* total, tandem_block_##n* block) {                            \
        *total += TANDEM_JOIN(as_ulong, lanes)(TANDEM_JOIN(convert_long, lanes)(*block));                             \
        *block = (tandem_block_##n)(0);                                                                               \
    }                                                                                                                 \
    static inline void tandem_start_##n(tandem_total_##n* total, tandem_block_##n* block) {                           \
        *total = (tandem_total_##n)(0);                                                                               \
        *block = (tandem_block_##n)(0);                                                                               \
    }
TANDEM_EACH_SHAPE(TANDEM_INTEGER_SUM)

typedef ulong tandem_partial;

static inline tandem_partial tandem_start(void) { return 0; }
static inline tandem_partial tandem_merge(tandem_partial left, tandem_partial right) { return left + right; }
static inline tandem_partial tandem_join(tandem_total_pack total) {
    union { tandem_total_pack pack; ulong one[TANDEM_LANES]; } sums;
    sums.pack = total;
    tandem_partial partial = 0;
    for (int lane = 0; lane < TANDEM_LANES; ++lane) partial += sums.one[lane];
    return partial;
}
static inline void tandem_finish(__global uchar* out, tandem_partial partial) { *(__global ulong*)out = partial; }

#else  // the smallest or the largest
#if TANDEM_REAL
#define TANDEM_LARGEST INFINITY
#define TANDEM_SMALLEST -INFINITY
#elif TANDEM_SIGNED
#define TANDEM_LARGEST (tandem_number_one)(ULONG_MAX >> (65 - 8 * TANDEM_COMPONENT_BYTES))
#define TANDEM_SMALLEST (tandem_number_one)(-TANDEM_LARGEST - 1)
#else
#define TANDEM_LARGEST (tandem_number_one)(ULONG_MAX >> (64 - 8 * TANDEM_COMPONENT_BYTES))
#define TANDEM_SMALLEST (tandem_number_one)(0)
#endif
#ifdef TANDEM_REDUCE_min
#define TANDEM_BEFORE(left, right) ((left) < (right))
#define TANDEM_WORST TANDEM_LARGEST
#else
#define TANDEM_BEFORE(left, right) ((left) > (right))
#define TANDEM_WORST TANDEM_SMALLEST
#endif

typedef struct { tandem_number_one best[TANDEM_COMPONENTS]; } tandem_partial;

static inline tandem_partial tandem_start(void) {
    tandem_partial none;
    for (int c = 0; c < TANDEM_COMPONENTS; ++c) none.best[c] = TANDEM_WORST;
    return none;
}

#if TANDEM_COMPONENTS == 1
#define TANDEM_EXTREMUM(n, lanes)                                                                            \
    typedef tandem_number_##n tandem_total_##n;                                                              \
    typedef tandem_number_##n tandem_block_##n;                                                              \
    static inline tandem_number_##n tandem_better_##n(tandem_number_##n best, tandem_number_##n value) {     \
        return TANDEM_BEFORE(value, best) | (value != value) ? value : best;                                 \
    }                                                                                                        \
    static inline void tandem_take_##n(tandem_block_##n* block, int c, tandem_##n bits) {                    \
        *block = tandem_better_##n(*block, tandem_number_of_##n(bits));                                      \
    }                                                                                                        \
    static inline void tandem_fold_##n(tandem_total_##n* total, tandem_block_##n* block) { *total = *block; } \
    static inline void tandem_start_##n(tandem_total_##n* total, tandem_block_##n* block) {                  \
        *total = *block = (tandem_number_##n)(TANDEM_WORST);                                                 \
    }
TANDEM_EACH_SHAPE(TANDEM_EXTREMUM)

static inline tandem_partial tandem_merge(tandem_partial left, tandem_partial right) {
    left.best[0] = tandem_better_one(left.best[0], right.best[0]);
    return left;
}
static inline tandem_partial tandem_join(tandem_total_pack total) {
    union { tandem_number_pack pack; tandem_number_one one[TANDEM_LANES]; } numbers;
    numbers.pack = total;
    tandem_partial partial = tandem_start();
    for (int lane = 0; lane < TANDEM_LANES; ++lane)
        partial.best[0] = tandem_better_one(partial.best[0], numbers.one[lane]);
    return partial;
}
#else  // complex numbers are ordered as a whole, so lanes don't stay apart
static inline tandem_partial tandem_merge(tandem_partial left, tandem_partial right) {
    const bool left_nan = left.best[0] != left.best[0] || left.best[1] != left.best[1];
    const bool right_nan = right.best[0] != right.best[0] || right.best[1] != right.best[1];
    const bool before = TANDEM_BEFORE(right.best[0], left.best[0]) ||
                        (right.best[0] == left.best[0] && TANDEM_BEFORE(right.best[1], left.best[1]));
    return !left_nan && (right_nan || before) ? right : left;
}
typedef tandem_partial tandem_total_pack;
typedef tandem_partial tandem_block_pack;
typedef tandem_partial tandem_total_one;
typedef struct { tandem_partial all, element; } tandem_block_one;
static inline void tandem_take_pack(tandem_block_pack* block, int c, tandem_pack bits) {
    union { tandem_number_pack pack; tandem_partial element[TANDEM_LANES / 2]; } numbers;
    numbers.pack = tandem_number_of_pack(bits);
    for (int i = 0; i < TANDEM_LANES / 2; ++i) *block = tandem_merge(*block, numbers.element[i]);
}
static inline void tandem_fold_pack(tandem_total_pack* total, tandem_block_pack* block) { *total = *block; }
static inline void tandem_start_pack(tandem_total_pack* total, tandem_block_pack* block) {
    *total = *block = tandem_start();
}
static inline void tandem_take_one(tandem_block_one* block, int c, tandem_one bits) {
    block->element.best[c] = tandem_number_of_one(bits);
    if (c == 1) block->all = tandem_merge(block->all, block->element);
}
static inline void tandem_fold_one(tandem_total_one* total, tandem_block_one* block) { *total = block->all; }
static inline void tandem_start_one(tandem_total_one* total, tandem_block_one* block) { *total = block->all = tandem_start(); }
static inline tandem_partial tandem_join(tandem_total_pack total) { return total; }
#endif

static inline void tandem_finish(__global uchar* out, tandem_partial partial) {
    for (int c = 0; c < TANDEM_COMPONENTS; ++c) {
#if TANDEM_REAL
        ((__global tandem_one*)out)[c] = tandem_bits_one(partial.best[c]);
#else
        ((__global tandem_number_one*)out)[c] = partial.best[c];
#endif
    }
}
#endif

// `partial` as what an element's total is.
#if !defined(TANDEM_REDUCE_sum) && TANDEM_COMPONENTS == 1
static inline tandem_partial tandem_partial_of(tandem_total_one total) {
    tandem_partial partial;
    partial.best[0] = total;
    return partial;
}
#else
#define tandem_partial_of(total) (total)
#endif

#define TANDEM_ITEM_BYTES (TANDEM_COMPONENTS * TANDEM_COMPONENT_BYTES)
#define TANDEM_TAKE_ELEMENT(block, access, from)                                                          \
    for (int c = 0; c < TANDEM_COMPONENTS; ++c) {                                                         \
        tandem_take_one(&block, c, tandem_load_##access(from + c * TANDEM_COMPONENT_BYTES));              \
    }

// A group's partial results become one, in its first item.
static inline tandem_partial tandem_group_merge(__local tandem_partial* shared, tandem_partial partial) {
#if TANDEM_GROUP_ITEMS > 1
    const uint item = get_local_id(0);
    shared[item] = partial;
    for (uint size = TANDEM_GROUP_ITEMS; size > 1;) {
        const uint kept = (size + 1) / 2;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < size - kept) shared[item] = tandem_merge(shared[item], shared[item + kept]);
        size = kept;
    }
    return shared[item];
#else
    return partial;
#endif
}
#if TANDEM_GROUP_ITEMS > 1
#define TANDEM_SHARED __local tandem_partial shared[TANDEM_GROUP_ITEMS];
#else
#define TANDEM_SHARED __local tandem_partial* shared = 0;
#endif

static inline __global tandem_partial* tandem_partial_at(__global uchar* state, ulong index) {
    return (__global tandem_partial*)(state + TANDEM_PARTIALS_AT + index * TANDEM_PARTIAL_BYTES);
}

// The first item brings the call's result into the state.
static inline void tandem_update(__global uchar* state, tandem_partial partial, uint is_first) {
    if (!is_first) partial = tandem_merge(*(__global tandem_partial*)state, partial);
    *(__global tandem_partial*)state = partial;
    tandem_finish(state + TANDEM_RESULT_AT, partial);
}
static inline void tandem_leave(__global uchar* state, tandem_partial partial, uint is_first) {
    if (get_local_id(0) != 0) return;
    if (get_num_groups(0) == 1) {
        tandem_update(state, partial, is_first);
    } else {
        *tandem_partial_at(state, get_group_id(0)) = partial;
    }
}

// The arguments beside the buffers, as backends/opencl/kernel.cpp fills them in.
struct tandem_reduce_packs {
    ulong offset;
    ulong packs;
    ulong packs_per_group;
    uint head;  // elements before the packs
    uint tail;  // and those after them
    uint is_first;
    uint padding;
};
struct tandem_reduce_strided {
    struct tandem_strided layout;
    ulong elements_per_group;
    ulong is_first;
};
struct tandem_reduce_partials {
    uint partials;
    uint is_first;
};

TANDEM_KERNEL reduce_packs(__global uchar* state, __global const uchar* in, const struct tandem_reduce_packs call) {
    const uint item = get_local_id(0);
    __global const uchar* start = in + call.offset + call.head * TANDEM_ITEM_BYTES;
    const ulong group_end = min((get_group_id(0) + 1) * call.packs_per_group, call.packs);
    tandem_total_pack total;
    tandem_block_pack block;
    tandem_start_pack(&total, &block);
    ulong pack = get_group_id(0) * call.packs_per_group + item;
    while (pack < group_end) {
        const ulong end = min(group_end, pack + TANDEM_BLOCK * TANDEM_GROUP_ITEMS);
        for (; pack < end; pack += TANDEM_GROUP_ITEMS)
            tandem_take_pack(&block, 0, tandem_load_pack_16(start + pack * TANDEM_PACK_BYTES));
        tandem_fold_pack(&total, &block);
    }
    tandem_partial partial = tandem_join(total);
    if (get_group_id(0) == 0 && item < call.head + call.tail) {
        tandem_total_one edges;
        tandem_block_one few;
        tandem_start_one(&edges, &few);
        for (uint edge = item; edge < call.head + call.tail; edge += TANDEM_GROUP_ITEMS) {
            const ulong at = edge < call.head ? edge : edge + call.packs * (TANDEM_PACK_BYTES / TANDEM_ITEM_BYTES);
            TANDEM_TAKE_ELEMENT(few, aligned, in + call.offset + at * TANDEM_ITEM_BYTES)
        }
        tandem_fold_one(&edges, &few);
        partial = tandem_merge(partial, tandem_partial_of(edges));
    }
    TANDEM_SHARED
    tandem_leave(state, tandem_group_merge(shared, partial), call.is_first);
}

// The items of a group take neighbouring elements of a row, and each every TANDEM_GROUP_ITEMS-th.
#define TANDEM_REDUCE_STRIDED(access)                                                                                     \
    TANDEM_KERNEL reduce_##access(__global uchar* state, __global const uchar* in, const struct tandem_reduce_strided call) { \
        const ulong group_end = min((get_group_id(0) + 1) * call.elements_per_group, call.layout.count);                  \
        ulong index = get_group_id(0) * call.elements_per_group + get_local_id(0);                                        \
        tandem_total_one total;                                                                                           \
        tandem_block_one block;                                                                                           \
        tandem_start_one(&total, &block);                                                                                 \
        uint room = TANDEM_BLOCK;                                                                                         \
        while (index < group_end) {                                                                                       \
            ulong at[1] = {call.layout.offsets[0]};                                                                       \
            const ulong row = min(tandem_locate(&call.layout, index, at), group_end - index);                             \
            const ulong steps = (row + TANDEM_GROUP_ITEMS - 1) / TANDEM_GROUP_ITEMS;                                      \
            for (ulong step = 0; step < steps; ++step) {                                                                  \
                TANDEM_TAKE_ELEMENT(block, access, in + at[0])                                                            \
                if (--room == 0) {                                                                                        \
                    tandem_fold_one(&total, &block);                                                                      \
                    room = TANDEM_BLOCK;                                                                                  \
                }                                                                                                         \
                at[0] += TANDEM_GROUP_ITEMS * call.layout.strides[0][TANDEM_DIMENSIONS - 1];                              \
            }                                                                                                             \
            index += steps * TANDEM_GROUP_ITEMS;                                                                          \
        }                                                                                                                 \
        tandem_fold_one(&total, &block);                                                                                  \
        TANDEM_SHARED                                                                                                     \
        tandem_leave(state, tandem_group_merge(shared, tandem_partial_of(total)), call.is_first);                         \
    }
TANDEM_REDUCE_STRIDED(aligned)
#if !TANDEM_UNALIGNED
TANDEM_REDUCE_STRIDED(bytes)
#endif

TANDEM_KERNEL reduce_partials(__global uchar* state, const struct tandem_reduce_partials call) {
    tandem_partial partial = tandem_start();
    for (uint i = get_local_id(0); i < call.partials; i += TANDEM_GROUP_ITEMS)
        partial = tandem_merge(partial, *tandem_partial_at(state, i));
    TANDEM_SHARED
    partial = tandem_group_merge(shared, partial);
    if (get_local_id(0) == 0) tandem_update(state, partial, call.is_first);
}
