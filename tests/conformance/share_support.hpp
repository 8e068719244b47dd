#pragma once
// The other process of a test, and descriptors that say what is not so.

#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill
#include <sys/wait.h>

#include <filesystem>
#include <functional>
#include <numeric>
#include <utility>

#include "core/share/descriptor.hpp"
#include "fixture.hpp"
#include "share/channel.hpp"

namespace tandem::test {

/// The program share_peer, which stands beside this one, with a socket to it. Killed with SIGKILL where it still runs at the end.
class SharePeer {
public:
    explicit SharePeer(std::vector<std::string> arguments) {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
        socket_ = FileDescriptor(ends[0]);
        const FileDescriptor theirs(ends[1]);
        const std::string program =
            (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "tandem_share_peer").string();
        arguments.insert(arguments.begin() + 1, std::to_string(ends[1]));
        arguments.insert(arguments.begin(), program);
        std::vector<char*> argv;
        for (std::string& argument : arguments)
            argv.push_back(argument.data());
        argv.push_back(nullptr);
        process_ = ::fork();
        REQUIRE(process_ >= 0);
        if (process_ == 0) {
            ::fcntl(ends[1], F_SETFD, 0);
            ::execv(program.c_str(), argv.data());
            ::_exit(127);
        }
    }
    ~SharePeer() { kill(); }
    SharePeer(const SharePeer&) = delete;
    SharePeer& operator=(const SharePeer&) = delete;

    [[nodiscard]] int socket() const noexcept { return socket_.number(); }
    /// Its exit status; 128 and more where it ended by a signal.
    int wait() {
        int status = 0;
        if (process_ > 0) ::waitpid(std::exchange(process_, -1), &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    void kill() {
        if (process_ > 0) ::kill(process_, SIGKILL);
        wait();
    }

private:
    FileDescriptor socket_;
    pid_t process_ = -1;
};

/// `descriptor` as another process would have it, after `change`.
inline ShareDescriptor forged(const ShareDescriptor& descriptor,
                              const std::function<void(ShareDescriptor::State&)>& change = {}) {
    const ShareDescriptor::State& from = descriptor.state();
    auto state = std::make_shared<ShareDescriptor::State>();
    state->range = from.range;
    state->kind = from.kind;
    state->dtype = from.dtype;
    state->shape = from.shape;
    state->strides_bytes = from.strides_bytes;
    state->offset_bytes = from.offset_bytes;
    state->exporter = from.exporter;
    state->memory_id = from.memory_id;
    if (change) change(*state);
    std::vector<int> files;
    if (state->file.is_open()) {
        files.push_back(state->file.release());
    } else if (from.file.is_open()) {
        files.push_back(::fcntl(from.file.number(), F_DUPFD_CLOEXEC, 0));
    }
    return ShareDescriptor::from_bytes(ShareDescriptor(std::move(state)).to_bytes(), std::move(files));
}

/// The kind under test; for `adopted`, which is not allocated, `pinned`.
inline MemoryKind shareable_kind() {
    return options().kind == MemoryKind::adopted ? MemoryKind::pinned : options().kind;
}

/// False where the device under test has no memory of the kind that can be shared; checks then that it says so.
inline bool is_shareable_here() {
    const DeviceInfo& info = device().info();
    if (info.backend != "opencl" || info.shares_host_memory) return true;
    if (shareable_kind() == MemoryKind::device && device().info().platform.find("NVIDIA") != std::string::npos) return true;
    CHECK_ERROR(ErrorCode::unsupported, "can be shared", (void)empty_shareable(device(), int32, {100}, shareable_kind()));
    return false;
}

inline std::vector<std::int32_t> indices(std::int64_t count) {
    std::vector<std::int32_t> elements(static_cast<std::size_t>(count));
    std::iota(elements.begin(), elements.end(), 0);
    return elements;
}

/// Makes an array's elements their indices, and waits.
inline void put_indices(const Array& array) {
    const std::vector<std::int32_t> values = indices(array.count());
    Queue queue(array.device());
    copy(queue, values, array);
    queue.synchronize();
}

/// A shareable array of the kind under test whose elements are their indices.
inline Array shared_indices(std::int64_t count) {
    const Array array = empty_shareable(device(), int32, {count}, shareable_kind());
    put_indices(array);
    return array;
}

inline std::vector<std::int32_t> elements(const Array& array) {
    Queue queue(array.device());
    return to_vector<std::int32_t>(queue, array);
}

/// Doubles an array's elements on its device, and waits.
inline void double_now(const Array& array) {
    Queue queue(array.device());
    twice(queue, array);
    queue.synchronize();
}

inline std::vector<std::int32_t> multiplied(std::vector<std::int32_t> values, std::int32_t factor) {
    for (std::int32_t& value : values)
        value *= factor;
    return values;
}

}  // namespace tandem::test
