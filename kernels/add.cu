#include "kernels/add.hpp"

#include "kernels/elementwise.cuh"

struct Add {
    template <class T>
    __device__ T operator()(T left, T right) const {
        return left + right;
    }
};

#define TANDEM_CUDA_OP add
#define TANDEM_CUDA_FUNCTOR Add
TANDEM_FOR_EACH_DTYPE(TANDEM_CUDA_KERNELS)
