#pragma once
// An in-order stream of work on the host.

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "core/driver.hpp"

namespace tandem::host {

/// How far a queue has come; shared with its events, which may outlive it.
struct Progress {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t submitted = 0;
    std::uint64_t completed = 0;
    std::exception_ptr failure;  // the first of a caller's functions; for those who wait
};

class Event final : public driver::Event {
public:
    Event(std::shared_ptr<Progress> progress, std::uint64_t position) : progress_(std::move(progress)), position_(position) {}
    [[nodiscard]] bool is_done() const override;
    void wait() const override;

private:
    friend class Queue;
    std::shared_ptr<Progress> progress_;
    std::uint64_t position_;
};

/// Work runs on a thread of the queue's own, started with the first work that needs it. Where nothing is pending, small work is
/// done at once by the caller: handing it to a thread would take longer than doing it. Callers' functions are never: they may
/// hang.
class Queue final : public driver::Queue {
public:
    explicit Queue(std::shared_ptr<driver::Device> device);
    ~Queue() override;

    void write(driver::Memory& destination, std::size_t offset_bytes, const void* source, std::size_t size_bytes) override;
    void read(const driver::Memory& source, std::size_t offset_bytes, void* destination, std::size_t size_bytes) override;
    void copy(driver::Memory& destination, std::size_t destination_offset_bytes, const driver::Memory& source,
              std::size_t source_offset_bytes, std::size_t size_bytes) override;
    void run(const driver::Elementwise& call) override;
    void reduce(const driver::Reduce& call) override;
    void launch(const driver::Launch& launch) override;
    void blas(const driver::BlasVector& call) override;
    void blas(const driver::BlasGemv& call) override;
    void blas(const driver::BlasGemm& call) override;
    std::unique_ptr<driver::Event> record() override;
    void wait_for(const driver::Event& event) override;
    void synchronize() override;

private:
    template <class Action>
    void submit(std::size_t work_bytes, Action&& action);
    bool start_worker();
    void work();

    std::shared_ptr<driver::Device> device_;
    std::shared_ptr<Progress> progress_;
    std::condition_variable pending_;  // with progress_->mutex: work was added, or the queue ends
    std::deque<std::function<void()>> actions_;
    bool ending_ = false;
    std::thread worker_;
};

}  // namespace tandem::host
