#include "kernels/reduce.hpp"

#include "kernels/double_word.hpp"
#include "kernels/elementwise.cuh"

namespace tandem::cuda {

// Reducers. Each has: `Item`, an element's bits; `Partial`, what is kept of some elements; `start`, of none; `merge`; `finish`,
// the element that it stands for; and `Running`, which takes elements in with `add`, is tidied by `fold` once for every
// `block_elements` at least, and gives its partial result when it is closed.

/// The number that an element's component is computed with.
template <class Item>
__device__ Item number(Item item) {
    return item;
}
__device__ inline float number(Half item) {
    return item.to_float();
}
__device__ inline float number(Brain item) {
    return item.to_float();
}

/// Real numbers, or complex ones as `components`. Half and Brain are summed as float.
template <class ItemType, class F, int components>
struct RealSum {
    using Item = ItemType;
    using Result = ItemType;
    struct Partial {
        DoubleWord<F> sum[components];
    };

    static __device__ Partial start() { return {}; }
    static __device__ Partial merge(const Partial& left, const Partial& right) {
        Partial both;
        for (int c = 0; c < components; ++c)
            both.sum[c] = left.sum[c] + right.sum[c];
        return both;
    }
    static __device__ Result finish(const Partial& partial) {
        if constexpr (components == 2) {
            return {partial.sum[0].hi, partial.sum[1].hi};
        } else if constexpr (sizeof(Item) < sizeof(F)) {
            return Item::from_float(round_to_odd(partial.sum[0]));
        } else {
            return partial.sum[0].hi;
        }
    }

    struct Running {
        Partial total = start();
        RunningSum<F> block[components] = {};

        __device__ void add(const Item& item) {
            if constexpr (components == 2) {
                block[0].add(item.first);
                block[1].add(item.second);
            } else {
                block[0].add(number(item));
            }
        }
        __device__ void fold() {
            for (int c = 0; c < components; ++c) {
                total.sum[c] = total.sum[c] + block[c].close();
                block[c] = {};
            }
        }
        __device__ Partial close() {
            fold();
            return total;
        }
    };
};

/// Integers, modulo 2^64. Those of 8 and 16 bits have room in 32 for a block.
template <class ItemType>
struct IntegerSum {
    using Item = ItemType;
    using Result = std::uint64_t;
    using Partial = std::uint64_t;

    static __device__ Partial start() { return 0; }
    static __device__ Partial merge(Partial left, Partial right) { return left + right; }
    static __device__ Result finish(Partial partial) { return partial; }

    struct Running {
        using Block = std::conditional_t<sizeof(Item) <= 2, std::int32_t, std::uint64_t>;
        Partial total = 0;
        Block block = 0;

        __device__ void add(Item item) { block += static_cast<Block>(item); }
        __device__ void fold() {
            total += static_cast<std::uint64_t>(static_cast<std::int64_t>(block));
            block = 0;
        }
        __device__ Partial close() {
            fold();
            return total;
        }
    };
};

/// A truth value: any byte but 0 is true.
struct Truth {
    std::uint8_t byte;
    __device__ explicit operator std::int32_t() const { return byte != 0; }
};
__device__ inline std::uint8_t number(Truth item) {
    return item.byte != 0;
}

template <class T>
inline constexpr T smallest = static_cast<T>(T(-1) < T(0) ? T(1) << (8 * sizeof(T) - 1) : 0);
template <>
inline constexpr float smallest<float> = -__builtin_inff();
template <>
inline constexpr double smallest<double> = -__builtin_inf();
template <class T>
inline constexpr T largest = static_cast<T>(~smallest<T>);
template <>
inline constexpr float largest<float> = __builtin_inff();
template <>
inline constexpr double largest<double> = __builtin_inf();

template <ReduceOp op, class T>
__device__ bool is_before(T left, T right) {
    return op == ReduceOp::min ? left < right : left > right;
}
template <class T>
__device__ bool is_nan(T value) {
    return value != value;
}

/// The smallest or largest of what is one number T.
template <ReduceOp op, class ItemType, class T>
struct Extremum {
    using Item = ItemType;
    using Result = std::conditional_t<__is_same(Item, Truth), T, Item>;
    using Partial = T;

