#include "core/transport/source.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <fmt/format.h>

namespace tandem {
namespace {

// Storage is read by its blocks, of which 4096 bytes are a multiple.
constexpr std::uint64_t block_bytes = 4096;

}  // namespace

int open_again(const MappedFile& file, int flags) noexcept {
    const std::string name = fmt::format("/proc/self/fd/{}", file.descriptor());
    return ::open(name.c_str(), O_RDONLY | O_CLOEXEC | flags);
}

bool is_private(const MappedFile& file) noexcept {
    return file.access() == FileAccess::copy_on_write && !file.in_memory();
}

void read_mapped(const MappedFile& file, std::uint64_t offset_bytes, std::span<std::byte> destination) {
    if (is_private(file)) {
        std::memcpy(destination.data(), file.bytes().data() + offset_bytes, destination.size());
    } else {
        file.read(offset_bytes, destination);
    }
}

std::span<const std::byte> Source::read_to_slot(std::uint64_t offset_bytes, std::size_t size_bytes, std::span<std::byte> slot) {
    const auto destination = slot.first(size_bytes);
    read(offset_bytes, destination);
    return destination;
}

std::string FileSource::name() const {
    return printable_path(file_.path());
}

bool FileSource::needs_slot(std::uint64_t offset_bytes, std::size_t size_bytes) {
    // Small pieces are not worth the question: the page cache reads them as fast.
    if (size_bytes < 64 * block_bytes || file_.in_memory() || is_private(file_) || is_refused_) return false;
    if (file_.cached_bytes(offset_bytes_ + offset_bytes, size_bytes) >= size_bytes / 2) return false;
    std::call_once(opened_, [this] {
        direct_ = FileDescriptor(open_again(file_, O_DIRECT));
        is_refused_ = !direct_.is_open();
    });
    return !is_refused_;
}

void FileSource::read(std::uint64_t offset_bytes, std::span<std::byte> destination) {
    read_mapped(file_, offset_bytes_ + offset_bytes, destination);
}

std::span<const std::byte> FileSource::read_to_slot(std::uint64_t offset_bytes, std::size_t size_bytes,
                                                    std::span<std::byte> slot) {
    if (!needs_slot(offset_bytes, size_bytes)) return Source::read_to_slot(offset_bytes, size_bytes, slot);
    const std::uint64_t first = offset_bytes_ + offset_bytes;
    const std::uint64_t begin = first / block_bytes * block_bytes;
    const std::uint64_t needed = first + size_bytes - begin;
    const std::uint64_t wanted = (needed + block_bytes - 1) / block_bytes * block_bytes;
    std::uint64_t done = 0;
    int error = 0;
    while (done < needed) {
        const ssize_t count = ::pread(direct_.number(), slot.data() + done, wanted - done, static_cast<off_t>(begin + done));
        error = count < 0 ? errno : 0;
        if (error == EINTR) continue;
        if (count <= 0) break;
        done += static_cast<std::uint64_t>(count);
        if (done % block_bytes != 0) break;  // the file's end
    }
    if (done < needed) {
        is_refused_ = is_refused_ || error == EINVAL || error == EFAULT || error == EOPNOTSUPP;
        // Reading through the page cache finds the same fault and reports it, or finds none.
        return Source::read_to_slot(offset_bytes, size_bytes, slot);
    }
    return slot.subspan(first - begin, size_bytes);
}

}  // namespace tandem
