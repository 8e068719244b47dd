#pragma once
// The end of the process, as far as pending work is concerned.

namespace tandem {

/// Has the process, when it ends, wait for all pending work before anything is taken down that has been set up until now. A
/// vendor's library takes its compiler and threads down in its own exit handlers, which run before the destructors of a caller's
/// queues in static storage: work that is still pending then crashes. To be called after what must not go too early; costs
/// nothing but an entry each time. Thread safe.
void finish_work_at_exit() noexcept;

}  // namespace tandem
