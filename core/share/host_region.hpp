#pragma once
// Pages of the host that several processes have.

#include <sys/types.h>

#include <cstddef>
#include <memory>

#include "core/posix_file.hpp"

namespace tandem {

/// A memfd that can't shrink any more, mapped whole. What it is made of stays there while any process holds or maps it.
/// Thread safe. Native calls: memfd_create, fcntl(F_ADD_SEALS), mmap.
class HostRegion {
public:
    /// New pages, to read and write. Throws out_of_memory with the sizes, io.
    static std::shared_ptr<const HostRegion> make(std::size_t size_bytes);
    /// The first `size_bytes` of somebody's memfd, which stays the caller's. Throws bad_file for what is no memfd, might shrink
    /// while it is mapped, which would end this process, is smaller, or can't be written to where it is to be; out_of_memory.
    static std::shared_ptr<const HostRegion> attach(int file, std::size_t size_bytes, bool is_writable);
    ~HostRegion();
    HostRegion(const HostRegion&) = delete;
    HostRegion& operator=(const HostRegion&) = delete;

    [[nodiscard]] std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }
    [[nodiscard]] bool is_writable() const noexcept { return is_writable_; }
    [[nodiscard]] bool is_same_file(int file) const noexcept;

    /// A file descriptor for another process. The first one decides whether anyone may map the memory anew to write: afterwards
    /// no seal is added. Throws invalid_argument for one to write with, after one that was not; io.
    [[nodiscard]] FileDescriptor give_out(bool is_writable) const;

private:
    HostRegion(FileDescriptor file, std::size_t size_bytes, bool is_writable);
    void map();

    FileDescriptor file_;
    std::size_t size_bytes_;
    bool is_writable_;
    std::byte* data_ = nullptr;
};

}  // namespace tandem
