#pragma once
// Threads of the library's own that no signal of the program comes to.

#include <csignal>
#include <functional>
#include <thread>

namespace tandem {

/// A thread with all signals blocked: the program's handlers run on the program's threads. Throws std::system_error.
inline std::thread start_quiet_thread(std::function<void()> work) {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        std::thread thread(std::move(work));
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
        return thread;
    } catch (...) {
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
        throw;
    }
}

}  // namespace tandem
