#pragma once
// The host's elementwise kernels: what an operation's .cpp file completes with a functor and TANDEM_HOST_KERNELS.
//
// Included by files that are compiled once for each instruction set (TANDEM_KERNEL_LEVEL). Everything that generates code has
// internal linkage, so that code for a newer processor can't be picked where an older one runs.

#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/host_kernels.hpp"

#if defined(__clang__)
#define TANDEM_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#else
#define TANDEM_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

namespace tandem {
namespace {

/// A complex number, or anything of two components.
template <class T>
struct Pair {
    T first, second;
    friend Pair operator+(Pair left, Pair right) {
        return {static_cast<T>(left.first + right.first), static_cast<T>(left.second + right.second)};
    }
};

// How elements of a kernel dtype are stored and computed with. `load` and `store` take any address, aligned or not.
template <class Stored>
struct Plain {
    using Value = Stored;
    static constexpr std::size_t item_bytes = sizeof(Stored);
    static Value load(const std::byte* address) {
        Stored value;
        std::memcpy(&value, address, sizeof value);
        return value;
    }
    static void store(std::byte* address, Value value) { std::memcpy(address, &value, sizeof value); }
};

/// Any non-zero byte is true.
struct Boolean {
    using Value = bool;
    static constexpr std::size_t item_bytes = 1;
    static Value load(const std::byte* address) { return *address != std::byte{0}; }
    static void store(std::byte* address, Value value) { *address = std::byte{value}; }
};

template <class Half>
struct Widened {
    using Value = float;
    static constexpr std::size_t item_bytes = 2;
    static Value load(const std::byte* address) { return Half::to_float(Plain<std::uint16_t>::load(address)); }
    static void store(std::byte* address, Value value) { Plain<std::uint16_t>::store(address, Half::from_float(value)); }
};

template <DType>
struct Element;
// clang-format off
template <> struct Element<DType::boolean> : Boolean {};
template <> struct Element<DType::uint8> : Plain<std::uint8_t> {};
template <> struct Element<DType::uint16> : Plain<std::uint16_t> {};
template <> struct Element<DType::uint32> : Plain<std::uint32_t> {};
template <> struct Element<DType::uint64> : Plain<std::uint64_t> {};
template <> struct Element<DType::float16> : Widened<Float16> {};
template <> struct Element<DType::bfloat16> : Widened<BFloat16> {};
template <> struct Element<DType::float32> : Plain<float> {};
template <> struct Element<DType::float64> : Plain<double> {};
template <> struct Element<DType::complex64> : Plain<Pair<float>> {};
template <> struct Element<DType::complex128> : Plain<Pair<double>> {};
// clang-format on

#if defined(__F16C__)
/// float16 through the processor's own conversions, eight at a time; returns how many elements were done.
template <class Operation, int inputs>
[[gnu::always_inline]] inline std::int64_t run_float16(std::byte* out, const std::byte* const* in, std::int64_t count) {
    std::int64_t done = 0;
    for (; done <= count - 8; done += 8) {
        float values[2][8];
        for (int input = 0; input < inputs; ++input) {
            const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in[input] + done * 2));
            _mm256_storeu_ps(values[input], _mm256_cvtph_ps(halves));
        }
        for (int lane = 0; lane < 8; ++lane) {
            if constexpr (inputs == 2) {
                values[0][lane] = Operation{}(values[0][lane], values[1][lane]);
            } else {
                values[0][lane] = Operation{}(values[0][lane]);
            }
        }
        const __m128i rounded = _mm256_cvtps_ph(_mm256_loadu_ps(values[0]), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + done * 2), rounded);
    }
    return done;
}
#endif

/// One pass over contiguous elements. An output that is also an input is read and written at the same place, which is no
/// dependence between iterations: the compiler may vectorise.
template <class E, class Operation, int inputs>
[[gnu::always_inline]] inline void run_dense(std::byte* out, const std::byte* const* in, std::int64_t count) {
    const std::byte* left = in[0];
    const std::byte* right = in[inputs - 1];
    constexpr auto item = static_cast<std::int64_t>(E::item_bytes);
#if defined(__F16C__)
    if constexpr (__is_same(E, Element<DType::float16>)) {
        const std::int64_t done = run_float16<Operation, inputs>(out, in, count);
        out += done * item;
        left += done * item;
        right += done * item;
        count -= done;
    }
#endif
    TANDEM_INDEPENDENT_ITERATIONS
    for (std::int64_t k = 0; k < count; ++k) {
        if constexpr (inputs == 2) {
            E::store(out + k * item, Operation{}(E::load(left + k * item), E::load(right + k * item)));
        } else {
            E::store(out + k * item, Operation{}(E::load(left + k * item)));
        }
    }
}

