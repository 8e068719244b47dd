#include "kernels/byteswap.hpp"

#include "kernels/elementwise.cuh"

struct Byteswap {
    template <class T>  // one-byte lanes
    __device__ T operator()(T value) const {
        return value;
    }
    template <class Word>
    __device__ tandem::cuda::Integers<std::uint16_t, Word> operator()(tandem::cuda::Integers<std::uint16_t, Word> value) const {
        return {static_cast<Word>(__byte_perm(value.bits, 0, 0x2301))};
    }
    __device__ std::uint32_t operator()(std::uint32_t value) const { return __byte_perm(value, 0, 0x0123); }
    __device__ std::uint64_t operator()(std::uint64_t value) const {
        const auto low = static_cast<std::uint32_t>(value);
        const auto high = static_cast<std::uint32_t>(value >> 32U);
        return std::uint64_t{(*this)(low)} << 32U | (*this)(high);
    }
    __device__ tandem::cuda::Pair<float> operator()(tandem::cuda::Pair<float> value) const {
        return {swapped<std::uint32_t>(value.first), swapped<std::uint32_t>(value.second)};
    }
    __device__ tandem::cuda::Pair<double> operator()(tandem::cuda::Pair<double> value) const {
        return {swapped<std::uint64_t>(value.first), swapped<std::uint64_t>(value.second)};
    }

private:
    template <class Bits, class T>
    __device__ T swapped(T value) const {
        return __builtin_bit_cast(T, (*this)(__builtin_bit_cast(Bits, value)));
    }
};

#define TANDEM_CUDA_OP byteswap
#define TANDEM_CUDA_FUNCTOR Byteswap
TANDEM_FOR_EACH_DTYPE(TANDEM_CUDA_KERNELS)
