#pragma once
// Where work is put, and how to wait for it.

#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>

#include <tandem/device.hpp>

namespace tandem {

namespace driver {
class Event;
}
class QueueState;
class Argument;
class Graph;
class Items;
class Kernel;
struct LaunchOptions;

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
    /// The same for `timeout` at most: false where the work was not done by then. It goes on.
    [[nodiscard]] bool wait_for(std::chrono::nanoseconds timeout) const;

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
    Queue(Queue&& other) noexcept;
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
    /// The same for `timeout` at most. Throws timed_out where the work was not done by then; it goes on, and may be waited for
    /// again, or given up.
    void synchronize(std::chrono::nanoseconds timeout);

    /// Gives the queue up: nothing waits for its work any more, neither this object's end nor the process's, and the memory that
    /// the work uses stays taken until the process ends. For a kernel that does not come to an end. The queue has no device
    /// afterwards. Device handles of before stay what they were; `open_device` opens the device anew, on OpenCL in another
    /// context. With PoCL and on the host that works while processors are left. NVIDIA's drivers hold up most of what the process
    /// asks of the device until a hung kernel ends, and after a fault they want a new process, which errors then say.
    void abandon() noexcept;

    /// Runs a kernel of the caller's once for each of `items`, with `arguments` in the order of its parameters:
    /// `queue.launch(kernel, n, {read(x), write(y), value(2.0F)})`. Needs <tandem/kernel.hpp>, as do all calls below.
    ///
    /// CUDA rounds the items up to whole blocks, and so does OpenCL where a group is given, or required by the kernel: kernels
    /// get the count as a value and check their own bounds. Nothing is passed that is not in the list. With no group, OpenCL runs
    /// exactly the items, which for counts without small factors makes for slow groups on some GPUs.
    ///
    /// Does not wait. No items do nothing, once all is checked. Throws invalid_argument for arguments that the kernel does not
    /// take, as far as the driver tells (count and sizes, on OpenCL kinds too), a group that is larger than the kernel's limit or
    /// not what it requires, more items than can be counted in 63 bits, more local memory than the kernel may have,
    /// arrays of another device, in read-only memory that is written to, or mapped for the host; unsupported for an array that
    /// spans several of the device's allocations, naming the largest. A fault in the kernel is what waiting throws, later.
    /// Native calls: cuLaunchKernel; clSetKernelArg, clEnqueueNDRangeKernel.
    void launch(const Kernel& kernel, const Items& items, std::initializer_list<Argument> arguments);
    void launch(const Kernel& kernel, const Items& items, std::initializer_list<Argument> arguments,
                const LaunchOptions& options);
    void launch(const Kernel& kernel, const Items& items, std::span<const Argument> arguments, const LaunchOptions& options);

    /// Records what `work` puts on this queue instead of doing it: launches, operations and copies within the device. Needs
    /// <tandem/graph.hpp>. Throws invalid_argument for what can't be recorded: waiting, events, maps of what is used, and copies
    /// from and to the host; whatever `work` throws ends the recording. Throws it too for an empty function, and where `work` has
    /// moved, assigned to, given up or destroyed this queue: nothing is recorded then. Native calls: cuStreamBeginCapture,
    /// cuGraphInstantiate.
    [[nodiscard]] Graph record_graph(const std::function<void()>& work);
    /// Does what was recorded, with the arguments and the values of then. Does not wait. Throws invalid_argument for a graph of
    /// another device, or while memory that it uses is mapped for the host. Native calls: cuGraphLaunch; else those of the
    /// operations, one by one.
    void replay(const Graph& graph);

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
