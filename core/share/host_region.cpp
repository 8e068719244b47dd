#include "core/share/host_region.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/host_block.hpp"
#include "core/thread_pool.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

#if !defined(F_SEAL_FUTURE_WRITE)
constexpr int F_SEAL_FUTURE_WRITE = 0x0010;  // Linux 5.1; a C library may be older than the kernel it runs on
#endif

constexpr std::size_t huge_page_bytes = std::size_t{2} << 20U;

[[noreturn]] void throw_system(ErrorCode code, const std::string& what, int error_number) {
    throw Error(code, fmt::format("{}: {}", what, std::generic_category().message(error_number)), error_number);
}

[[noreturn]] void throw_wrong_file(const std::string& what, int error_number = 0) {
    throw Error(ErrorCode::bad_file, fmt::format("shared host memory: {}", what), error_number);
}

// Brings every page in, by all processors.
void touch(std::byte* data, std::size_t size_bytes) {
    constexpr std::size_t part_bytes = std::size_t{16} << 20U;
    const auto parts = static_cast<std::int64_t>((size_bytes + part_bytes - 1) / part_bytes);
    ThreadPool::instance().parallel(parts, [&](std::int64_t part) {
        const std::size_t begin = static_cast<std::size_t>(part) * part_bytes;
        const std::size_t end = std::min(begin + part_bytes, size_bytes);
        for (std::size_t at = begin; at < end; at += page_bytes())
            data[at] = std::byte{0};
    });
}

}  // namespace

HostRegion::HostRegion(FileDescriptor file, std::size_t size_bytes, bool is_writable)
    : file_(std::move(file)), size_bytes_(size_bytes), is_writable_(is_writable) {}

HostRegion::~HostRegion() {
    if (data_ != nullptr) ::munmap(data_, size_bytes_);
}

void HostRegion::map() {
    const int protection = is_writable_ ? PROT_READ | PROT_WRITE : PROT_READ;
    void* address = ::mmap(nullptr, size_bytes_, protection, MAP_SHARED, file_.number(), 0);
    if (address == MAP_FAILED) {
        const int error = errno;
        if (error == EPERM || error == EACCES) throw_wrong_file("memory to write to needed, read-only memory found", error);
        throw_system(ErrorCode::out_of_memory, fmt::format("mmap of {} bytes of shared host memory", size_bytes_), error);
    }
    data_ = static_cast<std::byte*>(address);
}

std::shared_ptr<const HostRegion> HostRegion::make(std::size_t size_bytes) {
    // Pages that aren't there would be found out by the kernel ending processes, this one or another.
    const std::uint64_t available = available_host_bytes();
    if (size_bytes > available) {
        throw Error(ErrorCode::out_of_memory,
                    fmt::format("{} bytes of shared host memory: the machine has {} available", size_bytes, available));
    }
    FileDescriptor file(::memfd_create("tandem", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file.is_open()) throw_system(ErrorCode::io, "memfd_create", errno);
    if (::ftruncate(file.number(), static_cast<off_t>(size_bytes)) != 0)
        throw_system(ErrorCode::out_of_memory, fmt::format("memfd of {} bytes", size_bytes), errno);
    if (::fcntl(file.number(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) throw_system(ErrorCode::io, "F_ADD_SEALS", errno);
    const std::shared_ptr<HostRegion> region(new HostRegion(std::move(file), size_bytes, true));
    region->map();
    if (size_bytes >= huge_page_bytes) {
        // A system without huge pages refuses, and nothing is lost.
        ::madvise(region->data_, size_bytes, MADV_HUGEPAGE);
        touch(region->data_, size_bytes);
    }
    return region;
}

std::shared_ptr<const HostRegion> HostRegion::attach(int file, std::size_t size_bytes, bool is_writable) {
    struct stat status {};
    struct statfs filesystem {};
    const int seals = ::fcntl(file, F_GET_SEALS);
    if (::fstat(file, &status) != 0) throw_wrong_file("a memfd needed, no open file found", errno);
    // Huge pages would have to be mapped whole.
    if (seals < 0 || !S_ISREG(status.st_mode) || ::fstatfs(file, &filesystem) != 0 || filesystem.f_type != TMPFS_MAGIC)
        throw_wrong_file("a memfd needed, another kind of file found");
    if ((seals & F_SEAL_SHRINK) == 0)
        throw_wrong_file(fmt::format("a memfd sealed against shrinking needed, seals {:#x} found", seals));
    if (static_cast<std::uint64_t>(status.st_size) < size_bytes)
        throw_wrong_file(fmt::format("{} bytes needed, {} found", size_bytes, status.st_size));
    const std::shared_ptr<HostRegion> region(new HostRegion(FileDescriptor::duplicate(file), size_bytes, is_writable));
    region->map();
    return region;
}

bool HostRegion::is_same_file(int file) const noexcept {
    struct stat ours {};
    struct stat theirs {};
    return ::fstat(file_.number(), &ours) == 0 && ::fstat(file, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
           ours.st_ino == theirs.st_ino;
}

FileDescriptor HostRegion::give_out(bool is_writable) const {
    const int seals = ::fcntl(file_.number(), F_GET_SEALS);
    if (is_writable && (seals & F_SEAL_FUTURE_WRITE) != 0) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("share: {} bytes of host memory were shared for reading alone before, and stay so", size_bytes_));
    }
    if ((seals & F_SEAL_SEAL) == 0) {
        const int last = is_writable ? F_SEAL_SEAL : F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
        // Only one that came from elsewhere may refuse: its file can't be written to through ours.
        if (::fcntl(file_.number(), F_ADD_SEALS, last) != 0 && is_writable_)
            throw_system(ErrorCode::io, "fcntl(F_ADD_SEALS) of shared host memory", errno);
    }
    if (is_writable) return file_.duplicate();
    const std::string path = fmt::format("/proc/self/fd/{}", file_.number());
    FileDescriptor given(::open(path.c_str(), O_RDONLY | O_CLOEXEC));  // NOLINT(cppcoreguidelines-pro-type-vararg)
    if (!given.is_open()) throw_system(ErrorCode::io, "a file descriptor for shared host memory", errno);
    return given;
}

}  // namespace tandem
