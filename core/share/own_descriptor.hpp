#pragma once
// File descriptors that a fork's child does not get.

#include <utility>

#include "core/posix_file.hpp"

namespace tandem {

/// An open file descriptor that only the process has which opened it: what others see of it, a lock or a socket that listens,
/// ends with that process, though it has forked. In a fork's child something that means nothing lies under the number, so that
/// closing it there is harmless. Not for what `vfork` or a bare `clone` makes. Native calls: pthread_atfork, dup3.
class OwnDescriptor {
public:
    OwnDescriptor() = default;
    /// What `open` gives, a FileDescriptor. No fork comes between its opening and its being known here: `open` must not wait, nor
    /// make an OwnDescriptor itself.
    template <class Open>
    static OwnDescriptor take(Open&& open) {
        const Opening opening;
        OwnDescriptor taken;
        taken.file_ = open();
        taken.enter();
        return taken;
    }
    ~OwnDescriptor() { reset(); }
    OwnDescriptor(OwnDescriptor&& other) noexcept = default;
    OwnDescriptor& operator=(OwnDescriptor&& other) noexcept {
        std::swap(file_, other.file_);
        return *this;
    }
    OwnDescriptor(const OwnDescriptor&) = delete;
    OwnDescriptor& operator=(const OwnDescriptor&) = delete;

    [[nodiscard]] int number() const noexcept { return file_.number(); }
    [[nodiscard]] bool is_open() const noexcept { return file_.is_open(); }
    void reset() noexcept;

private:
    // While one lives, the process does not fork.
    struct Opening {
        Opening();
        ~Opening();
        Opening(const Opening&) = delete;
        Opening& operator=(const Opening&) = delete;
    };
    void enter() noexcept;

    FileDescriptor file_;
};

}  // namespace tandem
