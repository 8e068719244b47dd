#pragma once
// Descriptors between the two processes of a test, over a socket that both have from a fork on.

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "tandem/share.hpp"

namespace tandem::test {

inline void send_descriptor(int socket, const ShareDescriptor& descriptor) {
    std::vector<std::byte> bytes = descriptor.to_bytes();
    const std::vector<int> files = descriptor.file_descriptors();
    iovec data{bytes.data(), bytes.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    if (!files.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(header), files.data(), sizeof(int));
    }
    if (::sendmsg(socket, &message, 0) != static_cast<ssize_t>(bytes.size())) throw std::runtime_error("sendmsg failed");
}

inline ShareDescriptor receive_descriptor(int socket) {
    std::vector<std::byte> bytes(ShareDescriptor::max_bytes);
    iovec data{bytes.data(), bytes.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (count <= 0) throw std::runtime_error("the other process has sent nothing");
    bytes.resize(static_cast<std::size_t>(count));
    std::vector<int> files;
    if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr && header->cmsg_type == SCM_RIGHTS) {
        files.resize(1);
        std::memcpy(files.data(), CMSG_DATA(header), sizeof(int));
    }
    return ShareDescriptor::from_bytes(bytes, files);
}

}  // namespace tandem::test
