#pragma once
// Objects with threads, of which each process has its own: a fork's child has none of its parent's threads.

#include <unistd.h>

#include <memory>
#include <mutex>

namespace tandem {

/// One T for the process, made on first use and taken down when the process ends. The one that a fork's child inherits is left as
/// it is and never destroyed: its threads are not there to be joined. Thread safe.
template <class T>
class ProcessLocal {
public:
    static T& instance() {
        ProcessLocal& local = storage();
        const std::lock_guard lock(local.mutex_);
        if (!local.is_own()) {
            static_cast<void>(local.object_.release());
            local.object_ = std::make_unique<T>();
            local.owner_ = ::getpid();
        }
        return *local.object_;
    }

    /// Calls `use` with the object if there is one, and not any more when the process ends.
    template <class Use>
    static void with_present(Use use) noexcept {
        ProcessLocal& local = storage();
        const std::lock_guard lock(local.mutex_);
        if (local.is_own()) use(*local.object_);
    }

private:
    // The storage itself outlives all that may still ask for it when the process ends; what takes the object down is a part of
    // it.
    struct End {
        ProcessLocal& local;
        ~End() {
            std::unique_ptr<T> object;
            const std::lock_guard lock(local.mutex_);
            if (!local.is_own()) return;
            object = std::move(local.object_);
            local.owner_ = 0;
        }
    };

    static ProcessLocal& storage() {
        static auto* local = new ProcessLocal;  // NOLINT(cppcoreguidelines-owning-memory)
        static End end{*local};
        return *local;
    }
    [[nodiscard]] bool is_own() const noexcept { return object_ != nullptr && owner_ == ::getpid(); }

    std::mutex mutex_;
    pid_t owner_ = 0;
    std::unique_ptr<T> object_;
};

}  // namespace tandem
