#pragma once
// Order between processes: how one waits for another one's work.

#include <chrono>
#include <cstdint>
#include <memory>

#include <tandem/queue.hpp>

namespace tandem {

/// A counter that processes share, which starts at 0 and only grows: one signals a value when its work is done, others wait until
/// it is reached. A handle: copies, and what is attached in other processes, are of one counter, which lives while anyone has it.
///
/// It is a page of a memfd that is sealed against changes of its size, beside which nothing is shared, and waiting is a futex: no
/// processor time is spent on it. Whoever has the fence may write anything to that page, so what it says is taken for no more
/// than how far the other side claims to be.
///
/// Thread safe. One that is `SharedFence()` has no counter: every call on it throws invalid_argument.
/// Waiting is the host's on every device, and CUDA's IPC events (cuIpcGetEventHandle) are not used. A stream that waits for an
/// event which is not recorded yet goes on at once (cuStreamWaitEvent), so that a counter of the host would have to be waited for
/// before each; using one after its process has destroyed it is undefined (cuIpcOpenEventHandle); and they are CUDA's alone,
/// while a fence orders CUDA, OpenCL and the host among each other.
///
/// Native calls: memfd_create, mmap, futex(FUTEX_WAIT and FUTEX_WAKE, not private), pidfd_open, fcntl(F_OFD_SETLK, F_OFD_GETLK);
/// for a queue's signal those of `Queue::record` and `Event::wait`.
class SharedFence {
public:
    SharedFence() = default;

    /// A new counter. This process is the one that signals it, until another one does. Throws io, out_of_memory.
    static SharedFence create();

    [[nodiscard]] bool is_valid() const noexcept { return state_ != nullptr; }

    /// Notes that from here on this process is the one that signals: who waits is told where this process ends before it did. The
    /// calls that signal note it too. Where several processes signal in turn, the last one counts.
    void become_signaller();

    /// Raises the counter to `value` once everything is done that `queue` holds now, and returns at once. A counter that is
    /// higher stays. Where the work fails, waiting for this value or a higher one fails. Ending the process waits for signals
    /// that were asked for. Throws as `Queue::record`.
    void signal(Queue& queue, std::uint64_t value);
    /// Raises it now.
    void signal(std::uint64_t value);

    /// How far it is. Does not wait.
    [[nodiscard]] std::uint64_t value() const;

    /// Blocks until the counter has reached `value`. Throws unavailable where it has not and the process that signals has ended,
    /// naming that; device_lost where the work that was to be waited for has failed. A process that is stopped, or never signals,
    /// is waited for; so is one of another PID namespace that let go of the fence before it ended, since only what it held could
    /// tell. The end of others there is noticed within a quarter of a second.
    void wait(std::uint64_t value) const;
    /// The same for at most `timeout`; false where that ran out.
    [[nodiscard]] bool wait(std::uint64_t value, std::chrono::nanoseconds timeout) const;
    /// Work submitted to `queue` from here on starts after the counter has reached `value`. The call itself blocks until then,
    /// since no driver orders work across processes by memory of the host. Throws as `wait(value)`.
    void wait(Queue& queue, std::uint64_t value) const;

    /// The memfd that the counter lies in, for another process; it stays this object's. `Publisher` sends it along.
    [[nodiscard]] int file_descriptor() const;
    /// The fence whose descriptor came from another process, which may be anyone: takes it over, and closes it also where it
    /// throws. Throws bad_file for what is not a sealed memfd of the right size; io, out_of_memory.
    static SharedFence from_file_descriptor(int file_descriptor);

private:
    struct State;
    explicit SharedFence(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
    [[nodiscard]] State& state() const;

    std::shared_ptr<State> state_;
};

}  // namespace tandem
