#include "core/share/socket.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include <fmt/format.h>

namespace tandem {
namespace {

Error socket_error(std::string_view action, int error_number) {
    return Error(ErrorCode::io, fmt::format("{}: {}", action, std::generic_category().message(error_number)), error_number);
}

sockaddr_un address_of(const std::filesystem::path& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string& name = path.native();
    if (name.size() >= sizeof(address.sun_path)) {
        throw Error(ErrorCode::invalid_argument, fmt::format("{}: a socket's path has {} bytes at most, {} found",
                                                             printable_path(path), sizeof(address.sun_path) - 1, name.size()));
    }
    std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
    return address;
}

FileDescriptor make_socket() {
    FileDescriptor made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!made.is_open()) throw socket_error("socket", errno);
    return made;
}

// The descriptors that came with `message`, which are this process's now, however the packet is judged.
std::vector<FileDescriptor> take_descriptors(msghdr& message) {
    std::vector<FileDescriptor> taken;
    for (cmsghdr* control = CMSG_FIRSTHDR(&message); control != nullptr; control = CMSG_NXTHDR(&message, control)) {
        if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int number = -1;
            std::memcpy(&number, CMSG_DATA(control) + i * sizeof(int), sizeof(int));
            taken.emplace_back(number);
        }
    }
    return taken;
}

}  // namespace

FileDescriptor listen_at(const std::filesystem::path& path, mode_t mode) {
    const sockaddr_un address = address_of(path);
    FileDescriptor listener = make_socket();
    // The file gets the socket's own mode when it is bound: there is no moment at which anyone else could connect.
    if (::fchmod(listener.number(), mode) != 0) throw io_error(path, "fchmod", errno);
    if (::bind(listener.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        throw io_error(path, "bind", errno);
    // The process's umask has taken bits from it, which matters where others are to connect.
    const bool is_done = ::chmod(path.c_str(), mode) == 0 && ::listen(listener.number(), SOMAXCONN) == 0;
    if (!is_done) {
        const int error = errno;
        ::unlink(path.c_str());
        throw io_error(path, "listen", error);
    }
    return listener;
}

std::optional<FileDescriptor> connect_to(const std::filesystem::path& path, Deadline deadline) {
    const sockaddr_un address = address_of(path);
    FileDescriptor connection = make_socket();
    std::chrono::milliseconds pause{1};
    while (::connect(connection.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        if (errno == EINTR) continue;
        if (errno == ECONNREFUSED || errno == ENOENT || errno == ENOTSOCK) return std::nullopt;
        if (errno != EAGAIN) throw io_error(path, "connect", errno);
        // The queue of those who want to connect is full, and nothing tells when it is not.
        if (std::chrono::steady_clock::now() + pause >= deadline) {
            throw Error(ErrorCode::unavailable,
                        fmt::format("{}: connect: whoever listens there takes nobody on", printable_path(path)), EAGAIN);
        }
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, std::chrono::milliseconds(50));
    }
    return connection;
}

std::optional<FileDescriptor> accept_from(int listener) {
    while (true) {
        FileDescriptor connection(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (connection.is_open()) return connection;
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno == EAGAIN) return std::nullopt;
        throw socket_error("accept4", errno);
    }
}

PeerCredentials peer_of(int socket) {
    ucred found{};
    socklen_t size_bytes = sizeof found;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &found, &size_bytes) != 0)
        throw socket_error("getsockopt(SO_PEERCRED)", errno);
    return {.pid = found.pid, .uid = found.uid};
}

bool send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
    iovec part{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(max_packet_descriptors * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (bytes.size() > max_packet_bytes || descriptors.size() > max_packet_descriptors) {
        throw Error(ErrorCode::internal, fmt::format("a packet of {} bytes and {} descriptors: at most {} and {} are sent",
                                                     bytes.size(), descriptors.size(), max_packet_bytes, max_packet_descriptors));
    }
    if (!descriptors.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
    }
    while (::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        if (errno == EINTR) continue;
        // ETOOMANYREFS: too many descriptors of this user are on their way; they arrive or are dropped.
        if (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS) return false;
        throw socket_error("sendmsg", errno);
    }
    return true;
}

std::optional<Packet> receive_packet(int socket, TakeDescriptors take) {
    Packet packet;
    packet.bytes.resize(max_packet_bytes);
    iovec part{.iov_base = packet.bytes.data(), .iov_len = packet.bytes.size()};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(max_packet_descriptors * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (take == TakeDescriptors::yes) {
        message.msg_control = control.data();
        message.msg_controllen = control.size();
    }
    ssize_t count = 0;
    while ((count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT)) < 0) {
        if (errno == EINTR) continue;
        if (errno == EAGAIN) return std::nullopt;
        throw socket_error("recvmsg", errno);
    }
    if (take == TakeDescriptors::yes) packet.descriptors = take_descriptors(message);
    if (count == 0) throw Error(ErrorCode::io, "recvmsg: the other side has closed the connection", ECONNRESET);
    if ((message.msg_flags & MSG_TRUNC) != 0) {
        throw Error(ErrorCode::bad_file,
                    fmt::format("a packet of at most {} bytes needed, a larger one found", max_packet_bytes));
    }
    if (take == TakeDescriptors::yes && (message.msg_flags & MSG_CTRUNC) != 0) {
        throw Error(ErrorCode::bad_file,
                    fmt::format("a packet with at most {} descriptors needed, and room for them in this process; {} arrived and "
                                "others did not",
                                max_packet_descriptors, packet.descriptors.size()));
    }
    packet.bytes.resize(static_cast<std::size_t>(count));
    return packet;
}

bool wait_ready(int socket, short events, Deadline deadline) {
    using std::chrono::milliseconds;
    pollfd entry{.fd = socket, .events = events, .revents = 0};
    while (true) {
        const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
        const auto wait = std::clamp<milliseconds::rep>(left.count(), 0, 1 << 30);
        const int ready = ::poll(&entry, 1, static_cast<int>(wait));
        if (ready > 0) return true;
        if (ready == 0 && left.count() <= 0) return false;
        if (ready < 0 && errno != EINTR) throw socket_error("poll", errno);
    }
}

}  // namespace tandem
