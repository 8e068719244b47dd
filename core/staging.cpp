#include "core/staging.hpp"

#include "core/driver.hpp"

namespace tandem {

Array dense(const Array& array, DenseOrder accepted) {
    if (array.is_dense(Order::c) || (accepted == DenseOrder::any && array.is_dense(Order::fortran))) return array;
    array.memory()->uses.wait();
    Array copied = empty(array.device(), array.dtype(), array.shape());
    Queue queue(array.device());
    copy(queue, array, copied);
    queue.synchronize();
    return copied;
}

}  // namespace tandem
