#include "kernels/add.hpp"

#include "kernels/elementwise_host.hpp"

namespace {
struct Add {
    template <class T>
    T operator()(T left, T right) const {
        return static_cast<T>(left + right);
    }
    bool operator()(bool left, bool right) const { return left | right; }
};
}  // namespace

TANDEM_HOST_KERNELS(add, Add)
