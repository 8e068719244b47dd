#pragma once
// What an open device keeps for its transfers.

#include <array>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <tandem/transfer.hpp>

#include "core/queue_state.hpp"
#include "core/transport/ring.hpp"

namespace tandem {

/// One for each open device: the ring and the queues of its transfers, made on first use and kept. Thread safe.
class Transport {
public:
    /// `device` owns the transport.
    explicit Transport(DeviceState& device);
    ~Transport();
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;

    [[nodiscard]] TransferLimits limits();
    void set_limits(const TransferLimits& limits);

    /// The ring for the limits that are in force. Who holds it may use it on after they have changed.
    std::shared_ptr<Ring> ring();
    /// Bytes go to the device on one queue and come from it on the other, whoever moves them: both directions at a time.
    /// Two copies of different queues follow each other without a gap, where a driver leaves one between those of one queue.
    static constexpr std::size_t load_queues = 2;
    std::shared_ptr<QueueState> load_queue(std::size_t which = 0) { return queue(load_queues_[which % load_queues]); }
    std::shared_ptr<QueueState> save_queue() { return queue(save_queue_); }

    /// Points after all that was submitted to the load queues so far.
    std::vector<std::shared_ptr<driver::Event>> record_loads();
    /// What is loaded from here on starts after `event`.
    void delay_loads(const driver::Event& event);

    /// Lets go of what is slow to let go of, on a thread of its own: unregistering blocks a driver, a fraction of a millisecond
    /// for each window, so that it comes after the work that waits for the bytes; when no more has come for a while, or at once
    /// where there is much of it, since its pages are pinned.
    void let_go_later(std::vector<std::shared_ptr<driver::Memory>> memory);
    /// Waits until that is done.
    void finish() noexcept;

private:
    std::shared_ptr<QueueState> queue(std::shared_ptr<QueueState>& kept);
    void let_go();

    DeviceState& device_;
    std::mutex mutex_;
    TransferLimits limits_;
    std::shared_ptr<Ring> ring_;
    std::array<std::shared_ptr<QueueState>, load_queues> load_queues_;
    std::shared_ptr<QueueState> save_queue_;

    std::mutex waste_mutex_;
    std::condition_variable waste_changed_;
    std::vector<std::shared_ptr<driver::Memory>> waste_;
    std::size_t waste_bytes_ = 0;
    std::chrono::steady_clock::time_point waste_came_at_;
    bool is_wanted_gone_ = false;
    bool is_letting_go_ = false;
    bool is_ending_ = false;
    std::thread thread_;
};

}  // namespace tandem
