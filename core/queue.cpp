#include "tandem/queue.hpp"

#include "core/device_state.hpp"
#include "tandem/error.hpp"

namespace tandem {

bool Event::is_done() const {
    if (event_ == nullptr) return true;
    return event_->is_done();
}

void Event::wait() const {
    if (event_ != nullptr) event_->wait();
}

Queue::Queue(const Device& device) : device_(device), state_(device.state()->make_queue()) {}

namespace {

void finish(const std::shared_ptr<QueueState>& state) noexcept {
    if (state == nullptr) return;
    try {
        state->synchronize();
    } catch (...) {
        // A destructor can't report; whoever wanted to know has waited before.
    }
}

}  // namespace

Queue::~Queue() {
    finish(state_);
}

Queue& Queue::operator=(Queue&& other) noexcept {
    if (this != &other) {
        finish(state_);
        device_ = std::move(other.device_);
        state_ = std::move(other.state_);
    }
    return *this;
}

void Queue::throw_moved_from() {
    throw Error(ErrorCode::invalid_argument, "this queue was moved from");
}

Event Queue::record() {
    return {device_, state().record()};
}

void Queue::wait(const Event& event) {
    QueueState& queue = state();
    if (event.native() == nullptr) return;
    if (event.device_state()->native->info().backend != device_.info().backend) {
        event.wait();
    } else {
        queue.wait_for(*event.native());
    }
}

// NOLINTNEXTLINE(readability-make-member-function-const): a queue is changed by what is done with it
void Queue::synchronize() {
    state().synchronize();
}

}  // namespace tandem
