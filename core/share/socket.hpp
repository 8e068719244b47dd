#pragma once
// Unix-domain sockets that carry packets of bytes and file descriptors between two processes of one machine.

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "core/posix_file.hpp"

namespace tandem {

using Deadline = std::chrono::steady_clock::time_point;

/// The largest packet that is sent or taken. Well below what a socket's buffer holds (net.core.wmem_default, 208 KiB).
inline constexpr std::size_t max_packet_bytes = std::size_t{64} << 10U;
/// The most descriptors of one packet.
inline constexpr std::size_t max_packet_descriptors = 16;

/// One message as it travels: sent and received as a whole (SOCK_SEQPACKET).
struct Packet {
    std::vector<std::byte> bytes;
    std::vector<FileDescriptor> descriptors;
};

/// Who is at the other end, by the kernel's word.
struct PeerCredentials {
    pid_t pid = 0;
    uid_t uid = 0;
};

/// A socket at `path` that listens, with the permissions `mode` from its first moment on. Nothing may be at `path`. Never blocks.
/// Throws io; invalid_argument where the path is longer than a socket's address may be. Native calls: socket, bind, listen.
FileDescriptor listen_at(const std::filesystem::path& path, mode_t mode);

/// A connection to the socket at `path`; nothing where there is no socket, or nobody listens there. Throws io, unavailable past
/// the deadline.
std::optional<FileDescriptor> connect_to(const std::filesystem::path& path, Deadline deadline);

/// The next connection; nothing where none waits. Throws io where the process has no descriptors left (EMFILE, ENFILE).
std::optional<FileDescriptor> accept_from(int listener);

/// Throws io. Native call: getsockopt(SO_PEERCRED).
PeerCredentials peer_of(int socket);

/// Hands a packet to the kernel, or nothing of it: false where there is no room for it now. The descriptors stay the caller's.
/// Throws io where the other side is gone.
bool send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors);

enum class TakeDescriptors : bool { no, yes };

/// The next packet; nothing where none has come yet. Descriptors are closed on exec; with `no` the kernel drops them. Throws io
/// where the other side has closed, bad_file for a packet that is too large or brings too many descriptors, keeping none of them.
std::optional<Packet> receive_packet(int socket, TakeDescriptors take);

/// Blocks until `socket` is ready for `events` (poll's) or has ended. False past the deadline.
bool wait_ready(int socket, short events, Deadline deadline);

}  // namespace tandem