#if defined(__SSE2__)
/// Writes one cache line past the caches, in the widest stores that the instruction set has. `to` is aligned to 64 bytes.
inline void stream_line(std::byte* to, const std::byte* line) {
#if defined(__AVX512F__)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_load_si512(line));
#elif defined(__AVX__)
    for (int k = 0; k < 64; k += 32) {
        _mm256_stream_si256(reinterpret_cast<__m256i*>(to + k), _mm256_load_si256(reinterpret_cast<const __m256i*>(line + k)));
    }
#else
    for (int k = 0; k < 64; k += 16) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + k), _mm_load_si128(reinterpret_cast<const __m128i*>(line + k)));
    }
#endif
}
#endif

/// Contiguous elements. With `streaming`, results go to memory past the caches, which saves reading the lines that are about to
/// be overwritten: a quarter of add's traffic, a third of twice's.
template <class E, class Operation, int inputs>
void contiguous(std::byte* out, const std::byte* const* in, std::int64_t count, bool streaming) {
#if defined(__SSE2__)
    constexpr auto item = static_cast<std::int64_t>(E::item_bytes);
    constexpr std::int64_t per_line = 64 / item;
    const auto misalignment = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(out) % 64);
    const std::int64_t gap = (64 - misalignment) % 64;
    if (streaming && gap % item == 0 && count * item >= gap + 64) {
        const std::int64_t head = gap / item;
        run_dense<E, Operation, inputs>(out, in, head);
        out += gap;
        const std::byte* left = in[0] + gap;
        const std::byte* right = in[inputs - 1] + gap;
        const std::int64_t lines = (count - head) / per_line;
        // Computed some lines at a time, and as many as the compiler can't know: a loop over one line is unrolled into element by
        // element (GCC 12), at a third of the speed.
        constexpr std::int64_t block_lines = 16;
        alignas(64) std::byte block[block_lines * 64];
        for (std::int64_t k = 0; k < lines; k += block_lines) {
            const std::int64_t now = lines - k < block_lines ? lines - k : block_lines;
            const std::byte* from[2] = {left + k * 64, right + k * 64};
            run_dense<E, Operation, inputs>(block, from, now * per_line);
            for (std::int64_t line = 0; line < now; ++line)
                stream_line(out + (k + line) * 64, block + line * 64);
        }
        _mm_sfence();
        const std::byte* rest[2] = {left + lines * 64, right + lines * 64};
        run_dense<E, Operation, inputs>(out + lines * 64, rest, count - head - lines * per_line);
        return;
    }
#endif
    (void)streaming;
    run_dense<E, Operation, inputs>(out, in, count);
}

/// One row of any strides.
template <class E, class Operation, int inputs>
void strided(std::byte* out, const std::byte* const* in, const std::int64_t* strides_bytes, std::int64_t count) {
    for (std::int64_t k = 0; k < count; ++k) {
        if constexpr (inputs == 2) {
            E::store(out + k * strides_bytes[0],
                     Operation{}(E::load(in[0] + k * strides_bytes[1]), E::load(in[1] + k * strides_bytes[2])));
        } else {
            E::store(out + k * strides_bytes[0], Operation{}(E::load(in[0] + k * strides_bytes[1])));
        }
    }
}

template <class Operation, int inputs, DType dtype, Op op>
constexpr HostKernel host_kernel() {
    if constexpr (kernel_dtype(op, dtype) == dtype) {
        return {&contiguous<Element<dtype>, Operation, inputs>, &strided<Element<dtype>, Operation, inputs>};
    } else {
        return {nullptr, nullptr};  // another dtype's kernel serves
    }
}

}  // namespace
}  // namespace tandem

#define TANDEM_HOST_CONCAT_(op, level) host_kernels_##op##_##level
#define TANDEM_HOST_CONCAT(op, level) TANDEM_HOST_CONCAT_(op, level)
#define TANDEM_HOST_DTYPE(name, type, code) host_kernel<Operation, input_count(op), DType::name, op>(),

/// Defines the table of `NAME`'s kernels; `FUNCTOR` takes and returns an element's value.
#define TANDEM_HOST_KERNELS(NAME, FUNCTOR)                                  \
    namespace tandem {                                                      \
    extern const HostKernels TANDEM_HOST_CONCAT(NAME, TANDEM_KERNEL_LEVEL); \
    const HostKernels TANDEM_HOST_CONCAT(NAME, TANDEM_KERNEL_LEVEL) = [] {  \
        constexpr Op op = Op::NAME;                                         \
        using Operation = FUNCTOR;                                          \
        return HostKernels{{TANDEM_FOR_EACH_DTYPE(TANDEM_HOST_DTYPE)}};     \
    }();                                                                    \
    }
