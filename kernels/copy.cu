#include "kernels/copy.hpp"

#include "kernels/elementwise.cuh"

struct Copy {
    template <class T>
    __device__ T operator()(T value) const {
        return value;
    }
};

#define TANDEM_CUDA_OP copy
#define TANDEM_CUDA_FUNCTOR Copy
TANDEM_FOR_EACH_DTYPE(TANDEM_CUDA_KERNELS)
