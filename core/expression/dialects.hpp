#pragma once
// What the sources of expressions' kernels begin with in each language: the names that kernels/expression_functions.h wants
// defined, and what kernels call.

namespace tandem::expression {

inline constexpr const char* cuda_prelude = R"(
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
inline constexpr const char* opencl_prelude = R"(
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
inline constexpr const char* opencl_float64 = R"(
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
typedef double f64;
)";
inline constexpr const char* words = R"(
typedef u32 td_word_4; typedef u16 td_word_2; typedef u8 td_word_1;
)";
// The element's place in each operand: `locate` adds it to `at`, and returns how many elements the innermost row still has. A
// 64-bit division costs several times as much as one of 32 bits.
inline constexpr const char* locate = R"(
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
// Results of a processor's kernel that stay in no cache until somebody reads them: stored past the caches, which spares reading
// the lines that are overwritten. What hands a finished kernel over to other threads orders these stores too.
inline constexpr const char* stream = R"(
typedef ulong8 td_line;
typedef ulong8 td_line_anywhere __attribute__((aligned(1)));
#ifdef __has_builtin
#if __has_builtin(__builtin_nontemporal_store)
#define TD_STREAM(to, line) __builtin_nontemporal_store(line, to)
#endif
#endif
#ifndef TD_STREAM
#define TD_STREAM(to, line) (*(to) = (line))
#endif
TD_FN void td_stream(__global u8* to, const __private u8* from, u64 bytes) {
    u64 done = (64 - (ulong)to % 64) % 64;
    if (done > bytes) done = bytes;
    for (u64 k = 0; k < done; ++k) to[k] = from[k];
    for (; done + 64 <= bytes; done += 64)
        TD_STREAM((__global td_line*)(to + done), *(const __private td_line_anywhere*)(from + done));
    for (; done < bytes; ++done) to[done] = from[done];
}
)";

}  // namespace tandem::expression
