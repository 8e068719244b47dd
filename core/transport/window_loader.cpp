#include "core/transport/window_loader.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/device_state.hpp"
#include "core/driver.hpp"
#include "core/host_block.hpp"
#include "core/mapping.hpp"
#include "core/transport/source.hpp"
#include "core/transport/threads.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

// Shorter waits end sooner where the thread stays awake.
constexpr std::size_t quiet_bytes = std::size_t{64} << 20U;

class WindowRun {
public:
    WindowRun(const WindowLoad& load, unsigned readers, Meter& meter)
        : load_(load),
          meter_(meter),
          device_(*load.array.device().state()),
          ring_(readers != 0 ? device_.transport.ring() : nullptr),
          piece_bytes_(ring_ != nullptr ? ring_->slot_bytes() / load.item_bytes * load.item_bytes : 0),
          source_(load.file, load.offset_bytes),
          back_bytes_(load.array.size_bytes()),
          readers_(piece_bytes_ != 0 ? readers : 0) {}

    LoadPart run() {
        ThreadGroup group;
        group.run(
            1 + readers_, [&] { group.is_caller() ? adopt_from_front() : read_from_back(); },
            load_.array.device().info().numa_node);
        finish_loads(load_.array.device(), load_.array.size_bytes(), readers_ == 0 ? 1 : Transport::load_queues);
        device_.transport.let_go_later(std::move(windows_));
        return {front_bytes_, back_bytes_};
    }

private:
    struct Piece {
        Ring::Slot slot;
        std::size_t begin_bytes;
        std::span<const std::byte> bytes;
    };

    // Whoever fails has the others end too.
    class EndsAll {
    public:
        explicit EndsAll(WindowRun& run) : run_(run) {}
        ~EndsAll() { run_.end(); }
        EndsAll(const EndsAll&) = delete;
        EndsAll& operator=(const EndsAll&) = delete;

    private:
        WindowRun& run_;
    };

    void end() noexcept {
        {
            const std::lock_guard lock(mutex_);
            is_ended_ = true;
        }
        changed_.notify_all();
    }

    void adopt_from_front() {
        const EndsAll ends(*this);
        do {
            meter_.check();
            give_slots();
            queue_pieces();
            meter_.report();
        } while (adopt_window());
        end();
        // What the readers are at, and nothing new.
        while (wait_for_pieces())
            queue_pieces();
        meter_.report();
    }