    static __device__ Partial start() { return op == ReduceOp::min ? largest<T> : smallest<T>; }
    static __device__ Partial merge(Partial left, Partial right) {
        return is_before<op>(right, left) || is_nan(right) ? right : left;
    }
    static __device__ Result finish(Partial partial) {
        if constexpr (__is_same(Item, Half) || __is_same(Item, Brain)) {
            return Item::from_float(partial);
        } else {
            return partial;
        }
    }

    struct Running {
        Partial best = start();

        __device__ void add(const Item& item) { best = merge(best, number(item)); }
        __device__ void fold() {}
        __device__ Partial close() const { return best; }
    };
};

/// The smallest or largest complex number, by real, then imaginary part; one that has a NaN comes before all.
template <ReduceOp op, class F>
struct ComplexExtremum {
    using Item = Pair<F>;
    using Result = Item;
    using Partial = Item;

    static __device__ Partial start() {
        constexpr F worst = op == ReduceOp::min ? largest<F> : smallest<F>;
        return {worst, worst};
    }
    static __device__ Partial merge(Partial left, Partial right) {
        const bool left_nan = is_nan(left.first) || is_nan(left.second);
        const bool right_nan = is_nan(right.first) || is_nan(right.second);
        const bool before =
            is_before<op>(right.first, left.first) || (right.first == left.first && is_before<op>(right.second, left.second));
        return !left_nan && (right_nan || before) ? right : left;
    }
    static __device__ Result finish(Partial partial) { return partial; }

    struct Running {
        Partial best = start();

