#pragma once
// The CUDA elementwise kernels: what an operation's .cu file completes with a functor and TANDEM_CUDA_KERNELS.
//
// The code is that of the oldest architecture (7.5), so that its PTX serves every later one. Loads are the coherent ones, never
// the read-only path: the output may be one of the inputs.

#include "kernels/cuda_launch.hpp"

namespace tandem::cuda {

// Constants by the functions that the host shares: device code may use their values, but not call them.
template <DType dtype>
inline constexpr unsigned item_bytes = static_cast<unsigned>(size_bytes(dtype));
template <DType dtype, unsigned width>
inline constexpr unsigned bytes_of_unit = unit_bytes(width, item_bytes<dtype>);
template <unsigned bytes, Tuning with>
inline constexpr unsigned units_of_thread = units_per_thread(bytes, with.thread_bytes);
template <Op op>
inline constexpr int inputs_of = input_count(op);
template <Op op, DType dtype>
inline constexpr bool has_kernels = kernel_dtype(op, dtype) == dtype;

// Values that kernels compute with. All have `+`; those of 8 and 16 bits are done several at a time in one 32-bit Word where
// accesses are wide enough, so that arithmetic keeps up with the memory.

/// Integers of `Lane`, as many as fill a Word, each wrapping by itself.
template <class Lane, class Word = Lane>
struct Integers {
    Word bits;
    friend __device__ Integers operator+(Integers left, Integers right) {
        if constexpr (sizeof(Lane) == sizeof(Word)) {
            return {static_cast<Word>(left.bits + right.bits)};
        } else {  // the lanes' top bits are added by exclusive or, so that no carry leaves its lane
            constexpr Word top = sizeof(Lane) == 1 ? 0x80808080U : 0x80008000U;
            return {((left.bits & ~top) + (right.bits & ~top)) ^ ((left.bits ^ right.bits) & top)};
        }
    }
};

/// Truth values, one a byte; any non-zero byte is true until `normalized`.
template <class Word>
struct Booleans {
    Word bits;
    friend __device__ Booleans operator+(Booleans left, Booleans right) { return {static_cast<Word>(left.bits | right.bits)}; }
};

struct Half {
    std::uint16_t bits;
    friend __device__ Half operator+(Half left, Half right) { return from_float(left.to_float() + right.to_float()); }
    __device__ float to_float() const {
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
        return value;
    }
    static __device__ Half from_float(float value) {
        // The bits leave the asm in a 32-bit register: where their lower byte is stored alone, ptxas 13.0 takes a 16-bit one for
        // a number and stores that number as an integer.
        std::uint32_t both;
        asm("{ .reg .b16 half; cvt.rn.f16.f32 half, %1; mov.b32 %0, {half, half}; }" : "=r"(both) : "f"(value));
        return {static_cast<std::uint16_t>(both)};
    }
};

struct Brain {
    std::uint16_t bits;
    friend __device__ Brain operator+(Brain left, Brain right) { return from_float(left.to_float() + right.to_float()); }
    __device__ float to_float() const { return __uint_as_float(std::uint32_t{bits} << 16U); }
    static __device__ Brain from_float(float value) {
        const std::uint32_t word = __float_as_uint(value);
        const std::uint32_t rounded = (word + 0x7fffU + ((word >> 16U) & 1U)) >> 16U;
        const std::uint32_t quiet = (word >> 16U) | 0x0040U;
        return {static_cast<std::uint16_t>(value != value ? quiet : rounded)};
    }
};

template <class T>
struct Pair {
    T first, second;
    friend __device__ Pair operator+(Pair left, Pair right) { return {left.first + right.first, left.second + right.second}; }
};

template <class T>
__device__ T normalized(T value) {
    return value;
}
template <class Word>
__device__ Booleans<Word> normalized(Booleans<Word> value) {
    constexpr auto low = static_cast<Word>(0x7f7f7f7fU);
    constexpr auto ones = static_cast<Word>(0x01010101U);
    return {static_cast<Word>(((((value.bits & low) + low) | value.bits) >> 7U) & ones)};
}

/// `Item` is one element; `Lanes` is what is computed with where a unit is large enough.
template <class ItemType, class LanesType = ItemType>
struct ElementTypes {
    using Item = ItemType;
    using Lanes = LanesType;
};
template <DType>
struct Element;
// clang-format off
template <> struct Element<DType::boolean> : ElementTypes<Booleans<std::uint8_t>, Booleans<std::uint32_t>> {};
template <> struct Element<DType::uint8> : ElementTypes<Integers<std::uint8_t>, Integers<std::uint8_t, std::uint32_t>> {};
template <> struct Element<DType::uint16> : ElementTypes<Integers<std::uint16_t>, Integers<std::uint16_t, std::uint32_t>> {};
template <> struct Element<DType::uint32> : ElementTypes<std::uint32_t> {};
template <> struct Element<DType::uint64> : ElementTypes<std::uint64_t> {};
template <> struct Element<DType::float16> : ElementTypes<Half> {};
template <> struct Element<DType::bfloat16> : ElementTypes<Brain> {};
template <> struct Element<DType::float32> : ElementTypes<float> {};
template <> struct Element<DType::float64> : ElementTypes<double> {};
template <> struct Element<DType::complex64> : ElementTypes<Pair<float>> {};
template <> struct Element<DType::complex128> : ElementTypes<Pair<double>> {};

template <unsigned width> struct AccessWord;
template <> struct AccessWord<16> { using Type = uint4; };
template <> struct AccessWord<8> { using Type = uint2; };
template <> struct AccessWord<4> { using Type = unsigned; };
template <> struct AccessWord<2> { using Type = unsigned short; };
template <> struct AccessWord<1> { using Type = unsigned char; };
// clang-format on

/// `bytes` of memory that are read and written by accesses of `width` bytes.
template <unsigned bytes, unsigned width>
struct Unit {
    using Word = typename AccessWord<width>::Type;
    static constexpr unsigned words = bytes / width;
    Word word[words];

