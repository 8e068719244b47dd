#pragma once
// What the tests of reductions share.

#include <cmath>
#include <cstring>

#include "placed.hpp"

namespace tandem::test {

inline Array reduce(Queue& queue, ReduceOp op, const Array& in) {
    return op == ReduceOp::sum ? sum(queue, in) : op == ReduceOp::min ? min(queue, in) : max(queue, in);
}

inline bool is_complex(DType dtype) {
    return dtype == complex64 || dtype == complex128;
}
inline int digits(DType dtype) {
    return dtype == float16 ? 11 : dtype == bfloat16 ? 8 : component_bytes(dtype) == 4 ? 24 : 53;
}

template <class T>
T load_as(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

// A floating point component.
inline double load_real(DType dtype, const std::byte* from) {
    if (dtype == float16) return static_cast<double>(static_cast<float>(load_as<Float16>(from)));
    if (dtype == bfloat16) return static_cast<double>(static_cast<float>(load_as<BFloat16>(from)));
    return component_bytes(dtype) == 4 ? static_cast<double>(load_as<float>(from)) : load_as<double>(from);
}

// The element of an array of one, of any dtype.
inline Bytes item_bytes(Queue& queue, const Array& array) {
    Bytes bytes(size_bytes(array.dtype()));
    switch (array.dtype()) {
#define TANDEM_X(name, type, code)                       \
    case DType::name: {                                  \
        const type value = item<type>(queue, array);     \
        std::memcpy(bytes.data(), &value, bytes.size()); \
        break;                                           \
    }
        TANDEM_FOR_EACH_DTYPE(TANDEM_X)
#undef TANDEM_X
    }
    return bytes;
}

// Real components: {real, 0} for complex numbers.
inline Bytes reals(DType dtype, const std::vector<double>& values) {
    Bytes all(values.size() * size_bytes(dtype));
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto single = static_cast<float>(values[i]);
        const Float16 half(single);
        const BFloat16 brain(single);
        const void* from = component_bytes(dtype) == 8 ? static_cast<const void*>(&values[i]) : &single;
        if (dtype == float16) from = &half;
        if (dtype == bfloat16) from = &brain;
        std::memcpy(all.data() + i * size_bytes(dtype), from, component_bytes(dtype));
    }
    return all;
}

inline double real_of(Queue& queue, const Array& result) {
    return load_real(result.dtype(), item_bytes(queue, result).data());
}

inline constexpr std::array real_dtypes{float16, bfloat16, float32, float64, complex64, complex128};

}  // namespace tandem::test