        __device__ void add(const Item& item) { best = merge(best, item); }
        __device__ void fold() {}
        __device__ Partial close() const { return best; }
    };
};

template <class ItemType, class NumberType, int component_count = 1>
struct NumberTypes {
    using Item = ItemType;
    using Number = NumberType;
    static constexpr int components = component_count;
};
template <DType>
struct Numbers;
// clang-format off
template <> struct Numbers<DType::boolean> : NumberTypes<Truth, std::uint8_t> {};
template <> struct Numbers<DType::int8> : NumberTypes<std::int8_t, std::int8_t> {};
template <> struct Numbers<DType::int16> : NumberTypes<std::int16_t, std::int16_t> {};
template <> struct Numbers<DType::int32> : NumberTypes<std::int32_t, std::int32_t> {};
template <> struct Numbers<DType::int64> : NumberTypes<std::int64_t, std::int64_t> {};
template <> struct Numbers<DType::uint8> : NumberTypes<std::uint8_t, std::uint8_t> {};
template <> struct Numbers<DType::uint16> : NumberTypes<std::uint16_t, std::uint16_t> {};
template <> struct Numbers<DType::uint32> : NumberTypes<std::uint32_t, std::uint32_t> {};
template <> struct Numbers<DType::uint64> : NumberTypes<std::uint64_t, std::uint64_t> {};
template <> struct Numbers<DType::float16> : NumberTypes<Half, float> {};
template <> struct Numbers<DType::bfloat16> : NumberTypes<Brain, float> {};
template <> struct Numbers<DType::float32> : NumberTypes<float, float> {};
template <> struct Numbers<DType::float64> : NumberTypes<double, double> {};
template <> struct Numbers<DType::complex64> : NumberTypes<Pair<float>, float, 2> {};
template <> struct Numbers<DType::complex128> : NumberTypes<Pair<double>, double, 2> {};
// clang-format on

template <ReduceOp op, DType dtype>
struct ReducerOf {
    using N = Numbers<dtype>;
    using Sum = std::conditional_t<(dtype < DType::float16), IntegerSum<typename N::Item>,
                                   RealSum<typename N::Item, typename N::Number, N::components>>;
    using Best = std::conditional_t<N::components == 2, ComplexExtremum<op, typename N::Number>,
                                    Extremum<op, typename N::Item, typename N::Number>>;
    using Type = std::conditional_t<op == ReduceOp::sum, Sum, Best>;
};

template <DType dtype>
inline constexpr unsigned component_width = static_cast<unsigned>(component_bytes(dtype));

/// The partial results of a block become one, in its first thread.
template <class Reducer>
__device__ typename Reducer::Partial merge_block(typename Reducer::Partial partial) {
    using Partial = typename Reducer::Partial;
    __shared__ Partial shared[reduce_block_threads];
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    shared[thread] = partial;
    for (unsigned kept = reduce_block_threads / 2; kept > 0; kept /= 2) {
        __syncthreads();
        if (thread < kept) shared[thread] = Reducer::merge(shared[thread], shared[thread + kept]);
    }
    return shared[thread];
}

/// Brings a call's result into the state.
template <class Reducer>
__device__ void update(unsigned char* state, typename Reducer::Partial partial, unsigned is_first) {
    auto* running = reinterpret_cast<typename Reducer::Partial*>(state);
    if (is_first == 0) partial = Reducer::merge(*running, partial);
    *running = partial;
    *reinterpret_cast<typename Reducer::Result*>(state + result_offset_bytes) = Reducer::finish(partial);
}

template <class Reducer>
__device__ void leave(unsigned char* state, typename Reducer::Partial partial, unsigned is_first) {
    static_assert(sizeof(typename Reducer::Partial) <= partial_bytes);
    partial = merge_block<Reducer>(partial);
    if (threadIdx.x != 0 || threadIdx.y != 0) return;
    if (gridDim.x * gridDim.y == 1) {
        update<Reducer>(state, partial, is_first);
    } else {
        unsigned char* own = state + partials_offset_bytes + (blockIdx.y * gridDim.x + blockIdx.x) * partial_bytes;
        *reinterpret_cast<typename Reducer::Partial*>(own) = partial;
    }
}

template <class Item, unsigned width>
__device__ Item load_item(const unsigned char* address) {
    using Bits = Unit<sizeof(Item), width>;
    const Bits bits = Bits::template load<Hint::none>(address);
    return __builtin_bit_cast(Item, bits);
}

/// Contiguous elements at multiples of their size; see `plan_packs` and `reduce_contiguous_launch`.
template <class Reducer>
__device__ void reduce_packs(unsigned char* state, const unsigned char* in, const PackPlan& plan, unsigned is_first) {
    using Item = typename Reducer::Item;
    constexpr unsigned item = sizeof(Item);
    constexpr unsigned per_pack = pack_bytes / item;
    constexpr unsigned packs_in_flight = reduce_packs_in_flight;
    static_assert(per_pack * packs_in_flight <= block_elements);
    constexpr unsigned rounds_per_fold = block_elements / (per_pack * packs_in_flight);
    using Pack = Unit<pack_bytes, pack_bytes>;
    struct Items {
        Item item[per_pack];
    };

    typename Reducer::Running running;
    const auto add = [&](const Pack& pack) {
        const auto items = __builtin_bit_cast(Items, pack);
#pragma unroll
        for (unsigned k = 0; k < per_pack; ++k)
            running.add(items.item[k]);
    };
    const unsigned char* packs = in + plan.head * item;
    const std::int64_t step = std::int64_t{gridDim.x} * reduce_block_threads;
    std::int64_t at = std::int64_t{blockIdx.x} * reduce_block_threads + threadIdx.x;
    while (at < plan.packs) {
        for (unsigned round = 0; round < rounds_per_fold && at < plan.packs; ++round, at += packs_in_flight * step) {
            if (at + (packs_in_flight - 1) * step < plan.packs) {
                Pack pack[packs_in_flight];
#pragma unroll
                for (unsigned i = 0; i < packs_in_flight; ++i)
                    pack[i] = Pack::template load<Hint::none>(packs + (at + i * step) * pack_bytes);
#pragma unroll
                for (unsigned i = 0; i < packs_in_flight; ++i)
                    add(pack[i]);
            } else {
#pragma unroll 1
                for (std::int64_t k = at; k < plan.packs; k += step)
                    add(Pack::template load<Hint::none>(packs + k * pack_bytes));
            }
        }
        running.fold();
    }

    // The ends, fewer than 16 elements each.
    if (blockIdx.x == 0 && threadIdx.x < 32) {
        const unsigned lane = threadIdx.x % 16;
        const bool is_tail = threadIdx.x >= 16;
        const std::int64_t start = is_tail ? plan.head + plan.packs * per_pack : 0;
        if (lane < (is_tail ? plan.tail : plan.head)) running.add(load_item<Item, 1>(in + (start + lane) * item));
    }
    leave<Reducer>(state, running.close(), is_first);
}

/// Any strides; `width` divides all addresses. The block's rows and columns are as in the elementwise kernels.
template <class Reducer, unsigned width>
__device__ void reduce_strided(unsigned char* state, const unsigned char* in, const StridedLayout& layout, std::int64_t rows,
                               unsigned is_first) {
    using Item = typename Reducer::Item;
    constexpr unsigned positions = strided_positions;
    const int inner = static_cast<int>(layout.dimensions) - 1;
    const std::int64_t count = layout.shape[inner];
    const std::int64_t stride = layout.strides_bytes[0][inner];
    typename Reducer::Running running;
    unsigned in_block = 0;
    for (std::int64_t row = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < rows;
         row += std::int64_t{gridDim.y} * blockDim.y) {
        const unsigned char* start = in;
        std::int64_t rest = row;
        for (int dimension = inner - 1; dimension >= 0; --dimension) {
            const std::int64_t extent = layout.shape[dimension];
            std::int64_t quotient;
            if (dimension == 0) {
                quotient = 0;
            } else if (((rest | extent) >> 32) == 0) {  // a 64-bit division costs several times as much
                quotient = static_cast<std::uint32_t>(rest) / static_cast<std::uint32_t>(extent);
            } else {
                quotient = rest / extent;
            }
            start += (rest - quotient * extent) * layout.strides_bytes[0][dimension];
            rest = quotient;
        }
        const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
        for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < count; at += positions * step) {
            Item items[positions];
#pragma unroll
            for (unsigned k = 0; k < positions; ++k) {
                if (at + k * step < count) items[k] = load_item<Item, width>(start + (at + k * step) * stride);
            }
#pragma unroll
            for (unsigned k = 0; k < positions; ++k) {
                if (at + k * step < count) running.add(items[k]);
            }
            in_block += positions;
            if (in_block >= block_elements - positions) {
                running.fold();
                in_block = 0;
            }
        }
    }
    leave<Reducer>(state, running.close(), is_first);
}

