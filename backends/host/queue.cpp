#include "backends/host/queue.hpp"

#include <algorithm>
#include <system_error>

#include "backends/host/blas.hpp"
#include "backends/host/kernel.hpp"
#include "backends/host/memory.hpp"
#include "backends/host/program.hpp"

namespace tandem::host {
namespace {

// Work up to this size takes about as long as waking a thread.
constexpr std::size_t immediate_bytes = std::size_t{64} << 10U;
// For an element of an expression, which may hold several operations.
constexpr std::size_t own_item_bytes = 64;

void wait_until(Progress& progress, std::uint64_t position) {
    std::unique_lock lock(progress.mutex);
    progress.changed.wait(lock, [&] { return progress.completed >= position; });
    if (progress.failure != nullptr) std::rethrow_exception(progress.failure);
}

std::byte* bytes(const driver::Memory& memory) noexcept {
    return static_cast<const Memory&>(memory).data();
}

}  // namespace

bool Event::is_done() const {
    const std::lock_guard lock(progress_->mutex);
    return progress_->completed >= position_;
}

void Event::wait() const {
    wait_until(*progress_, position_);
}

Queue::Queue(std::shared_ptr<driver::Device> device) : device_(std::move(device)), progress_(std::make_shared<Progress>()) {}

Queue::~Queue() {
    {
        const std::lock_guard lock(progress_->mutex);
        ending_ = true;
    }
    pending_.notify_one();
    if (worker_.joinable()) worker_.join();
}

template <class Action>
void Queue::submit(std::size_t work_bytes, Action&& action) {
    {
        const std::lock_guard lock(progress_->mutex);
        const bool is_idle = progress_->completed == progress_->submitted;
        if ((work_bytes > immediate_bytes && start_worker()) || !is_idle) {
            actions_.emplace_back(std::forward<Action>(action));
            ++progress_->submitted;
            pending_.notify_one();
            return;
        }
    }
    action();  // nothing is pending, and only this thread submits: the order is kept
}

bool Queue::start_worker() {
    try {
        if (!worker_.joinable()) worker_ = std::thread([this] { work(); });
        return true;
    } catch (const std::system_error&) {
        return false;  // the system gives no more threads: the caller does the work
    }
}

void Queue::work() {
    std::unique_lock lock(progress_->mutex);
    for (;;) {
        pending_.wait(lock, [&] { return ending_ || !actions_.empty(); });
        if (actions_.empty()) return;
        const std::function<void()> next = std::move(actions_.front());
        actions_.pop_front();
        lock.unlock();
        next();
        lock.lock();
        ++progress_->completed;
        progress_->changed.notify_all();
    }
}

void Queue::write(driver::Memory& destination, std::size_t offset_bytes, const void* source, std::size_t size_bytes) {
    submit(size_bytes, [to = bytes(destination) + offset_bytes, from = static_cast<const std::byte*>(source), size_bytes] {
        host::copy(to, from, size_bytes);
    });
}

void Queue::read(const driver::Memory& source, std::size_t offset_bytes, void* destination, std::size_t size_bytes) {
    submit(size_bytes, [to = static_cast<std::byte*>(destination), from = bytes(source) + offset_bytes, size_bytes] {
        host::copy(to, from, size_bytes);
    });
}

void Queue::copy(driver::Memory& destination, std::size_t destination_offset_bytes, const driver::Memory& source,
                 std::size_t source_offset_bytes, std::size_t size_bytes) {
    submit(size_bytes, [to = bytes(destination) + destination_offset_bytes, from = bytes(source) + source_offset_bytes,
                        size_bytes] { host::copy(to, from, size_bytes); });
}

void Queue::run(const driver::Elementwise& call) {
    submit(static_cast<std::size_t>(call.count()) * size_bytes(call.dtype), [call] { host::run(call); });
}

void Queue::reduce(const driver::Reduce& call) {
    submit(static_cast<std::size_t>(call.count()) * size_bytes(call.dtype), [call] { host::reduce(call); });
}

void Queue::launch(const driver::Launch& launch) {
    const auto& program = static_cast<const Program&>(*launch.kernel);
    program.check(launch);
    // A caller's function may take any time, or hang: whoever launches it does not wait for it, however few its items are.
    const std::uint64_t items = launch.items[0] * launch.items[1] * launch.items[2];
    const std::size_t work_bytes =
        program.is_own() ? static_cast<std::size_t>(std::min<std::uint64_t>(items, immediate_bytes + 1)) * own_item_bytes
                         : immediate_bytes + 1;
    submit(work_bytes, [call = Program::Call(program.shared_from_this(), launch), progress = progress_] {
        try {
            call.run();
        } catch (...) {
            const std::lock_guard lock(progress->mutex);
            if (progress->failure == nullptr) progress->failure = std::current_exception();
        }
    });
}

void Queue::blas(const driver::BlasVector& call) {
    submit(static_cast<std::size_t>(call.count) * size_bytes(call.dtype), [call] { host::run(call); });
}

void Queue::blas(const driver::BlasGemv& call) {
    submit(static_cast<std::size_t>(call.rows * call.columns) * size_bytes(call.dtype), [call] { host::run(call); });
}

void Queue::blas(const driver::BlasGemm& call) {
    // A product of small matrices takes as long as moving this much.
    const double products = static_cast<double>(call.m) * static_cast<double>(call.n) * static_cast<double>(call.k);
    const double work = std::min(products * static_cast<double>(call.batch_count), 1e15);
    submit(static_cast<std::size_t>(work), [call] { host::run(call); });
}

std::unique_ptr<driver::Event> Queue::record() {
    const std::lock_guard lock(progress_->mutex);
    return std::make_unique<Event>(progress_, progress_->submitted);
}

void Queue::wait_for(const driver::Event& event) {
    const auto& other = static_cast<const Event&>(event);
    if (other.is_done()) return;
    submit(immediate_bytes + 1, [progress = other.progress_, position = other.position_] {
        try {
            wait_until(*progress, position);
        } catch (...) {  // NOLINT(bugprone-empty-catch): what the other queue failed with is for those who wait for it
        }
    });
}

void Queue::synchronize() {
    std::uint64_t last = 0;
    {
        const std::lock_guard lock(progress_->mutex);
        last = progress_->submitted;
    }
    wait_until(*progress_, last);
}

}  // namespace tandem::host
