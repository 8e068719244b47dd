#include "core/page_cache.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "core/mapping.hpp"
#include "core/posix_file.hpp"

namespace tandem {
namespace {

// The kernel's interface, which is younger than the C library's headers. Every architecture has the same number for it but alpha.
#if defined(SYS_cachestat)
constexpr long cachestat_number = SYS_cachestat;
#elif defined(__alpha__)
constexpr long cachestat_number = 561;
#else
constexpr long cachestat_number = 451;
#endif

struct CachestatRange {
    std::uint64_t offset_bytes;
    std::uint64_t size_bytes;  // 0 would mean up to the file's end
};

struct Cachestat {
    std::uint64_t cached_pages;
    std::uint64_t dirty_pages;
    std::uint64_t writeback_pages;
    std::uint64_t evicted_pages;
    std::uint64_t recently_evicted_pages;
};

// <linux/magic.h> does not have these.
constexpr std::uint32_t xfs_magic = 0x58465342;
constexpr std::uint32_t nfs_magic = 0x6969;

constexpr std::uint64_t dax_attribute = 0x00200000;  // STATX_ATTR_DAX

bool agrees_with_mincore(int descriptor) {
    struct statfs filesystem {};
    if (::fstatfs(descriptor, &filesystem) != 0) {
        return false;
    }
    const auto magic = static_cast<std::uint32_t>(filesystem.f_type);
    if (magic != EXT4_SUPER_MAGIC && magic != BTRFS_SUPER_MAGIC && magic != F2FS_SUPER_MAGIC && magic != xfs_magic &&
        magic != nfs_magic) {
        return false;
    }
    struct statx status {};
    return ::statx(descriptor, "", AT_EMPTY_PATH, 0, &status) == 0 && (status.stx_attributes & dax_attribute) == 0;
}

std::optional<std::uint64_t> cached_pages(int descriptor, std::uint64_t begin_bytes, std::uint64_t end_bytes) {
    if (begin_bytes == end_bytes) {
        return 0;
    }
    CachestatRange range{begin_bytes, end_bytes - begin_bytes};
    Cachestat result{};
    if (::syscall(cachestat_number, descriptor, &range, &result, 0) != 0) {
        return std::nullopt;
    }
    return result.cached_pages;
}

}  // namespace

std::optional<std::uint64_t> cached_by_cachestat(int descriptor, std::uint64_t begin_bytes, std::uint64_t end_bytes) {
    if (!agrees_with_mincore(descriptor)) {
        return std::nullopt;
    }
    // The pages that the range cuts are asked about one by one, since their bytes outside it do not count.
    const std::uint64_t page = page_bytes();
    const std::uint64_t head_end = std::min(end_bytes, (begin_bytes + page - 1) / page * page);
    const std::uint64_t tail_begin = std::max(head_end, end_bytes / page * page);
    const auto head = cached_pages(descriptor, begin_bytes, head_end);
    const auto whole = cached_pages(descriptor, head_end, tail_begin);
    const auto tail = cached_pages(descriptor, tail_begin, end_bytes);
    if (!head || !whole || !tail) {
        return std::nullopt;
    }
    return *head * (head_end - begin_bytes) + *whole * page + *tail * (end_bytes - tail_begin);
}

std::uint64_t cached_by_mincore(std::byte* data, std::uint64_t begin_bytes, std::uint64_t end_bytes,
                                const std::filesystem::path& path) {
    // In windows, so that a terabyte's pages need no more room than a megabyte's.
    std::array<unsigned char, 16384> resident;
    const std::uint64_t page = page_bytes();
    std::uint64_t cached = 0;
    for (std::uint64_t window = begin_bytes / page * page; window < end_bytes; window += resident.size() * page) {
        const std::uint64_t window_end = std::min(end_bytes, window + resident.size() * page);
        if (::mincore(data + window, window_end - window, resident.data()) != 0) {
            const int error = errno;
            throw io_error(path, fmt::format("mincore at offset {}", window), error);
        }
        for (std::uint64_t at = window; at < window_end; at += page) {
            if ((resident[(at - window) / page] & 1U) != 0) {
                cached += std::min(end_bytes, at + page) - std::max(begin_bytes, at);
            }
        }
    }
    return cached;
}

}  // namespace tandem
