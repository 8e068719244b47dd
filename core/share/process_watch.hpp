#pragma once
// Noticing the end of another process while waiting for something else.

#include <functional>
#include <memory>

#include "core/share/process_identity.hpp"

namespace tandem {

/// Watches one process for as long as it lives. Thread safe.
class ProcessWatch {
public:
    /// Calls `on_end` when the process ends, from a thread of its own, perhaps still while the watch goes. `on_end` must be
    /// quick, and must not throw. For a process that has ended already nothing is called: ask `has_ended`. Throws io, and what
    /// starting a thread throws.
    ProcessWatch(const ProcessIdentity& process, std::function<void()> on_end);
    ~ProcessWatch();
    ProcessWatch(const ProcessWatch&) = delete;
    ProcessWatch& operator=(const ProcessWatch&) = delete;

    [[nodiscard]] const ProcessIdentity& process() const noexcept;
    /// Whether it has ended.
    [[nodiscard]] bool has_ended() const noexcept;
    /// Whether nothing is called and the end is only noticed by asking `has_ended` now and then: where the system lends no
    /// descriptors of processes.
    [[nodiscard]] bool needs_asking() const noexcept;

    struct Entry;

private:
    std::shared_ptr<Entry> entry_;
};

}  // namespace tandem
