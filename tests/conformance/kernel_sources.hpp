#pragma once
// Kernels of the suite's own, in every language. CUDA ones check their bounds always, OpenCL ones where a group is given.

#include "fixture.hpp"

namespace tandem::test {

/// y[i] += a * x[i]
inline const KernelSource axpy_source{
    .cuda = R"(extern "C" __global__ void axpy(const float* x, float* y, float a, long long n) {
    const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
    if (i < n) y[i] += a * x[i];
})",
    .opencl = R"(__kernel void axpy(__global const float* x, __global float* y, float a, long n) {
    const size_t i = get_global_id(0);
    if (i < n) y[i] += a * x[i];
})",
    .host = host_kernel([](std::size_t i, const float* x, float* y, float a, std::int64_t /*n*/) { y[i] += a * x[i]; })};

inline Kernel axpy_kernel() {
    return device().compile(axpy_source, "axpy");
}

inline std::vector<float> ramp(std::int64_t count, float first = 0.0F) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) {
        value = first;
        first += 1.0F;
        if (first > 1000.0F) first = 0.0F;
    }
    return values;
}

inline Array array_of(const std::vector<float>& values) {
    const Array array = make_array(float32, {static_cast<std::int64_t>(values.size())});
    if (values.empty()) return array;
    auto view = array.map<float>(Access::write);
    std::copy(values.begin(), values.end(), view.begin());
    view.unmap();
    return array;
}

template <class T>
std::vector<T> values_of(const Array& array) {
    const auto view = array.map<T>(Access::read);
    return {view.begin(), view.end()};
}

}  // namespace tandem::test
