#include "kernels/reduce.hpp"

#include "kernels/double_word.hpp"
#include "kernels/elementwise_host.hpp"

namespace tandem {
namespace {

// Reducers. Each has: `Partial`, what is kept of some elements; `start`, of none; `merge`; `finish`, the element it stands for;
// and `Running`, which takes elements in: `add` one, `run` a stretch of contiguous ones, and `close` to give its partial result.

#if defined(__AVX512F__)
inline constexpr std::size_t vector_bytes = 64;
#elif defined(__AVX__)
inline constexpr std::size_t vector_bytes = 32;
#else
inline constexpr std::size_t vector_bytes = 16;
#endif
// As many sums run side by side as hide the latency of an addition.
inline constexpr std::size_t vectors = 4;

// The attribute takes no dependent type.
template <class F>
struct VectorOf;
template <>
struct VectorOf<float> {
    using Type [[gnu::vector_size(vector_bytes)]] = float;
};
template <>
struct VectorOf<double> {
    using Type [[gnu::vector_size(vector_bytes)]] = double;
};
template <class F>
using Vector = typename VectorOf<F>::Type;
template <class F>
inline constexpr std::size_t lanes = vector_bytes / sizeof(F);

template <class F>
TANDEM_INLINE Vector<F> load_vector(const std::byte* from) {
    Vector<F> value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

/// As many elements as a vector of F has lanes, as F.
template <DType dtype>
TANDEM_INLINE auto load_elements(const std::byte* from) {
    if constexpr (dtype == DType::float64 || dtype == DType::complex128) {
        return load_vector<double>(from);
    } else if constexpr (dtype == DType::float32 || dtype == DType::complex64) {
        return load_vector<float>(from);
    } else {
#if defined(__AVX512F__)
        if constexpr (dtype == DType::float16)
            return Vector<float>(_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
#elif defined(__F16C__)
        if constexpr (dtype == DType::float16)
            return Vector<float>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#endif
        float values[lanes<float>];
        for (std::size_t lane = 0; lane < lanes<float>; ++lane)
            values[lane] = Element<dtype>::load(from + 2 * lane);
        return load_vector<float>(reinterpret_cast<const std::byte*>(values));
    }
}

/// Sums of real numbers, and of complex ones as those of `components` that alternate.
template <DType dtype, class F, std::size_t components>
struct RealSum {
    struct Partial {
        DoubleWord<F> sum[components];
    };
    using E = Element<dtype>;

    static Partial start() { return {}; }
    static Partial merge(const Partial& left, const Partial& right) {
        Partial both;
        for (std::size_t c = 0; c < components; ++c)
            both.sum[c] = left.sum[c] + right.sum[c];
        return both;
    }
    static void finish(const Partial& partial, std::byte* out) {
        if constexpr (components == 2) {
            E::store(out, {partial.sum[0].hi, partial.sum[1].hi});
        } else if constexpr (component_bytes(dtype) == 2) {
            E::store(out, round_to_odd(partial.sum[0]));
        } else {
            E::store(out, partial.sum[0].hi);
        }
    }

    struct Running {
        Partial total = start();
        RunningSum<F> sums[components] = {};
        unsigned in_block = 0;

        void fold() {
            for (std::size_t c = 0; c < components; ++c) {
                total.sum[c] = total.sum[c] + sums[c].close();
                sums[c] = {};
            }
            in_block = 0;
        }
        void add(const std::byte* in) {
            const typename E::Value value = E::load(in);
            if constexpr (components == 2) {
                sums[0].add(value.first);
                sums[1].add(value.second);
            } else {
                sums[0].add(value);
            }
            if (++in_block == block_elements) fold();
        }
        Partial close() {
            fold();
            return total;
        }

        /// Returns how many elements were done, the rest being too few for a step.
        std::int64_t run(const std::byte* in, std::int64_t count) {
            constexpr auto step = static_cast<std::int64_t>(vectors * lanes<F> / components);
            DoubleWord<Vector<F>> totals[vectors] = {};
            constexpr std::size_t load_bytes = lanes<F> * component_bytes(dtype);
            constexpr auto step_bytes = static_cast<std::int64_t>(vectors * load_bytes);
            const std::int64_t steps = count / step;
            for (std::int64_t done = 0; done < steps;) {
                const std::int64_t end = steps - done < block_elements ? steps : done + block_elements;
                RunningSum<Vector<F>> block[vectors] = {};
                for (; done < end; ++done) {
#pragma GCC unroll 4
                    for (std::size_t i = 0; i < vectors; ++i)
                        block[i].add(load_elements<dtype>(in + done * step_bytes + i * load_bytes));
                }
                for (std::size_t i = 0; i < vectors; ++i)
                    totals[i] = totals[i] + block[i].close();
            }
            for (const DoubleWord<Vector<F>>& each : totals) {
                for (std::size_t lane = 0; lane < lanes<F>; ++lane) {
                    DoubleWord<F>& sum = total.sum[lane % components];
                    sum = sum + DoubleWord<F>{each.hi[lane], each.lo[lane]};
                }
            }
            return steps * step;
        }
    };
};

/// Integers are added modulo 2^64, those of 8 and 16 bits in blocks in 32, which vectorises better.
template <class T>
struct IntegerSum {
    using Partial = std::uint64_t;

    static Partial start() { return 0; }
    static Partial merge(Partial left, Partial right) { return left + right; }
    static void finish(Partial partial, std::byte* out) { std::memcpy(out, &partial, sizeof partial); }

    struct Running {
        Partial total = 0;

        static T load(const std::byte* in) {
            if constexpr (__is_same(T, bool)) return *in != std::byte{0};
            return Plain<T>::load(in);
        }
        void add(const std::byte* in) { total += static_cast<Partial>(load(in)); }
        Partial close() const { return total; }
        std::int64_t run(const std::byte* in, std::int64_t count) {
            constexpr auto item = static_cast<std::int64_t>(sizeof(T));
            if constexpr (sizeof(T) <= 2) {
                constexpr std::int64_t block = 32768;  // times 2^16 is no more than 2^31
                for (std::int64_t done = 0; done < count; done += block) {
                    const std::int64_t end = count - done < block ? count : done + block;
                    std::int32_t sum = 0;
                    for (std::int64_t k = done; k < end; ++k)
                        sum += load(in + k * item);
                    total += static_cast<Partial>(static_cast<std::int64_t>(sum));
                }
            } else {
                Partial sum = 0;
                for (std::int64_t k = 0; k < count; ++k)
                    sum += static_cast<Partial>(load(in + k * item));
                total += sum;
            }
            return count;
        }
    };
};

// Whether `value` takes the place of `best`. Also for vectors of them.
template <ReduceOp op, class T>
TANDEM_INLINE auto is_better(const T& value, const T& best) {
    if constexpr (op == ReduceOp::min) {
        return (value < best) | (value != value);
    } else {
        return (value > best) | (value != value);
    }
}

template <class T>
inline constexpr T smallest = static_cast<T>(T(-1) < T(0) ? T(1) << static_cast<int>(8 * sizeof(T) - 1) : 0);
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
template <class T, ReduceOp op>
inline constexpr T worst = op == ReduceOp::min ? largest<T> : smallest<T>;

/// The smallest or largest of what has one component. bool is compared as 0 and 1.
template <ReduceOp op, DType dtype, class E, class T>
struct Extremum {
    using Partial = T;
    static constexpr bool is_real = dtype >= DType::float16;

    static Partial start() { return worst<T, op>; }
    static Partial merge(Partial left, Partial right) { return is_better<op>(right, left) ? right : left; }
    static void finish(Partial partial, std::byte* out) { E::store(out, static_cast<typename E::Value>(partial)); }

    struct Running {
        Partial best = start();

        void add(const std::byte* in) { best = merge(best, static_cast<T>(E::load(in))); }
        Partial close() const { return best; }
        std::int64_t run(const std::byte* in, std::int64_t count) {
            constexpr auto item = static_cast<std::int64_t>(E::item_bytes);
            if constexpr (is_real) {  // no compiler vectorises what NaNs need
                constexpr auto step = static_cast<std::int64_t>(vectors * lanes<T>);
                Vector<T> each[vectors];
                for (Vector<T>& one : each)
                    one = Vector<T>{} + best;
                const std::int64_t steps = count / step;
                for (std::int64_t done = 0; done < steps; ++done) {
#pragma GCC unroll 4
                    for (std::size_t i = 0; i < vectors; ++i) {
                        const Vector<T> value = load_elements<dtype>(in + done * step * item + i * lanes<T> * E::item_bytes);
                        each[i] = is_better<op>(value, each[i]) ? value : each[i];
                    }
                }
                for (const Vector<T>& one : each) {
                    for (std::size_t lane = 0; lane < lanes<T>; ++lane)
                        best = merge(best, one[lane]);
                }
                return steps * step;
            } else {
                T one = best;
                for (std::int64_t k = 0; k < count; ++k) {
                    const T value = static_cast<T>(E::load(in + k * item));
                    if constexpr (dtype == DType::boolean) {  // GCC 12 vectorises no largest of these
                        one = static_cast<T>(op == ReduceOp::min ? one & value : one | value);
                    } else {
                        one = op == ReduceOp::min ? (value < one ? value : one) : (one < value ? value : one);
                    }
                }
                best = one;
                return count;
            }
        }
    };
};

/// The smallest or largest complex number: by real, then imaginary part; one that has a NaN comes before all.
template <ReduceOp op, DType dtype, class F>
struct ComplexExtremum {
    using E = Element<dtype>;
    using Partial = Pair<F>;

    static Partial start() { return {worst<F, op>, worst<F, op>}; }
    static bool has_nan(Partial value) { return value.first != value.first || value.second != value.second; }
    static Partial merge(Partial left, Partial right) {
        const bool before = op == ReduceOp::min ? right.first < left.first : right.first > left.first;
        const bool second = op == ReduceOp::min ? right.second < left.second : right.second > left.second;
        const bool replaces = has_nan(right) || before || (right.first == left.first && second);
        return replaces && !has_nan(left) ? right : left;
    }
    static void finish(Partial partial, std::byte* out) { E::store(out, partial); }

    struct Running {
        Partial best = start();

        void add(const std::byte* in) { best = merge(best, E::load(in)); }
        Partial close() const { return best; }
        std::int64_t run(const std::byte* in, std::int64_t count) {
            for (std::int64_t k = 0; k < count; ++k)
                add(in + k * static_cast<std::int64_t>(E::item_bytes));
            return count;
        }
    };
};

// Which is used for what; integers are compared and added as the type that they are.
template <ReduceOp op, DType dtype>
constexpr auto reducer() {
    constexpr bool is_sum = op == ReduceOp::sum;
#define TANDEM_INTEGER(name, type)                                              \
    if constexpr (dtype == DType::name) {                                       \
        if constexpr (is_sum) return IntegerSum<type>{};                        \
        if constexpr (!is_sum) return Extremum<op, dtype, Plain<type>, type>{}; \
    }
    TANDEM_INTEGER(int8, std::int8_t)
    TANDEM_INTEGER(int16, std::int16_t)
    TANDEM_INTEGER(int32, std::int32_t)
    TANDEM_INTEGER(int64, std::int64_t)
    TANDEM_INTEGER(uint8, std::uint8_t)
    TANDEM_INTEGER(uint16, std::uint16_t)
    TANDEM_INTEGER(uint32, std::uint32_t)
    TANDEM_INTEGER(uint64, std::uint64_t)
#undef TANDEM_INTEGER
    if constexpr (dtype == DType::boolean) {
        if constexpr (is_sum) return IntegerSum<bool>{};
        if constexpr (!is_sum) return Extremum<op, dtype, Boolean, std::uint8_t>{};
    } else if constexpr (dtype == DType::complex64 || dtype == DType::complex128) {
        using F = std::conditional_t<dtype == DType::complex64, float, double>;
        if constexpr (is_sum) return RealSum<dtype, F, 2>{};
        if constexpr (!is_sum) return ComplexExtremum<op, dtype, F>{};
    } else if constexpr (dtype >= DType::float16) {
        using F = std::conditional_t<dtype == DType::float64, double, float>;
        if constexpr (is_sum) return RealSum<dtype, F, 1>{};
        if constexpr (!is_sum) return Extremum<op, dtype, Element<dtype>, F>{};
    }
}

template <class Partial>
HostPartial pack(const Partial& partial) {
    static_assert(sizeof partial <= partial_bytes);
    HostPartial packed{};
    std::memcpy(packed.bytes, &partial, sizeof partial);
    return packed;
}
template <class Partial>
Partial unpack(const HostPartial& packed) {
    Partial partial;
    std::memcpy(&partial, packed.bytes, sizeof partial);
    return partial;
}

template <class Running>
[[gnu::always_inline]] inline void run_row(Running& running, const std::byte* in, std::int64_t stride_bytes, std::int64_t count,
                                           std::int64_t item_bytes) {
    std::int64_t done = stride_bytes == item_bytes ? running.run(in, count) : 0;
    for (; done < count; ++done)
        running.add(in + done * stride_bytes);
}

template <class Reducer, std::int64_t item_bytes>
HostPartial reduce_contiguous(const std::byte* in, std::int64_t count) {
    typename Reducer::Running running;
    run_row(running, in, item_bytes, count, item_bytes);
    return pack(running.close());
}

template <class Reducer, std::int64_t item_bytes>
HostPartial reduce_strided(const std::byte* in, const StridedLayout& layout, const HostRows& part) {
    const std::int64_t inner = layout.dimensions - 1;
    const std::int64_t* strides_bytes = layout.strides_bytes[0];
    typename Reducer::Running running;
    for (std::int64_t row = part.first_row; row < part.first_row + part.rows; ++row) {
        std::int64_t offset = part.first * strides_bytes[inner];
        std::int64_t rest = row;
        for (std::int64_t d = inner; d-- > 0;) {
            offset += rest % layout.shape[d] * strides_bytes[d];
            rest /= layout.shape[d];
        }
        run_row(running, in + offset, strides_bytes[inner], part.count, item_bytes);
    }
    return pack(running.close());
}

template <class Reducer>
void merge_partials(HostPartial& partial, const HostPartial& other) {
    using Partial = typename Reducer::Partial;
    partial = pack(Reducer::merge(unpack<Partial>(partial), unpack<Partial>(other)));
}

template <class Reducer>
void finish_partial(const HostPartial& partial, std::byte* out) {
    Reducer::finish(unpack<typename Reducer::Partial>(partial), out);
}

template <ReduceOp op, DType dtype>
constexpr HostReducer host_reducer() {
    if constexpr (kernel_dtype(op, dtype) == dtype) {
        using Reducer = decltype(reducer<op, dtype>());
        constexpr auto item_bytes = static_cast<std::int64_t>(size_bytes(dtype));
        return {&reduce_contiguous<Reducer, item_bytes>, &reduce_strided<Reducer, item_bytes>, &merge_partials<Reducer>,
                &finish_partial<Reducer>};
    } else {
        return {};  // another dtype's kernel serves
    }
}

template <ReduceOp op>
constexpr void fill(HostReducers& table) {
    int i = 0;
#define TANDEM_X(name, type, code) table.by_op[static_cast<int>(op)][i++] = host_reducer<op, DType::name>();
    TANDEM_FOR_EACH_DTYPE(TANDEM_X)
#undef TANDEM_X
}

}  // namespace

extern const HostReducers TANDEM_HOST_CONCAT(reduce, TANDEM_KERNEL_LEVEL);
const HostReducers TANDEM_HOST_CONCAT(reduce, TANDEM_KERNEL_LEVEL) = [] {
    HostReducers table{};
#define TANDEM_X(name) fill<ReduceOp::name>(table);
    TANDEM_FOR_EACH_REDUCE_OP(TANDEM_X)
#undef TANDEM_X
    return table;
}();

}  // namespace tandem
