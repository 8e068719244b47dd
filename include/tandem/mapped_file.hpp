#pragma once
// A file mapped into memory.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include <tandem/grant.hpp>

namespace tandem {

class Mapping;

/// What may be done with the bytes of a mapped file.
enum class FileAccess : std::uint8_t {
    read,           ///< PROT_READ, MAP_SHARED: the page cache itself
    copy_on_write,  ///< PROT_READ | PROT_WRITE, MAP_PRIVATE: written pages are this process's own, the file stays as it is
    read_write,     ///< PROT_READ | PROT_WRITE, MAP_SHARED: what is written reaches the file
};

/// How a mapping's bytes are going to be used, for the system to read ahead by.
enum class Advice : std::uint8_t {
    normal,      ///< MADV_NORMAL: nothing known; takes back `sequential` and `random`
    sequential,  ///< MADV_SEQUENTIAL: from the front to the end; read far ahead
    random,      ///< MADV_RANDOM: anywhere; don't read ahead
    will_need,   ///< MADV_WILLNEED: soon; start to read now, and don't wait for it
};

/// What to ask of the system when a file is mapped. None of the requests makes `MappedFile::open` fail: what came of each is in
/// `MappedFile::grants`.
struct MapOptions {
    FileAccess access = FileAccess::read;

    /// Read every page, and enter it into this process's page table, before `open` returns: no page faults afterwards. Takes
    /// the time that reading takes. Native call: madvise(MADV_POPULATE_READ); before Linux 5.14 mmap with MAP_POPULATE, which
    /// copy_on_write does without, since it would copy every page.
    bool populate = false;
    /// Huge pages where the file has them. On hugetlbfs a mapping can't have others. Elsewhere: madvise(MADV_HUGEPAGE).
    bool huge_pages = false;
    /// Read every page and keep it in memory until the mapping ends. Takes the file's size from the memory of the machine, and
    /// from RLIMIT_MEMLOCK. Native call: mlock; in copy_on_write, where that would copy every page, mlock2(MLOCK_ONFAULT) and
    /// madvise(MADV_POPULATE_READ).
    bool lock = false;
    /// For the whole file; `normal` asks for nothing.
    Advice advice = Advice::normal;
    /// Open a file that the process's address space has no room for (RLIMIT_AS) without a mapping: `is_mapped()` is false then,
    /// `bytes()` is empty, and `read`, and what loads and streams by it, work as ever. Not in copy_on_write.
    bool may_stay_unmapped = false;
};

/// What came of the requests in a `MapOptions`, as it was when `MappedFile::open` returned.
struct MapGrants {
    /// Granted where the system has said that all pages are there, or where it counts all of them as resident.
    Grant populate;
    /// Granted on hugetlbfs; elsewhere where the system calls the mapping eligible, or has mapped all of it by huge pages, except
    /// what lies before the first and behind the last whole huge page.
    Grant huge_pages;
    Grant lock;
    Grant advice;
};

/// A whole file as a range of memory. A shared handle: copies refer to the same mapping, which ends with the last of them;
/// arrays that lie in it hold one.
///
/// Opening costs the same at any size, unless pages are asked for (`MapOptions`): none is read. A file of zero bytes maps to an
/// empty range. What can't be mapped and has no size of its own (a pipe, a terminal, /proc, /dev/stdin) is read to its end into
/// memory instead; `in_memory()` says so.
///
/// What happens when another process truncates the file while it is mapped:
/// - `read`, and what loads by it (`npy::load`), reports bad_file with what was needed and what was found.
/// - Touching `bytes()` in a page that lies wholly behind the new end raises SIGBUS, in copy_on_write too, even where this
///   process had written to the page. Behind the end in the end's own page there are zeros.
/// - A device whose driver has pinned the pages keeps reading the old ones. It gets no error, and it does not see what is written
///   there when the file grows again.
///
/// `bytes()` is not guarded against the signal. Its handler belongs to the process: a library can neither take it from the
/// program nor know which of the accesses that end in it are its own to answer.
///
/// Thread safety: const members may be called from any thread.
/// Native calls: open, fstat, fstatfs, mmap, and those at `MapOptions`; munmap when the last handle goes.
class MappedFile {
public:
    /// An empty handle: no path, no bytes.
    MappedFile() = default;

