#include "core/transport/saver.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "core/device_state.hpp"
#include "core/transport/threads.hpp"

namespace tandem {
namespace {

// Pieces end at multiples of it in the file, so that no two threads write to one of its pages.
constexpr std::uint64_t page_bytes = 4096;

struct Begun {
    explicit Begun(SaveJob job_begun) : job(std::move(job_begun)), unread_bytes(job.size_bytes) {}
    SaveJob job;
    std::size_t drawn_bytes = 0;  // with the run's mutex held
    std::atomic<std::size_t> unread_bytes;
};

struct Piece {
    std::shared_ptr<Begun> begun;
    std::size_t offset_bytes = 0;  // in the job
    std::size_t size_bytes = 0;
};

class SaveRun {
public:
    SaveRun(const Device& device, const std::function<std::optional<SaveJob>()>& next, Meter& meter)
        : device_(*device.state()), next_(next), meter_(meter), ring_(device_.transport.ring()) {}

    void write(ThreadGroup& group) {
        std::optional<Fetched> fetched = fetch(group);
        while (fetched) {
            // Its copy is under way while this one is written.
            std::optional<Ring::Slot> free = ring_->try_take();
            std::optional<Fetched> following = free ? fetch(group, std::move(free)) : std::nullopt;
            if (fetched->event != nullptr) wait_quietly(*fetched->event);
            const SaveJob& job = fetched->piece.begun->job;
            job.sink->write_at(job.sink_offset_bytes + fetched->piece.offset_bytes, fetched->bytes);
            if (job.host != nullptr) note_read(fetched->piece);
            meter_.add(fetched->bytes.size());
            if (group.is_caller()) meter_.report();
            fetched.reset();
            fetched = following ? std::move(following) : fetch(group);
        }
    }

private:
    // A piece whose bytes are on the host, or will be after `event`.
    struct Fetched {
        Piece piece;
        std::optional<Ring::Slot> slot;
        std::shared_ptr<driver::Event> event;
        std::span<const std::byte> bytes;
    };

    // Waits for the next job only where it `may_wait`.
    std::optional<Piece> draw(const ThreadGroup& group, bool may_wait) {
        std::unique_lock lock(mutex_, std::defer_lock);
        if (may_wait) {
            lock.lock();
        } else if (!lock.try_lock()) {
            return {};
        }
        if (group.has_failed()) return {};
        meter_.check();
        if (current_ == nullptr) {
            std::optional<SaveJob> job = is_at_end_ || !may_wait ? std::nullopt : next_();
            if (!job) {
                is_at_end_ = is_at_end_ || may_wait;
                return {};
            }
            current_ = std::make_shared<Begun>(std::move(*job));
        }
        const std::size_t begin = current_->drawn_bytes;
        const std::uint64_t lead = (current_->job.sink_offset_bytes + begin) % page_bytes;
        Piece piece{current_, begin, std::min(ring_->slot_bytes() - lead, current_->job.size_bytes - begin)};
        current_->drawn_bytes += piece.size_bytes;
        if (current_->drawn_bytes == current_->job.size_bytes) current_ = nullptr;
        return piece;
    }

    static void note_read(const Piece& piece) {
        if (piece.begun->unread_bytes.fetch_sub(piece.size_bytes) == piece.size_bytes && piece.begun->job.read)
            piece.begun->job.read();
    }

    // Begins to bring the next piece to the host, through a slot that it waits for or, ahead of time, through `slot`. Ahead of
    // time the next job is left alone: it may come only after the piece at hand is written.
    std::optional<Fetched> fetch(const ThreadGroup& group, std::optional<Ring::Slot> slot = {}) {
        const std::optional<Piece> piece = draw(group, !slot);
        if (!piece) return {};
        const SaveJob& job = piece->begun->job;
        if (job.host != nullptr) return Fetched{*piece, {}, {}, {job.host + piece->offset_bytes, piece->size_bytes}};
        if (!slot) slot.emplace(ring_->take());
        const std::span<std::byte> bytes = slot->bytes().first(piece->size_bytes);
        const std::shared_ptr<QueueState> queue = device_.transport.save_queue();
        {
            QueueState::Submission submission(*queue, 0);  // the slot's event ends the batch
            submission.use(job.memory);
            submission.native().read(*job.memory, job.offset_bytes + piece->offset_bytes, bytes.data(), bytes.size());
        }
        const std::shared_ptr<driver::Event> event = queue->record();
        slot->busy_until(event);
        note_read(*piece);
        return Fetched{*piece, std::move(slot), event, bytes};
    }

    DeviceState& device_;
    const std::function<std::optional<SaveJob>()>& next_;
    Meter& meter_;
    const std::shared_ptr<Ring> ring_;
    std::mutex mutex_;
    std::shared_ptr<Begun> current_;
    bool is_at_end_ = false;
};

}  // namespace

void run_saves(const Device& device, const std::function<std::optional<SaveJob>()>& next, bool in_order, Meter& meter) {
    SaveRun run(device, next, meter);
    ThreadGroup group;
    group.run(
        in_order ? 1 : device.state()->transport.limits().writers, [&] { run.write(group); }, device.info().numa_node);
}

}  // namespace tandem
