#pragma once
// A file mapped into memory.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace tandem {

/// What may be done with the bytes of a mapped file.
enum class FileAccess : std::uint8_t {
    read,           ///< PROT_READ, MAP_SHARED: the page cache itself
    copy_on_write,  ///< PROT_READ | PROT_WRITE, MAP_PRIVATE: written pages are this process's own, the file stays as it is
    read_write,     ///< PROT_READ | PROT_WRITE, MAP_SHARED: what is written reaches the file
};

/// A whole file as a range of memory. A shared handle: copies refer to the same mapping, which ends with the last of them;
/// arrays that lie in it hold one.
///
/// Opening costs the same at any size: no page is read. A file of zero bytes maps to an empty range. What can't be mapped and has
/// no size of its own (a pipe, a terminal, /proc, /dev/stdin) is read to its end into memory instead; `in_memory()` says so.
///
/// A file that another process truncates while it is mapped has no bytes behind its end any more: touching them there raises
/// SIGBUS. Paths that copy (`npy::load`) read with `pread` and report an error instead.
///
/// Thread safety: const members may be called from any thread.
/// Native calls: open, fstat, mmap; munmap when the last handle goes.
class MappedFile {
public:
    /// An empty handle: no path, no bytes.
    MappedFile() = default;

    /// Throws io with the path and the system's reason: missing, unreadable, a directory, no address space.
    static MappedFile open(const std::filesystem::path& path, FileAccess access = FileAccess::read);

    [[nodiscard]] const std::filesystem::path& path() const noexcept;
    [[nodiscard]] FileAccess access() const noexcept;

    /// The mapped bytes; valid as long as any handle is.
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept;
    /// The same, to write to. Throws invalid_argument where access is `read`.
    [[nodiscard]] std::span<std::byte> writable_bytes() const;
    [[nodiscard]] std::uint64_t size_bytes() const noexcept { return bytes().size(); }

    /// True where the bytes were read into memory because the file can't be mapped.
    [[nodiscard]] bool in_memory() const noexcept;

    /// How many of the bytes in [offset_bytes, offset_bytes + size_bytes) are in the page cache, rounded to whole pages and
    /// clamped to the range; all of them for `in_memory()`. Native call: mincore.
    [[nodiscard]] std::uint64_t cached_bytes(std::uint64_t offset_bytes, std::uint64_t size_bytes) const;

    /// Copies the file's bytes from `offset_bytes` on into `destination` with `pread`, so that a file that has become shorter is
    /// an error and not a signal. Throws bad_file with offset, needed and found where the file ends early; io where a read fails.
    void read(std::uint64_t offset_bytes, std::span<std::byte> destination) const;

private:
    struct State;
    explicit MappedFile(std::shared_ptr<const State> state) : state_(std::move(state)) {}
    std::shared_ptr<const State> state_;
};

}  // namespace tandem
