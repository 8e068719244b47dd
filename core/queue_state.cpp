#include "core/queue_state.hpp"

#include <algorithm>
#include <atomic>

#include "core/share/exporter.hpp"

#include "tandem/error.hpp"

namespace tandem {
namespace {

std::uint64_t next_id() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
}

}  // namespace

QueueState::QueueState(std::shared_ptr<driver::Queue> native)
    : id_(next_id()), native_(std::move(native)), target_(native_.get()), interval_(native_->event_interval()) {}

void QueueState::Submission::use(const std::shared_ptr<driver::Memory>& memory) {
    if (memory->exporter != nullptr) [[unlikely]]
        memory->exporter->check();
    if (memory->uses.mark(state_, state_.id_, state_.open_batch_)) state_.open_memory_.push_back(memory);
}

void QueueState::Submission::use(const std::shared_ptr<driver::Kernel>& kernel) {
    if (kernel->uses.mark(state_, state_.id_, state_.open_batch_)) state_.open_things_.push_back(kernel);
}

QueueState::Submission::~Submission() {
    if (state_.target_ != state_.native_.get()) return;
    ++state_.open_operations_;
    state_.open_bytes_ += work_bytes_;
    if (state_.open_bytes_ < state_.interval_.bytes && state_.open_operations_ < state_.interval_.operations) return;
    std::vector<Batch> finished;
    try {
        state_.close_batch();
        finished = state_.take_finished();
    } catch (...) {
        // The batch stays open; whoever waits next meets the failure again.
    }
    lock_.unlock();
}

std::shared_ptr<driver::Event> QueueState::close_batch() {
    std::shared_ptr<driver::Event> event = native_->record();
    closed_.push_back({open_batch_, event, std::move(open_memory_), std::move(open_things_)});
    start_batch();
    return event;
}

void QueueState::start_batch() noexcept {
    open_operations_ = 0;
    open_bytes_ = 0;
    open_memory_.clear();
    open_things_.clear();
    ++open_batch_;
}

std::vector<QueueState::Batch> QueueState::take_finished() noexcept {
    std::vector<Batch> finished;
    try {
        while (!closed_.empty() && closed_.front().event != nullptr && closed_.front().event->is_done()) {
            finished.push_back(std::move(closed_.front()));
            closed_.pop_front();
        }
    } catch (...) {
        // Left in place; `synchronize` reports it.
    }
    return finished;
}

void QueueState::check_not_recording(const char* what) const {
    if (target_ == native_.get()) return;
    throw Error(ErrorCode::invalid_argument,
                std::string(what) + " can't be recorded: a graph holds launches, operations and copies within the device");
}

void QueueState::begin_recording(const std::function<driver::Queue&()>& make_recorder) {
    const std::lock_guard lock(mutex_);
    check_not_recording("a recording within a recording");
    if (open_operations_ != 0) close_batch();
    is_left_ = false;
    target_ = &make_recorder();  // behind the batch's event, which would be recorded with the rest
}

void QueueState::end_recording(Retained& memory, Things& things) noexcept {
    const std::lock_guard lock(mutex_);
    target_ = native_.get();
    memory = std::move(open_memory_);
    things = std::move(open_things_);
    start_batch();  // nothing waits for the one that the recording has marked its memory with
}

void QueueState::abandon() noexcept {
    is_abandoned_.store(true, std::memory_order_relaxed);
    try {
        [[maybe_unused]] static auto& kept = *new std::vector<std::shared_ptr<QueueState>>;  // never destroyed
        static std::mutex mutex;
        const std::lock_guard lock(mutex);
        kept.push_back(shared_from_this());
    } catch (...) {
        new std::shared_ptr<QueueState>(shared_from_this());  // NOLINT: the last way to keep it
    }
}

std::shared_ptr<driver::Event> QueueState::record() {
    const std::lock_guard lock(mutex_);
    check_not_recording("an event");
    // A batch that holds nothing needs no closing, but the point asked for is a new one all the same.
    return open_operations_ == 0 ? std::shared_ptr<driver::Event>(native_->record()) : close_batch();
}

void QueueState::wait_for(const driver::Event& event) {
    const std::lock_guard lock(mutex_);
    check_not_recording("waiting for an event");
    native_->wait_for(event);
}

void QueueState::synchronize() {
    std::uint64_t end = 0;
    {
        const std::lock_guard lock(mutex_);
        check_not_recording("waiting for the queue");
        if (open_operations_ != 0) {
            closed_.push_back({open_batch_, nullptr, std::move(open_memory_), std::move(open_things_)});
            start_batch();
        }
        end = open_batch_;
    }
    // Until the wait is over the batches stay where others who wait for them find them. They go then also where it throws: a lost
    // device uses nothing any more.
    const auto let_go = [&] {
        std::deque<Batch> finished;  // outlives the lock
        {
            const std::lock_guard lock(mutex_);
            for (; !closed_.empty() && closed_.front().number < end; closed_.pop_front())
                finished.push_back(std::move(closed_.front()));
        }
        synchronized_.notify_all();
    };
    try {
        native_->synchronize();
    } catch (...) {
        let_go();
        throw;
    }
    let_go();
}

void QueueState::wait_batch(std::uint64_t batch) {
    std::shared_ptr<driver::Event> event;
    {
        std::unique_lock lock(mutex_);
        const auto find = [&] {
            return std::find_if(closed_.begin(), closed_.end(), [&](const Batch& entry) { return entry.number == batch; });
        };
        if (batch == open_batch_) {
            check_not_recording("waiting for memory that recorded work uses");
            event = close_batch();
        } else {
            const auto found = find();
            if (found == closed_.end()) return;
            event = found->event;
            if (event == nullptr) {
                synchronized_.wait(lock, [&] { return find() == closed_.end(); });
                return;
            }
        }
    }
    event->wait();
    reap();
}

void QueueState::reap() noexcept {
    std::vector<Batch> finished;  // outlives the lock: freeing may take a while
    const std::lock_guard lock(mutex_);
    finished = take_finished();
}

}  // namespace tandem
