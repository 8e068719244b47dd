// Moving elements: between arrays, and between arrays and the host.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/device_state.hpp"
#include "core/elementwise.hpp"
#include "tandem/array.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

// Bytes in flight between devices: two pieces, one read while the other is written.
constexpr std::size_t piece_bytes = std::size_t{8} << 20U;

void check_device(const Queue& queue, const Array& array) {
    if (array.device() == queue.device()) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("copy: the array is on {}, the queue on {}", array.device().spec(), queue.device().spec()));
}

void check_elements(const char* direction, const Array& array, const void* host, std::size_t count, DType dtype) {
    if (dtype != array.dtype() || count != static_cast<std::size_t>(array.count())) {
        throw Error(ErrorCode::invalid_argument, fmt::format("copy {} the host: {} elements of {} on the host, {} in the array",
                                                             direction, count, to_string(dtype), describe(array)));
    }
    if (host == nullptr && count != 0)
        throw Error(ErrorCode::invalid_argument, fmt::format("copy {} the host: the host pointer is null", direction));
}

void copy_on_device(Queue& queue, const Array& source, const Array& destination) {
    const bool same_order = (source.is_dense(Order::c) && destination.is_dense(Order::c)) ||
                            (source.is_dense(Order::fortran) && destination.is_dense(Order::fortran));
    if (!same_order) {
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

// The array itself where it is dense in C order, else a dense copy, ready to be read.
Array dense_source(const Array& array) {
    if (array.is_dense(Order::c)) return array;
    Array dense = empty(array.device(), array.dtype(), array.shape());
    Queue queue(array.device());
    copy_on_device(queue, array, dense);
    return dense;
}

// Reads one piece; returns when it is there.
void read_piece(const Array& source, std::size_t offset_bytes, std::byte* to, std::size_t size_bytes) {
    DeviceState& device = *source.device().state();
    const std::lock_guard lock(device.transfer_mutex);
    QueueState& queue = device.transfer_queue();
    {
        QueueState::Submission submission(queue, size_bytes);
        submission.use(source.memory());
        submission.native().read(*source.memory(), source.offset_bytes() + offset_bytes, to, size_bytes);
    }
    queue.synchronize();
}

void copy_between_devices(const Array& source, const Array& destination) {
    source.memory()->uses.wait();
    destination.memory()->uses.wait();
    const Array from = dense_source(source);
    const Array to =
        destination.is_dense(Order::c) ? destination : empty(destination.device(), destination.dtype(), destination.shape());

    const std::size_t size_bytes = from.size_bytes();
    const std::size_t slot_bytes = std::min(piece_bytes, size_bytes);
    const auto slots = std::make_unique_for_overwrite<std::byte[]>(2 * slot_bytes);
    Queue writer(to.device());
    Event written[2];
    unsigned slot = 0;
    for (std::size_t offset = 0; offset < size_bytes; offset += slot_bytes, slot ^= 1U) {
        const std::size_t bytes = std::min(slot_bytes, size_bytes - offset);
        std::byte* piece = slots.get() + slot * slot_bytes;
        written[slot].wait();
        read_piece(from, offset, piece, bytes);
        {
            QueueState::Submission submission(writer.state(), bytes);
            submission.use(to.memory());
            submission.native().write(*to.memory(), to.offset_bytes() + offset, piece, bytes);
        }
        written[slot] = writer.record();
    }
    if (!destination.is_dense(Order::c)) copy_on_device(writer, to, destination);
    writer.synchronize();
}

}  // namespace

void copy(Queue& queue, const Array& source, const Array& destination) {
    if (source.dtype() != destination.dtype() || source.shape() != destination.shape()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("copy: the source is {}, the destination {}: {} must be equal", describe(source),
                                describe(destination), source.dtype() != destination.dtype() ? "dtypes" : "shapes"));
    }
    const bool one_device = source.device() == destination.device();
    if (one_device || !(source.device() == queue.device())) check_device(queue, destination);
    if (source.count() == 0) return;
    if (one_device) {
        copy_on_device(queue, source, destination);
    } else {
        copy_between_devices(source, destination);
    }
}

namespace detail {

void write_elements(Queue& queue, const void* source, std::size_t count, DType dtype, const Array& destination) {
    check_device(queue, destination);
    check_elements("from", destination, source, count, dtype);
    if (count == 0) return;
    const Array to = destination.is_dense(Order::c) ? destination : empty(destination.device(), dtype, destination.shape());
    {
        QueueState::Submission submission(queue.state(), to.size_bytes());
        submission.use(to.memory());
        submission.native().write(*to.memory(), to.offset_bytes(), source, to.size_bytes());
    }
    if (!destination.is_dense(Order::c)) copy_on_device(queue, to, destination);
}

void read_elements(Queue& queue, const Array& source, void* destination, std::size_t count, DType dtype) {
    check_device(queue, source);
    check_elements("to", source, destination, count, dtype);
    if (count == 0) return;
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
