#include "kernels/twice.hpp"

#include "kernels/elementwise_host.hpp"

namespace {
struct Twice {
    template <class T>
    T operator()(T value) const {
        return static_cast<T>(value + value);
    }
    bool operator()(bool value) const { return value; }
};
}  // namespace

TANDEM_HOST_KERNELS(twice, Twice)
