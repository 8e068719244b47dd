#pragma once
// What ends a thread's poll.

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include <fmt/format.h>

#include "core/posix_file.hpp"
#include "tandem/error.hpp"

namespace tandem {

/// An eventfd: readable from `wake` until `clear`.
class WakeEvent {
public:
    WakeEvent() : file_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        if (file_.is_open()) return;
        throw Error(ErrorCode::io, fmt::format("eventfd: {}", std::generic_category().message(errno)), errno);
    }
    void wake() const noexcept {
        const std::uint64_t one = 1;
        static_cast<void>(::write(file_.number(), &one, sizeof one) < 0);  // where the counter is full, it is readable too
    }
    void clear() const noexcept {
        std::uint64_t count = 0;
        static_cast<void>(::read(file_.number(), &count, sizeof count) < 0);
    }
    [[nodiscard]] int number() const noexcept { return file_.number(); }

private:
    FileDescriptor file_;
};

}  // namespace tandem