    /// Throws io with the path and the system's reason: missing, unreadable, a directory, no address space.
    static MappedFile open(const std::filesystem::path& path, FileAccess access = FileAccess::read);
    /// The same, with requests to the system: `MappedFile::open(path, {.populate = true, .advice = Advice::sequential})`.
    static MappedFile open(const std::filesystem::path& path, const MapOptions& options);

    [[nodiscard]] const std::filesystem::path& path() const noexcept;
    [[nodiscard]] FileAccess access() const noexcept;

    /// The mapped bytes; valid as long as any handle is. None where it is not mapped.
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept;
    /// The same, to write to. Throws invalid_argument where access is `read`.
    [[nodiscard]] std::span<std::byte> writable_bytes() const;
    [[nodiscard]] std::uint64_t size_bytes() const noexcept;

    /// False where there was no room for the mapping (`MapOptions::may_stay_unmapped`).
    [[nodiscard]] bool is_mapped() const noexcept;

    /// True where the bytes were read into memory because the file can't be mapped.
    [[nodiscard]] bool in_memory() const noexcept;
    /// Why, in words; empty for what is mapped.
    [[nodiscard]] const std::string& why_in_memory() const noexcept;

    /// What came of the requests in the options that the file was opened with.
    [[nodiscard]] const MapGrants& grants() const noexcept;

    /// Advises the system on the bytes in [offset_bytes, offset_bytes + size_bytes), clamped to the file and rounded outward to
    /// whole pages. Not granted where no byte is left, and for `in_memory()`. Native call: madvise.
    Grant advise(Advice advice, std::uint64_t offset_bytes, std::uint64_t size_bytes) const;

    /// Gives the pages of a range back from this process; what they hold stays in the file and, as long as the system likes, in
    /// the page cache, and comes back when it is touched. The range is clamped to the file and rounded inward to whole pages, of
    /// which the file's last one counts as whole. Not granted where no page is left, for `in_memory()`, and by the system for a
    /// locked mapping. Throws invalid_argument in copy_on_write, where written pages would be lost.
    /// Native call: madvise(MADV_DONTNEED).
    Grant drop(std::uint64_t offset_bytes, std::uint64_t size_bytes) const;

    /// How many of the bytes in [offset_bytes, offset_bytes + size_bytes) are in the page cache, rounded to whole pages and
    /// clamped to the range; all of them for `in_memory()`. Linux keeps it to itself for files that the user neither owns nor may
    /// write to, and calls all of their bytes cached; so does this where only mincore could tell and there is no mapping.
    /// Native calls: cachestat (Linux 6.5), which costs the same for any hole; where it is missing or counts something else
    /// (tmpfs, hugetlbfs, overlayfs, DAX, filesystems not known to agree) mincore, at about 4 s for each TiB.
    [[nodiscard]] std::uint64_t cached_bytes(std::uint64_t offset_bytes, std::uint64_t size_bytes) const;

    /// Copies the file's bytes from `offset_bytes` on into `destination` with `pread`, so that a file that has become shorter is
    /// an error and not a signal. Throws bad_file with offset, needed and found where the file ends early; io where a read fails.
    void read(std::uint64_t offset_bytes, std::span<std::byte> destination) const;

    /// For core/ alone: the open file, or -1.
    [[nodiscard]] int descriptor() const noexcept;

    /// For core/ alone: the first `size_bytes` of memory that holds a file's content, for the reason that `why_in_memory` then
    /// gives.
    static MappedFile from_memory(std::filesystem::path path, FileAccess access, Mapping content, std::size_t size_bytes,
                                  std::string why_in_memory);

private:
    struct State;
    explicit MappedFile(std::shared_ptr<const State> state) : state_(std::move(state)) {}
    std::shared_ptr<const State> state_;
};

}  // namespace tandem