    /// Bytes of a unit that is read piecewise are worth keeping in the cache until its last piece, so only whole units are
    /// hinted.
    template <Hint hint>
    static __device__ Unit load(const unsigned char* address) {
        const Word* from = reinterpret_cast<const Word*>(address);
        Unit unit;
#pragma unroll
        for (unsigned i = 0; i < words; ++i) {
            if constexpr (hint == Hint::streaming && words == 1) {
                unit.word[i] = __ldcs(from + i);
            } else {
                unit.word[i] = from[i];
            }
        }
        return unit;
    }

    template <Hint hint>
    __device__ void store(unsigned char* address) const {
        Word* to = reinterpret_cast<Word*>(address);
#pragma unroll
        for (unsigned i = 0; i < words; ++i) {
            if constexpr (hint == Hint::streaming && words == 1) {
                __stcs(to + i, word[i]);
            } else {
                to[i] = word[i];
            }
        }
    }
};

template <class Operation, int inputs, DType dtype, unsigned bytes, unsigned width>
__device__ Unit<bytes, width> compute(const Unit<bytes, width>& left, const Unit<bytes, width>& right) {
    using Item = typename Element<dtype>::Item;
    using Lanes = typename Element<dtype>::Lanes;
    using Value = std::conditional_t<bytes % sizeof(Lanes) == 0, Lanes, Item>;
    struct Values {
        Value value[bytes / sizeof(Value)];
    };
    const auto a = __builtin_bit_cast(Values, left);
    const auto b = __builtin_bit_cast(Values, right);
    Values result;
#pragma unroll
    for (unsigned i = 0; i < bytes / sizeof(Value); ++i) {
        if constexpr (inputs == 2) {
            result.value[i] = normalized(Operation{}(a.value[i], b.value[i]));
        } else {
            result.value[i] = normalized(Operation{}(a.value[i]));
        }
    }
    using Result = Unit<bytes, width>;
    return __builtin_bit_cast(Result, result);
}

/// All operands without gaps; see `plan_packs` and `contiguous_launch`. With one input, `right` is not used.
template <class Operation, int inputs, DType dtype, unsigned width, Tuning with = tuning>
__device__ void contiguous(unsigned char* out, const unsigned char* left, const unsigned char* right, const PackPlan& plan) {
    constexpr unsigned item = item_bytes<dtype>;
    constexpr unsigned bytes = bytes_of_unit<dtype, width>;
    constexpr unsigned per_thread = units_of_thread<bytes, with>;
    constexpr unsigned tile = with.block_threads * per_thread;
    using Packed = Unit<bytes, width>;

    const auto one = [&]<class Piece>(Piece, std::int64_t offset) {
        const Piece a = Piece::template load<with.load>(left + offset);
        const Piece b = inputs == 2 ? Piece::template load<with.load>(right + offset) : a;
        compute<Operation, inputs, dtype>(a, b).template store<with.store>(out + offset);
    };

    const std::int64_t begin = plan.head * item;
    const std::int64_t units = plan.packs * (pack_bytes / bytes);
    for (std::int64_t first = std::int64_t{blockIdx.x} * tile; first < units; first += std::int64_t{gridDim.x} * tile) {
        const std::int64_t offset = begin + (first + threadIdx.x) * bytes;
        if (first + tile <= units) {
            Packed a[per_thread], b[per_thread];
#pragma unroll
            for (unsigned i = 0; i < per_thread; ++i) {
                a[i] = Packed::template load<with.load>(left + offset + i * with.block_threads * bytes);
                if constexpr (inputs == 2)
                    b[i] = Packed::template load<with.load>(right + offset + i * with.block_threads * bytes);
            }
#pragma unroll
            for (unsigned i = 0; i < per_thread; ++i) {
                compute<Operation, inputs, dtype>(a[i], inputs == 2 ? b[i] : a[i])
                    .template store<with.store>(out + offset + i * with.block_threads * bytes);
            }
        } else {
            const std::int64_t end = begin + units * bytes;
#pragma unroll 1
            for (std::int64_t at = offset; at < end; at += with.block_threads * bytes)
                one(Packed{}, at);
        }
    }

    // The ends, fewer than 16 elements each, at any alignment.
    if (blockIdx.x == 0 && threadIdx.x < 32) {
        const unsigned lane = threadIdx.x % 16;
        const bool is_tail = threadIdx.x >= 16;
        const std::int64_t start = is_tail ? begin + units * bytes : 0;
        if (lane < (is_tail ? plan.tail : plan.head)) one(Unit<item, 1>{}, start + lane * item);
    }
}

/// Any strides; `width` is the element's size, or 1 where something is not aligned to it. A thread finds the start of its row
/// once and then does several elements of it at a time; bytewise one, which is slow anyway and much code.
template <class Operation, int inputs, DType dtype, unsigned width>
__device__ void strided(unsigned char* out, const unsigned char* left, const unsigned char* right, const StridedLayout& layout,
                        std::int64_t rows) {
    using Item = Unit<item_bytes<dtype>, width>;
    constexpr unsigned operands = inputs + 1;
    constexpr unsigned positions = width == item_bytes<dtype> ? strided_positions : 1;
    const int inner = static_cast<int>(layout.dimensions) - 1;
    const std::int64_t count = layout.shape[inner];

    for (std::int64_t row = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < rows;
         row += std::int64_t{gridDim.y} * blockDim.y) {
        std::int64_t offset[operands] = {};
        const auto step_down = [&](int dimension, std::int64_t index) {
#pragma unroll
            for (unsigned i = 0; i < operands; ++i)
                offset[i] += index * layout.strides_bytes[i][dimension];
        };
        std::int64_t rest = row;
        for (int dimension = inner - 1; dimension > 0; --dimension) {
            const std::int64_t extent = layout.shape[dimension];
            std::int64_t quotient;
            if (((rest | extent) >> 32) == 0) {  // a 64-bit division costs several times as much
                quotient = static_cast<std::uint32_t>(rest) / static_cast<std::uint32_t>(extent);
            } else {
                quotient = rest / extent;
            }
            step_down(dimension, rest - quotient * extent);
            rest = quotient;
        }
        if (inner > 0) step_down(0, rest);

        std::int64_t step[operands];
#pragma unroll
        for (unsigned i = 0; i < operands; ++i)
            step[i] = layout.strides_bytes[i][inner] * blockDim.x;
        for (std::int64_t first = std::int64_t{blockIdx.x} * blockDim.x * positions + threadIdx.x; first < count;
             first += std::int64_t{gridDim.x} * blockDim.x * positions) {
            std::int64_t at[operands];
#pragma unroll
            for (unsigned i = 0; i < operands; ++i)
                at[i] = offset[i] + first * layout.strides_bytes[i][inner];
            Item a[positions], b[positions];
#pragma unroll
            for (unsigned k = 0; k < positions; ++k) {
                if (first + k * blockDim.x >= count) break;
                a[k] = Item::template load<Hint::none>(left + at[1] + k * step[1]);
                if constexpr (inputs == 2) b[k] = Item::template load<Hint::none>(right + at[2] + k * step[2]);
            }
#pragma unroll
            for (unsigned k = 0; k < positions; ++k) {
                if (first + k * blockDim.x >= count) break;
                compute<Operation, inputs, dtype>(a[k], inputs == 2 ? b[k] : a[k])
                    .template store<Hint::none>(out + at[0] + k * step[0]);
            }
        }
    }
}

// Entry points exist for every dtype, since only the compiler proper knows `kernel_dtype`; those of dtypes that another one's
// kernels serve are empty, as is the bytewise one of a single byte.
template <class Operation, Op op, DType dtype, unsigned width>
__device__ void contiguous_entry(unsigned char* out, const unsigned char* left, const unsigned char* right,
                                 const PackPlan& plan) {
    if constexpr (has_kernels<op, dtype>) contiguous<Operation, inputs_of<op>, dtype, width>(out, left, right, plan);
}

template <class Operation, Op op, DType dtype, bool aligned>
__device__ void strided_entry(unsigned char* out, const unsigned char* left, const unsigned char* right,
                              const StridedLayout& layout, std::int64_t rows) {
    if constexpr (has_kernels<op, dtype> && (aligned || item_bytes<dtype> != 1)) {
        strided<Operation, inputs_of<op>, dtype, aligned ? item_bytes<dtype> : 1U>(out, left, right, layout, rows);
    }
}

}  // namespace tandem::cuda

