#include "core/staging.hpp"

#include <algorithm>
#include <memory>

#include "core/driver.hpp"
#include "core/queue_state.hpp"

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

void fill_in_pieces(const Array& array,
                    const std::function<void(std::size_t offset_bytes, std::span<std::byte> piece)>& produce) {
    const std::size_t slot_bytes = std::min(piece_bytes, array.size_bytes());
    const auto slots = std::make_unique_for_overwrite<std::byte[]>(2 * slot_bytes);
    Queue queue(array.device());  // goes before the slots, and waits for its work when it does
    Event written[2];
    unsigned slot = 0;
    for (std::size_t done = 0; done < array.size_bytes(); done += slot_bytes, slot ^= 1U) {
        const std::size_t bytes = std::min(slot_bytes, array.size_bytes() - done);
        std::byte* piece = slots.get() + slot * slot_bytes;
        written[slot].wait();
        produce(done, {piece, bytes});
        {
            QueueState::Submission submission(queue.state(), bytes);
            submission.use(array.memory());
            submission.native().write(*array.memory(), array.offset_bytes() + done, piece, bytes);
        }
        written[slot] = queue.record();
    }
    queue.synchronize();
}

}  // namespace tandem
