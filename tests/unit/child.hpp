#pragma once
// Work in a child process, whose limits, rights and system calls can be taken away.

#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstddef>
#include <exception>
#include <fstream>
#include <string>

namespace tandem::test {

/// What `work` returns as text, from a child process; an exception as its message.
template <class Work>
std::string in_child(Work work) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        std::string text;
        try {
            text = work();
        } catch (const std::exception& error) {
            text = std::string("exception: ") + error.what();
        }
        const ssize_t count = ::write(ends[1], text.data(), text.size());
        ::_exit(count == static_cast<ssize_t>(text.size()) ? 0 : 1);
    }
    ::close(ends[1]);
    std::string text;
    std::array<char, 4096> piece{};
    for (ssize_t count = 0; (count = ::read(ends[0], piece.data(), piece.size())) > 0;) {
        text.append(piece.data(), static_cast<std::size_t>(count));
    }
    ::close(ends[0]);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    return text;
}

/// From here on, this process's system calls of `number` whose argument `argument` is `value` fail with `error`. False where the
/// system does not let it.
inline bool refuse_call(long number, unsigned argument, unsigned value, unsigned error) {
    constexpr std::size_t low_half = std::endian::native == std::endian::little ? 0 : 4;
    const auto argument_offset = static_cast<unsigned>(offsetof(seccomp_data, args) + 8 * argument + low_half);
    std::array<sock_filter, 6> code = {{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument_offset),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Whether this process has the capability of that number.
inline bool has_capability(unsigned number) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind("CapEff:", 0) == 0) {
            return ((std::stoull(line.substr(7), nullptr, 16) >> number) & 1U) != 0;
        }
    }
    return false;
}

}  // namespace tandem::test