/// The last step of a call: one block brings the partial results of the others together.
template <class Reducer>
__device__ void reduce_partials(unsigned char* state, unsigned partials, unsigned is_first) {
    using Partial = typename Reducer::Partial;
    Partial partial = Reducer::start();
    for (unsigned i = threadIdx.x; i < partials; i += reduce_block_threads) {
        partial = Reducer::merge(partial, *reinterpret_cast<const Partial*>(state + partials_offset_bytes + i * partial_bytes));
    }
    partial = merge_block<Reducer>(partial);
    if (threadIdx.x == 0) update<Reducer>(state, partial, is_first);
}

}  // namespace tandem::cuda

#define TANDEM_KERNEL \
    extern "C" __global__ void __launch_bounds__(tandem::cuda::reduce_block_threads, tandem::cuda::reduce_blocks_per_unit)
#define TANDEM_REDUCER(op, dtype) typename tandem::cuda::ReducerOf<tandem::ReduceOp::op, tandem::DType::dtype>::Type

#define TANDEM_CUDA_STRIDED_REDUCTION(op, dtype, variant, width)                                                    \
    TANDEM_KERNEL op##_##dtype##_##variant(unsigned char* state, const unsigned char* in,                           \
                                           const __grid_constant__ tandem::StridedLayout layout, std::int64_t rows, \
                                           unsigned is_first) {                                                     \
        tandem::cuda::reduce_strided<TANDEM_REDUCER(op, dtype), (width)>(state, in, layout, rows, is_first);        \
    }

// Entry points exist for every dtype; those of a dtype that another one's kernels serve are never asked for.
#define TANDEM_CUDA_REDUCTION(op, dtype)                                                                           \
    TANDEM_KERNEL op##_##dtype##_packs(unsigned char* state, const unsigned char* in, const tandem::PackPlan plan, \
                                       unsigned is_first) {                                                        \
        tandem::cuda::reduce_packs<TANDEM_REDUCER(op, dtype)>(state, in, plan, is_first);                          \
    }                                                                                                              \
    TANDEM_CUDA_STRIDED_REDUCTION(op, dtype, strided, tandem::cuda::component_width<tandem::DType::dtype>)         \
    TANDEM_CUDA_STRIDED_REDUCTION(op, dtype, strided_bytes, 1)                                                     \
    TANDEM_KERNEL op##_##dtype##_partials(unsigned char* state, unsigned partials, unsigned is_first) {            \
        tandem::cuda::reduce_partials<TANDEM_REDUCER(op, dtype)>(state, partials, is_first);                       \
    }

#define TANDEM_CUDA_REDUCTIONS(dtype, type, code) \
    TANDEM_CUDA_REDUCTION(sum, dtype)             \
    TANDEM_CUDA_REDUCTION(min, dtype)             \
    TANDEM_CUDA_REDUCTION(max, dtype)
TANDEM_FOR_EACH_DTYPE(TANDEM_CUDA_REDUCTIONS)
