#include "tandem/fence.hpp"

#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "core/share/fence_block.hpp"
#include "core/share/futex.hpp"
#include "core/share/process_local.hpp"
#include "core/share/process_watch.hpp"
#include "core/share/signaller.hpp"
#include "tandem/error.hpp"

namespace tandem {

using Clock = std::chrono::steady_clock;

// How often a process is asked after whose end the system does not tell.
constexpr std::chrono::milliseconds ask_interval{250};

struct SharedFence::State : std::enable_shared_from_this<SharedFence::State> {
    explicit State(FencePage mapped) : page(std::move(mapped)) {}
    ~State() {
        // Who lets go of the fence lives on all the same, perhaps with the fence by another way.
        std::uint64_t self = packed(own_identity());
        if (held_as == self) block().signaller.compare_exchange_strong(self, self | unwatched);
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    FencePage page;
    std::mutex mutex;
    std::shared_ptr<ProcessWatch> watch;  // of the last one that was waited for
    pid_t watch_owner = 0;
    std::uint64_t held_as = 0;  // the process that holds the page by this object, which a fork's child only inherits

    [[nodiscard]] FenceBlock& block() const noexcept { return page.block(); }

    void become_signaller() {
        const std::uint64_t self = packed(own_identity());
        const bool is_held = [&] {
            const std::lock_guard lock(mutex);
            if (held_as != self && page.hold(self)) held_as = self;
            return held_as == self;
        }();
        const std::uint64_t word = is_held ? self : self | unwatched;
        if (block().signaller.exchange(word) != word) block().wake();
    }

    // Whether the process of that word in the page has ended, as far as can be known here.
    [[nodiscard]] bool has_ended(const ProcessWatch& watched, std::uint64_t word) const {
        if (watched.process().is_visible()) return watched.process().has_ended();
        return (word & unwatched) == 0 && !page.is_held(word);
    }

    std::shared_ptr<ProcessWatch> watch_of(const ProcessIdentity& process) {
        const std::lock_guard lock(mutex);
        const pid_t self = ::getpid();  // the thread that notices is not there in a fork's child
        if (watch == nullptr || !is_same(watch->process().process(), process) || watch_owner != self) {
            watch_owner = self;
            watch = std::make_shared<ProcessWatch>(process, [fence = weak_from_this()] {
                if (const auto present = fence.lock()) present->block().wake();
            });
        }
        return watch;
    }

    bool wait_until(std::uint64_t value, const std::optional<Clock::time_point>& deadline);
};

bool SharedFence::State::wait_until(std::uint64_t value, const std::optional<Clock::time_point>& deadline) {
    while (true) {
        // What changes after this word was read keeps the wait below from beginning.
        const std::uint32_t changes = block().changes.load();
        if (block().value.load() >= value) return true;
        if (block().has_failed(value)) {
            throw Error(ErrorCode::device_lost,
                        fmt::format("fence: waiting for {}: the work that was to be done first has failed", value));
        }
        std::optional<Clock::time_point> until = deadline;
        const std::uint64_t word = block().signaller.load();
        const ProcessIdentity signaller = unpacked(word);
        if (signaller.pid != 0 && !is_same(signaller, own_identity())) {
            const std::shared_ptr<ProcessWatch> watched = watch_of(signaller);
            if (has_ended(*watched, word)) {
                if (block().value.load() >= value) return true;
                if (block().signaller.load() != word) continue;
                throw Error(ErrorCode::unavailable, fmt::format("fence: waiting for {}: process {}, which was to signal it, has "
                                                                "ended; it got as far as {}",
                                                                value, signaller.pid, block().value.load()));
            }
            const Clock::time_point ask = Clock::now() + ask_interval;
            if (watched->needs_asking()) until = until ? std::min(*until, ask) : ask;
        }
        if (deadline && Clock::now() >= *deadline) return false;
        futex_wait(block().changes, changes, until);
    }
}

SharedFence::State& SharedFence::state() const {
    if (state_ == nullptr) throw Error(ErrorCode::invalid_argument, "this fence has no counter: SharedFence::create() makes one");
    return *state_;
}

SharedFence SharedFence::create() {
    SharedFence fence(std::make_shared<State>(FencePage::make()));
    fence.become_signaller();
    return fence;
}

SharedFence SharedFence::from_file_descriptor(int file_descriptor) {
    return SharedFence(std::make_shared<State>(FencePage(FileDescriptor(file_descriptor))));
}

int SharedFence::file_descriptor() const {
    return state().page.file_descriptor();
}

void SharedFence::become_signaller() {
    state().become_signaller();
}

void SharedFence::signal(Queue& queue, std::uint64_t value) {
    State& fence = state();
    Event event = queue.record();
    fence.become_signaller();
    ProcessLocal<Signaller>::instance().when_done(queue, std::move(event), [kept = state_, value](bool is_done) {
        is_done ? kept->block().raise(value) : kept->block().fail(value);
    });
}

void SharedFence::signal(std::uint64_t value) {
    State& fence = state();
    fence.become_signaller();
    fence.block().raise(value);
}

std::uint64_t SharedFence::value() const {
    return state().block().value.load();
}

void SharedFence::wait(std::uint64_t value) const {
    state().wait_until(value, {});
}

bool SharedFence::wait(std::uint64_t value, std::chrono::nanoseconds timeout) const {
    const Clock::time_point now = Clock::now();
    // What the clock can't tell is for ever.
    const bool has_end = timeout < Clock::time_point::max() - now;
    return state().wait_until(value, has_end ? std::optional(now + timeout) : std::nullopt);
}

void SharedFence::wait(Queue& queue, std::uint64_t value) const {
    static_cast<void>(queue.state());
    wait(value);
}

}  // namespace tandem
