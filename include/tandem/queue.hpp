#pragma once
// Where work is put, and how to wait for it.

#include <memory>

#include <tandem/device.hpp>

namespace tandem {

namespace driver {
class Event;
}
class QueueState;

/// A point in a queue. A handle: copies refer to the same point. Outlives its queue. Thread safe.
class Event {
public:
    /// A point before everything: done.
    Event() = default;

    /// True once all work before the point is done; also where that work failed, which `wait` then throws. Does not wait.
    /// Native calls: cuEventQuery; clGetEventInfo.
    [[nodiscard]] bool is_done() const;

    /// Blocks until all work before the point is done. Throws what that work failed with: device_lost for a fault on the device.
    /// Native calls: cuEventSynchronize; clWaitForEvents.
    void wait() const;

    /// For core/ alone.
    Event(const Device& device, std::shared_ptr<driver::Event> event) : device_(device.state()), event_(std::move(event)) {}
    [[nodiscard]] const std::shared_ptr<driver::Event>& native() const noexcept { return event_; }
    [[nodiscard]] const std::shared_ptr<DeviceState>& device_state() const noexcept { return device_; }

private:
    std::shared_ptr<DeviceState> device_;
    std::shared_ptr<driver::Event> event_;
};

/// An in-order stream of work for one device. Calls that take a queue return once the work is handed over, unless they say that
/// they wait; the queue keeps the memory that the work uses alive until it is done.
///
/// Move-only; one that was moved from has no device, and every call that needs it throws invalid_argument. One thread at a time.
/// Independent queues of one device run side by side.
class Queue {
public:
    /// Native calls: cuStreamCreate(CU_STREAM_NON_BLOCKING); clCreateCommandQueue.
    explicit Queue(const Device& device);
    Queue(Queue&&) noexcept = default;
    Queue& operator=(Queue&& other) noexcept;
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;
    /// Waits for the work; a failure that nobody waited for is dropped here.
    ~Queue();

    [[nodiscard]] const Device& device() const noexcept { return device_; }

    /// A point after everything submitted so far. Does not wait. Native calls: cuEventRecord; clEnqueueMarker.
    Event record();

    /// Work submitted from here on starts after `event`. On events of another backend the call itself waits, since no driver
    /// orders work across vendors; else it does not. Native calls: cuStreamWaitEvent; clEnqueueBarrierWithWaitList.
    void wait(const Event& event);

    /// Blocks until everything submitted is done. Throws what it failed with. Native calls: cuStreamSynchronize; clFinish.
    void synchronize();

    /// For core/ alone.
    [[nodiscard]] QueueState& state() const {
        if (state_ == nullptr) throw_moved_from();
        return *state_;
    }

private:
    [[noreturn]] static void throw_moved_from();

    Device device_;
    std::shared_ptr<QueueState> state_;
};

}  // namespace tandem
