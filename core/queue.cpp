#include "tandem/queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "core/device_state.hpp"
#include "tandem/error.hpp"

namespace tandem {

bool Event::is_done() const {
    if (event_ == nullptr) return true;
    return event_->is_done();
}

namespace {

// Calls `wait`; a device that is lost is noted, so that opening it again makes a new one.
template <class Wait>
void watch(const std::shared_ptr<DeviceState>& device, Wait&& wait) {
    try {
        wait();
    } catch (const Error& error) {
        if (error.code() == ErrorCode::device_lost && device != nullptr) device->set_lost();
        throw;
    }
}

// Drivers have no waiting with an end: asks at short intervals first, since most work is short.
bool wait_until_done(const driver::Event& event, std::chrono::nanoseconds timeout) {
    const auto start = std::chrono::steady_clock::now();
    auto pause = std::chrono::nanoseconds(1000);
    constexpr std::chrono::nanoseconds longest_pause = std::chrono::milliseconds(1);
    while (!event.is_done()) {
        const auto elapsed = std::chrono::steady_clock::now() - start;
        if (elapsed >= timeout) return false;
        std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, timeout - elapsed));
        pause = std::min(pause * 2, longest_pause);
    }
    return true;
}

}  // namespace

void Event::wait() const {
    if (event_ != nullptr) watch(device_, [&] { event_->wait(); });
}

bool Event::wait_for(std::chrono::nanoseconds timeout) const {
    if (event_ == nullptr) return true;
    if (!wait_until_done(*event_, timeout)) return false;
    wait();
    return true;
}

Queue::Queue(const Device& device) : device_(device), state_(device.state()->make_queue()) {}

namespace {

void finish(const std::shared_ptr<QueueState>& state) noexcept {
    if (state == nullptr) return;
    state->leave();
    try {
        state->synchronize();
    } catch (...) {
        // A destructor can't report; whoever wanted to know has waited before.
    }
}

}  // namespace

Queue::Queue(Queue&& other) noexcept : device_(std::move(other.device_)), state_(std::move(other.state_)) {
    if (state_ != nullptr) state_->leave();
}

Queue::~Queue() {
    finish(state_);
}

Queue& Queue::operator=(Queue&& other) noexcept {
    if (this != &other) {
        finish(state_);
        device_ = std::move(other.device_);
        state_ = std::move(other.state_);
        if (state_ != nullptr) state_->leave();
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
    QueueState& queue = state();
    watch(device_.state(), [&] { queue.synchronize(); });
}

void Queue::synchronize(std::chrono::nanoseconds timeout) {
    QueueState& queue = state();
    if (!wait_until_done(*queue.record(), timeout)) {
        throw Error(ErrorCode::timed_out,
                    fmt::format("{}: the queue's work was not done within {} ms, and goes on", device_.spec(),
                                std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count()));
    }
    synchronize();
}

void Queue::abandon() noexcept {
    if (state_ == nullptr) return;
    state_->leave();
    state_->abandon();
    device_.state()->set_lost();
    state_.reset();
}

}  // namespace tandem