    // False where none is left, or the device takes no more.
    bool adopt_window() {
        const std::size_t begin = front_bytes_;
        const std::uint64_t first = load_.offset_bytes + begin, page = first / page_bytes() * page_bytes();
        std::size_t size = 0;
        {
            const std::lock_guard lock(mutex_);
            if (is_ended_) return false;
            const std::size_t left = back_bytes_ - begin;
            size = static_cast<std::size_t>(std::min<std::uint64_t>(page + load_.window_bytes - first, left));
            if (size > load_.item_bytes) size = size / load_.item_bytes * load_.item_bytes;
            size = std::min(std::max(size, load_.item_bytes), left);
            if (size == 0) return false;
            front_bytes_ += size;
        }
        const driver::HostRange range{const_cast<std::byte*>(load_.file.bytes().data()) + page, first - page + size, false, true,
                                      false};
        try {
            windows_.push_back(device_.native->adopt(range));
        } catch (const Error& error) {
            if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::out_of_memory) throw;
            const std::lock_guard lock(mutex_);
            front_bytes_ = begin;
            return false;
        }
        windows_.back()->owner = std::make_shared<const MappedFile>(load_.file);
        {
            QueueState::Submission submission(*device_.transport.load_queue(0), size);
            submission.use(windows_.back());
            submission.use(load_.array.memory());
            submission.native().copy(*load_.array.memory(), load_.array.offset_bytes() + begin, *windows_.back(), first - page,
                                     size);
        }
        count(begin, size);
        return true;
    }

    // Slots go back to the ring with each piece, so that others who load at the same time have their turn.
    void give_slots() {
        while (readers_ != 0 && slots_out_ < ring_->count()) {
            std::optional<Ring::Slot> slot = ring_->try_take();
            if (!slot) return;
            ++slots_out_;
            const std::lock_guard lock(mutex_);
            empty_.push_back(std::move(*slot));
            changed_.notify_one();
        }
    }

    void queue_pieces() {
        for (;;) {
            std::optional<Piece> piece;
            {
                const std::lock_guard lock(mutex_);
                if (full_.empty()) return;
                piece.emplace(std::move(full_.front()));
                full_.pop_front();
            }
            const std::shared_ptr<QueueState> queue = device_.transport.load_queue(1);
            {
                QueueState::Submission submission(*queue, 0);  // the slot's event ends the batch
                submission.use(load_.array.memory());
                submission.native().write(*load_.array.memory(), load_.array.offset_bytes() + piece->begin_bytes,
                                          piece->bytes.data(), piece->bytes.size());
            }
            piece->slot.busy_until(queue->record());
            --slots_out_;
            count(piece->begin_bytes, piece->bytes.size());
        }
    }

    // Until there are some; false where no more will come.
    bool wait_for_pieces() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !full_.empty() || reading_ == 0; });
        return !full_.empty();
    }

    void count(std::size_t begin_bytes, std::size_t size_bytes) {
        if (load_.queued) load_.queued(begin_bytes, size_bytes);
        meter_.add(size_bytes);
    }

    // Registering pages that the process has mapped takes half of the time of those that it has not.
    void map_windows_ahead() {
        for (;;) {
            std::size_t begin = 0, end = 0;
            {
                const std::lock_guard lock(mutex_);
                begin = std::max(mapped_bytes_, front_bytes_);
                end =
                    std::min({back_bytes_, begin + load_.window_bytes, front_bytes_ + load_.windows_ahead * load_.window_bytes});
                if (begin >= end || is_ended_) return;
                mapped_bytes_ = end;
            }
            const std::uint64_t page = (load_.offset_bytes + begin) / page_bytes() * page_bytes();
            map_ahead(load_.file.bytes().data() + page, load_.offset_bytes + end - page);
        }
    }

    void read_from_back() {
        const EndsAll ends(*this);
        for (;;) {
            map_windows_ahead();
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return is_ended_ || !empty_.empty(); });
            if (is_ended_ || front_bytes_ == back_bytes_) return;
            Ring::Slot slot = std::move(empty_.front());
            empty_.pop_front();
            // The last piece to be taken is a short one; those before it leave whole items to both sides.
            const std::size_t size = std::min(piece_bytes_, back_bytes_ - front_bytes_);
            back_bytes_ -= size;
            const std::size_t begin = back_bytes_;
            ++reading_;
            lock.unlock();
            try {
                const std::span<const std::byte> bytes = source_.read_to_slot(begin, size, slot.bytes());
                lock.lock();
                full_.push_back({std::move(slot), begin, bytes});
            } catch (...) {
                if (!lock.owns_lock()) lock.lock();
                --reading_;
                changed_.notify_all();
                throw;
            }
            --reading_;
            changed_.notify_all();
        }
    }

    const WindowLoad& load_;
    Meter& meter_;
    DeviceState& device_;
    const std::shared_ptr<Ring> ring_;
    const std::size_t piece_bytes_;
    FileSource source_;
    std::vector<std::shared_ptr<driver::Memory>> windows_;
    unsigned slots_out_ = 0;

    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_ended_ = false;  // nothing new is to be begun
    std::size_t front_bytes_ = 0;
    std::size_t back_bytes_;
    std::size_t mapped_bytes_ = 0;  // ahead of the front
    const unsigned readers_;
    unsigned reading_ = 0;
    std::deque<Ring::Slot> empty_;
    std::deque<Piece> full_;
};

}  // namespace

LoadPart load_by_windows(const WindowLoad& load, unsigned readers, Meter& meter) {
    return WindowRun(load, readers, meter).run();
}

void finish_loads(const Device& device, std::size_t size_bytes, std::size_t queues) {
    Transport& transport = device.state()->transport;
    std::vector<std::shared_ptr<driver::Event>> events;
    for (std::size_t which = 0; which < queues; ++which)
        events.push_back(transport.load_queue(which)->record());
    for (const auto& event : events)
        size_bytes < quiet_bytes ? event->wait() : wait_quietly(*event);
    for (std::size_t which = 0; which < queues; ++which)
        transport.load_queue(which)->reap();
}

}  // namespace tandem
