// Moving elements: between arrays, and between arrays and the host.

#include <fmt/format.h>

#include <span>

#include "core/device_state.hpp"
#include "core/elementwise.hpp"
#include "core/staging.hpp"
#include "core/transport/file_transfer.hpp"
#include "tandem/array.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

void check_elements(const char* direction, const Array& array, const void* host, std::size_t count, DType dtype) {
    if (dtype != array.dtype() || count != static_cast<std::size_t>(array.count())) {
        throw Error(ErrorCode::invalid_argument, fmt::format("copy {} the host: {} elements of {} on the host, {} in the array",
                                                             direction, count, to_string(dtype), describe(array)));
    }
    if (host == nullptr && count != 0)
        throw Error(ErrorCode::invalid_argument, fmt::format("copy {} the host: the host pointer is null", direction));
}

bool is_same_order(const Array& source, const Array& destination) {
    return (source.is_dense(Order::c) && destination.is_dense(Order::c)) ||
           (source.is_dense(Order::fortran) && destination.is_dense(Order::fortran));
}

void copy_on_device(Queue& queue, const Array& source, const Array& destination) {
    if (!is_same_order(source, destination)) {
        run_elementwise(queue, Op::copy, {&source}, destination);
        return;
    }
    const Overlap shared = overlap(source, destination);
    if (shared == Overlap::same) return;
    if (shared == Overlap::partial) {
        throw Error(ErrorCode::invalid_argument, "copy: the arrays overlap in memory, but not element for element");
    }
    QueueState::Submission submission(queue.state(), 2 * source.size_bytes());
    submission.use(source.memory());
    submission.use(destination.memory());
    submission.native().copy(*destination.memory(), destination.offset_bytes(), *source.memory(), source.offset_bytes(),
                             source.size_bytes());
}

// A copy that the driver makes from one device of a backend to another. False where it can't.
bool copy_directly(Queue& queue, const Array& source, const Array& destination) {
    if (source.device().info().backend != destination.device().info().backend || !is_same_order(source, destination) ||
        overlap(source, destination) != Overlap::none) {
        return false;
    }
    // The other device's queues know nothing of this one: what they have to do with the memory comes before and after.
    source.memory()->uses.wait();
    destination.memory()->uses.wait();
    {
        QueueState::Submission submission(queue.state(), 2 * source.size_bytes());
        submission.use(source.memory());
        submission.use(destination.memory());
        if (!submission.native().copy_between(*destination.memory(), destination.offset_bytes(), *source.memory(),
                                              source.offset_bytes(), source.size_bytes())) {
            return false;
        }
    }
    queue.state().record()->wait();
    return true;
}

void copy_between_devices(const Array& source, const Array& destination) {
    // Both may have adopted the same memory.
    if (overlap(source, destination) == Overlap::partial) {
        throw Error(ErrorCode::invalid_argument, "copy: the arrays overlap in memory, but not element for element");
    }
    source.memory()->uses.wait();
    destination.memory()->uses.wait();
    const Array from = dense(source, DenseOrder::c);
    const bool in_place = destination.is_dense(Order::c);
    const Array to = in_place ? destination : empty(destination.device(), destination.dtype(), destination.shape());
    CalledSource pieces([&](std::uint64_t offset_bytes, std::span<std::byte> piece) {
        from.device().state()->read(from.memory(), from.offset_bytes() + offset_bytes, piece.data(), piece.size());
    });
    load_bytes(pieces, to);
    if (in_place) return;
    Queue queue(destination.device());
    copy_on_device(queue, to, destination);
    queue.synchronize();
}

}  // namespace

void copy(Queue& queue, const Array& source, const Array& destination) {
    if (source.dtype() != destination.dtype() || source.shape() != destination.shape()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("copy: the source is {}, the destination {}: {} must be equal", describe(source),
                                describe(destination), source.dtype() != destination.dtype() ? "dtypes" : "shapes"));
    }
    const bool one_device = source.device() == destination.device();
    if (one_device || !(source.device() == queue.device())) check_same_device("copy", queue, destination);
    if (source.count() == 0) return;
    check_access("copy", "the source", source, Access::read);
    check_access("copy", "the destination", destination, Access::write);
    if (one_device) {
        copy_on_device(queue, source, destination);
    } else if (!copy_directly(queue, source, destination)) {
        copy_between_devices(source, destination);
    }
}

namespace detail {

void write_elements(Queue& queue, const void* source, std::size_t count, DType dtype, const Array& destination) {
    check_same_device("copy", queue, destination);
    check_elements("from", destination, source, count, dtype);
    if (count == 0) return;
    check_access("copy from the host", "the array", destination, Access::write);
    const Array to = destination.is_dense(Order::c) ? destination : empty(destination.device(), dtype, destination.shape());
    {
        QueueState::Submission submission(queue.state(), to.size_bytes());
        submission.use(to.memory());
        submission.native().write(*to.memory(), to.offset_bytes(), source, to.size_bytes());
    }
    if (!destination.is_dense(Order::c)) copy_on_device(queue, to, destination);
}

void read_elements(Queue& queue, const Array& source, void* destination, std::size_t count, DType dtype) {
    check_same_device("copy", queue, source);
    check_elements("to", source, destination, count, dtype);
    if (count == 0) return;
    check_access("copy to the host", "the array", source, Access::read);
    Array from = source;
    if (!source.is_dense(Order::c)) {
        from = empty(source.device(), dtype, source.shape());
        copy_on_device(queue, source, from);
    }
    QueueState::Submission submission(queue.state(), from.size_bytes());
    submission.use(from.memory());
    submission.native().read(*from.memory(), from.offset_bytes(), destination, from.size_bytes());
}

}  // namespace detail
}  // namespace tandem
