#include "kernels/twice.hpp"

#include "kernels/elementwise.cuh"

struct Twice {
    template <class T>
    __device__ T operator()(T value) const {
        return value + value;
    }
};

#define TANDEM_CUDA_OP twice
#define TANDEM_CUDA_FUNCTOR Twice
TANDEM_FOR_EACH_DTYPE(TANDEM_CUDA_KERNELS)
