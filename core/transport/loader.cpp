#include "core/transport/loader.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include "core/device_state.hpp"
#include "core/transport/threads.hpp"

namespace tandem {
namespace {

// A job that has been begun; its pieces share it.
struct Begun {
    explicit Begun(LoadJob job_begun) : job(std::move(job_begun)), left_bytes(job.size_bytes) {}
    LoadJob job;
    std::size_t drawn_bytes = 0;  // with the run's mutex held
    std::atomic<std::size_t> left_bytes;
};

struct Piece {
    std::shared_ptr<Begun> begun;
    std::size_t offset_bytes = 0;  // in the job
    std::size_t size_bytes = 0;
};

class LoadRun {
public:
    LoadRun(const Device& device, const std::function<std::optional<LoadJob>()>& next, Meter& meter)
        : device_(*device.state()), next_(next), meter_(meter), piece_bytes_(device_.transport.limits().slot_bytes) {}

    void read(ThreadGroup& group) {
        while (std::optional<Piece> piece = draw(group)) {
            move(*piece);
            meter_.add(piece->size_bytes);
            if (piece->begun->left_bytes.fetch_sub(piece->size_bytes) == piece->size_bytes && piece->begun->job.done)
                piece->begun->job.done();
            if (group.is_caller()) meter_.report();
        }
    }

    [[nodiscard]] std::size_t queues_used() const noexcept { return std::min<std::size_t>(next_queue_, Transport::load_queues); }

private:
    std::optional<Piece> draw(const ThreadGroup& group) {
        const std::lock_guard lock(mutex_);
        if (group.has_failed()) return {};
        meter_.check();
        if (current_ == nullptr) {
            std::optional<LoadJob> job = is_at_end_ ? std::nullopt : next_();
            if (!job) {
                is_at_end_ = true;
                return {};
            }
            current_ = std::make_shared<Begun>(std::move(*job));
        }
        const std::size_t begin = current_->drawn_bytes;
        Piece piece{current_, begin, std::min(piece_bytes_, current_->job.size_bytes - begin)};
        current_->drawn_bytes += piece.size_bytes;
        if (current_->drawn_bytes == current_->job.size_bytes) current_ = nullptr;
        return piece;
    }

    void move(const Piece& piece) {
        const LoadJob& job = piece.begun->job;
        const std::uint64_t from = job.source_offset_bytes + piece.offset_bytes;
        std::byte* const host = job.host != nullptr ? job.host + piece.offset_bytes : nullptr;
        if (host != nullptr && !job.source->needs_slot(from, piece.size_bytes)) {
            job.source->read(from, {host, piece.size_bytes});
            return;
        }
        const std::shared_ptr<Ring> ring = this->ring();
        Ring::Slot slot = ring->take();
        const std::span<const std::byte> bytes = job.source->read_to_slot(from, piece.size_bytes, slot.bytes());
        if (host != nullptr) {
            std::memcpy(host, bytes.data(), bytes.size());
            return;
        }
        const std::shared_ptr<QueueState> queue = device_.transport.load_queue(next_queue_++);
        {
            QueueState::Submission submission(*queue, 0);  // the slot's event ends the batch
            submission.use(job.memory);
            submission.native().write(*job.memory, job.offset_bytes + piece.offset_bytes, bytes.data(), bytes.size());
        }
        slot.busy_until(queue->record());
    }

    // Of this run's slot size, whatever limits are set meanwhile.
    std::shared_ptr<Ring> ring() {
        const std::lock_guard lock(ring_mutex_);
        if (ring_ == nullptr) ring_ = device_.transport.ring();
        if (ring_->slot_bytes() < piece_bytes_) ring_ = std::make_shared<Ring>(*device_.native, ring_->count(), piece_bytes_);
        return ring_;
    }

    DeviceState& device_;
    const std::function<std::optional<LoadJob>()>& next_;
    Meter& meter_;
    const std::size_t piece_bytes_;
    std::mutex mutex_;
    std::shared_ptr<Begun> current_;
    bool is_at_end_ = false;
    std::atomic<std::size_t> next_queue_{0};
    std::mutex ring_mutex_;
    std::shared_ptr<Ring> ring_;
};

}  // namespace

std::size_t run_loads(const Device& device, const std::function<std::optional<LoadJob>()>& next, std::uint64_t total_bytes,
                      Meter& meter) {
    const TransferLimits limits = device.state()->transport.limits();
    const std::uint64_t pieces = (total_bytes + limits.slot_bytes - 1) / limits.slot_bytes;
    LoadRun run(device, next, meter);
    ThreadGroup group;
    group.run(
        static_cast<unsigned>(std::min<std::uint64_t>(limits.readers, pieces)), [&] { run.read(group); },
        device.info().numa_node);
    return run.queues_used();
}

}  // namespace tandem
