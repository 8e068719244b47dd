#pragma once
// Noticing the end of another process while waiting for something else.

#include <functional>
#include <memory>

#include "core/share/process_identity.hpp"

namespace tandem {

/// Tells of one process's end, for as long as it lives. Thread safe.
class ProcessWatch {
public:
    /// Calls `on_end` when the process ends, from a thread of its own, perhaps still while the watch goes. `on_end` must be
    /// quick, and must not throw. For a process that has ended already nothing is called: ask `process`. Throws io, and what
    /// starting a thread throws.
    ProcessWatch(const ProcessIdentity& process, std::function<void()> on_end);
    ~ProcessWatch();
    ProcessWatch(const ProcessWatch&) = delete;
    ProcessWatch& operator=(const ProcessWatch&) = delete;

    [[nodiscard]] const WatchedProcess& process() const noexcept;
    /// Whether nothing is called, and the end is only noticed by asking now and then.
    [[nodiscard]] bool needs_asking() const noexcept;

    struct Entry;

private:
    std::shared_ptr<Entry> entry_;
};

}  // namespace tandem
