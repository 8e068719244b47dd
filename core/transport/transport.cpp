#include "core/transport/transport.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "core/device_state.hpp"
#include "core/thread_pool.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

constexpr unsigned max_threads = 256;
constexpr std::size_t min_slot_bytes = std::size_t{64} << 10U;
constexpr std::size_t max_slot_bytes = std::size_t{1} << 30U;

// Between one file and the next of a program that loads several.
constexpr std::chrono::milliseconds rest{100};
constexpr std::size_t max_waste_bytes = std::size_t{16} << 30U;

TransferLimits chosen() {
    // One writer: a file system takes what is written to one file from one thread at a time, and the copies come ahead of it.
    return {std::clamp(available_processors() * 3 / 4, 2U, 12U), 1, std::size_t{4} << 20U};
}

}  // namespace

Transport::Transport(DeviceState& device) : device_(device), limits_(chosen()) {}

Transport::~Transport() {
    {
        const std::lock_guard lock(waste_mutex_);
        is_ending_ = true;
    }
    waste_changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    // A transfer that failed may have left copies on their way, whose memory goes with their queue's state. A queue that was
    // given up may be what they wait for.
    if (device_.is_lost()) return;
    for (const auto& queue : {load_queues_[0], load_queues_[1], save_queue_}) {
        try {
            if (queue != nullptr) queue->synchronize();
        } catch (...) {
            // A lost device moves nothing any more.
        }
    }
}

TransferLimits Transport::limits() {
    const std::lock_guard lock(mutex_);
    return limits_;
}

void Transport::set_limits(const TransferLimits& limits) {
    const auto check_threads = [](unsigned number, const char* name) {
        if (number > max_threads) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("transfer limits: {} {}: {} at most", number, name, max_threads));
        }
    };
    check_threads(limits.readers, "readers");
    check_threads(limits.writers, "writers");
    if (limits.slot_bytes != 0 &&
        (limits.slot_bytes < min_slot_bytes || limits.slot_bytes > max_slot_bytes || limits.slot_bytes % 4096 != 0)) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("transfer limits: slots of {} bytes: a multiple of 4096 from {} to {} is needed",
                                limits.slot_bytes, min_slot_bytes, max_slot_bytes));
    }
    const TransferLimits usual = chosen();
    std::shared_ptr<Ring> old;  // goes after the lock
    const std::lock_guard lock(mutex_);
    limits_ = {limits.readers != 0 ? limits.readers : usual.readers, limits.writers != 0 ? limits.writers : usual.writers,
               limits.slot_bytes != 0 ? limits.slot_bytes : usual.slot_bytes};
    old = std::move(ring_);
}

std::shared_ptr<Ring> Transport::ring() {
    const std::lock_guard lock(mutex_);
    if (ring_ == nullptr)
        ring_ = std::make_shared<Ring>(*device_.native, 2 * std::max(limits_.readers, limits_.writers), limits_.slot_bytes);
    return ring_;
}

std::shared_ptr<QueueState> Transport::queue(std::shared_ptr<QueueState>& kept) {
    const std::lock_guard lock(mutex_);
    if (kept == nullptr) kept = device_.make_queue();
    return kept;
}

std::vector<std::shared_ptr<driver::Event>> Transport::record_loads() {
    std::vector<std::shared_ptr<driver::Event>> events;
    for (std::size_t which = 0; which < load_queues; ++which)
        events.push_back(load_queue(which)->record());
    return events;
}

void Transport::delay_loads(const driver::Event& event) {
    for (std::size_t which = 0; which < load_queues; ++which)
        load_queue(which)->wait_for(event);
}

void Transport::let_go_later(std::vector<std::shared_ptr<driver::Memory>> memory) {
    const std::lock_guard lock(waste_mutex_);
    try {
        if (!thread_.joinable()) thread_ = std::thread([this] { let_go(); });
    } catch (const std::system_error&) {
        return;  // the system gives no more threads: the caller's `memory` goes now
    }
    for (auto& window : memory) {
        waste_bytes_ += window->size_bytes();
        waste_.push_back(std::move(window));
    }
    waste_came_at_ = std::chrono::steady_clock::now();
    waste_changed_.notify_all();
}

void Transport::let_go() {
    std::unique_lock lock(waste_mutex_);
    for (;;) {
        waste_changed_.wait(lock, [this] { return !waste_.empty() || is_ending_; });
        if (waste_.empty()) return;
        const auto is_urgent = [this] { return is_ending_ || is_wanted_gone_ || waste_bytes_ > max_waste_bytes; };
        // More may come while this waits, which starts it again.
        while (!is_urgent() && std::chrono::steady_clock::now() < waste_came_at_ + rest)
            waste_changed_.wait_until(lock, waste_came_at_ + rest);
        is_letting_go_ = true;
        auto memory = std::move(waste_.back());
        waste_.pop_back();
        waste_bytes_ -= memory->size_bytes();
        lock.unlock();
        memory.reset();
        lock.lock();
        is_letting_go_ = false;
        waste_changed_.notify_all();
    }
}

void Transport::finish() noexcept {
    std::unique_lock lock(waste_mutex_);
    is_wanted_gone_ = true;
    waste_changed_.notify_all();
    waste_changed_.wait(lock, [this] { return waste_.empty() && !is_letting_go_; });
    is_wanted_gone_ = false;
}

void set_transfer_limits(const Device& device, const TransferLimits& limits) {
    device.state()->transport.set_limits(limits);
}

TransferLimits transfer_limits(const Device& device) {
    return device.state()->transport.limits();
}

}  // namespace tandem
