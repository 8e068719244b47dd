#include "core/file_transfer.hpp"

#include <algorithm>
#include <memory>

#include "core/device_state.hpp"
#include "tandem/queue.hpp"

namespace tandem {
namespace {

// Large enough for the link, small enough to stay in the processor's caches while two are in use.
constexpr std::size_t piece_bytes = std::size_t{4} << 20U;

void load_shared(const MappedFile& file, std::uint64_t file_offset, const Array& array) {
    for (std::size_t done = 0; done < array.size_bytes(); done += piece_bytes) {
        const std::size_t bytes = std::min(piece_bytes, array.size_bytes() - done);
        HostView view(array.device(), array.memory(), array.offset_bytes() + done, bytes, Access::write);
        file.read(file_offset + done, {view.data(), bytes});
        view.unmap();
    }
}

// One piece is read from the file while the one before it is on its way to the device.
void load_pipelined(const MappedFile& file, std::uint64_t file_offset, const Array& array) {
    const std::size_t slot_bytes = std::min(piece_bytes, array.size_bytes());
    const auto slots = std::make_unique_for_overwrite<std::byte[]>(2 * slot_bytes);
    Queue queue(array.device());
    Event written[2];
    unsigned slot = 0;
    for (std::size_t done = 0; done < array.size_bytes(); done += slot_bytes, slot ^= 1U) {
        const std::size_t bytes = std::min(slot_bytes, array.size_bytes() - done);
        std::byte* piece = slots.get() + slot * slot_bytes;
        written[slot].wait();
        file.read(file_offset + done, {piece, bytes});
        {
            QueueState::Submission submission(queue.state(), bytes);
            submission.use(array.memory());
            submission.native().write(*array.memory(), array.offset_bytes() + done, piece, bytes);
        }
        written[slot] = queue.record();
    }
    queue.synchronize();
}

}  // namespace

void load_bytes(const MappedFile& file, std::uint64_t offset_bytes, const Array& array) {
    if (array.count() == 0) return;
    array.memory()->uses.wait();
    if (array.device().info().shares_host_memory) {
        load_shared(file, offset_bytes, array);
    } else {
        load_pipelined(file, offset_bytes, array);
    }
}

void save_bytes(const Array& array, OutputFile& file) {
    for (std::size_t done = 0; done < array.size_bytes(); done += piece_bytes) {
        const std::size_t bytes = std::min(piece_bytes, array.size_bytes() - done);
        HostView view(array.device(), array.memory(), array.offset_bytes() + done, bytes, Access::read);
        file.write({view.data(), bytes});
        view.unmap();
    }
}

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
