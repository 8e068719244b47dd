#pragma once
// How much of a file is in the page cache.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace tandem {

/// How many bytes of the file's [begin_bytes, end_bytes) are in the page cache: by cachestat, one call for all that lies between
/// the range's first and last page. Nothing where the system has no such call or keeps the answer to itself, and for files of
/// which it does not count what mincore does:
/// - tmpfs: it counts pages that fallocate has taken and nobody has written;
/// - hugetlbfs: it refuses; DAX: it counts nothing, where mincore counts what is mapped;
/// - overlayfs and others that lie on top of a filesystem: it looks at the upper file, and the pages are the lower one's.
/// So it is asked on the filesystems that are known to agree, and the caller turns to mincore on any other.
std::optional<std::uint64_t> cached_by_cachestat(int descriptor, std::uint64_t begin_bytes, std::uint64_t end_bytes);

/// The same by mincore, through the mapping of the whole file at `data`. Takes time for each page, in holes too; in copy_on_write
/// it counts the process's own pages. Throws io with `path`.
std::uint64_t cached_by_mincore(std::byte* data, std::uint64_t begin_bytes, std::uint64_t end_bytes,
                                const std::filesystem::path& path);

}  // namespace tandem