#define TANDEM_CUDA_NAME_(op, dtype, variant) op##_##dtype##_##variant
#define TANDEM_CUDA_NAME(op, dtype, variant) TANDEM_CUDA_NAME_(op, dtype, variant)

#define TANDEM_CUDA_CONTIGUOUS(dtype, width)                                                                          \
    extern "C" __global__ void __launch_bounds__(tandem::cuda::tuning.block_threads)                                  \
        TANDEM_CUDA_NAME(TANDEM_CUDA_OP, dtype, w##width)(unsigned char* out, const unsigned char* left,              \
                                                          const unsigned char* right, const tandem::PackPlan plan) {  \
        tandem::cuda::contiguous_entry<TANDEM_CUDA_FUNCTOR, tandem::Op::TANDEM_CUDA_OP, tandem::DType::dtype, width>( \
            out, left, right, plan);                                                                                  \
    }

#define TANDEM_CUDA_STRIDED(dtype, variant, aligned)                                                                 \
    extern "C" __global__ void __launch_bounds__(tandem::cuda::strided_block_threads) TANDEM_CUDA_NAME(              \
        TANDEM_CUDA_OP, dtype, variant)(unsigned char* out, const unsigned char* left, const unsigned char* right,   \
                                        const __grid_constant__ tandem::StridedLayout layout, std::int64_t rows) {   \
        tandem::cuda::strided_entry<TANDEM_CUDA_FUNCTOR, tandem::Op::TANDEM_CUDA_OP, tandem::DType::dtype, aligned>( \
            out, left, right, layout, rows);                                                                         \
    }

/// The kernels of one dtype: expand `TANDEM_FOR_EACH_DTYPE(TANDEM_CUDA_KERNELS)` where TANDEM_CUDA_OP is the operation's name and
/// TANDEM_CUDA_FUNCTOR takes and returns values.
#define TANDEM_CUDA_KERNELS(dtype, type, code) \
    TANDEM_CUDA_CONTIGUOUS(dtype, 16)          \
    TANDEM_CUDA_CONTIGUOUS(dtype, 8)           \
    TANDEM_CUDA_CONTIGUOUS(dtype, 4)           \
    TANDEM_CUDA_CONTIGUOUS(dtype, 2)           \
    TANDEM_CUDA_CONTIGUOUS(dtype, 1)           \
    TANDEM_CUDA_STRIDED(dtype, strided, true)  \
    TANDEM_CUDA_STRIDED(dtype, strided_bytes, false)
