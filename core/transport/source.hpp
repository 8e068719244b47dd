#pragma once
// What bytes for a device are read from.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include <tandem/mapped_file.hpp>

#include "core/posix_file.hpp"

namespace tandem {

/// A sequence of bytes, read in pieces by several threads. Thread safe.
class Source {
public:
    Source() = default;
    virtual ~Source() = default;
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

    /// What messages call it; nothing where it has no name.
    [[nodiscard]] virtual std::string name() const { return {}; }

    /// Whether the piece is better read into a slot, even where its destination is memory of the host. The default is no.
    [[nodiscard]] virtual bool needs_slot(std::uint64_t /*offset_bytes*/, std::size_t /*size_bytes*/) { return false; }

    /// Reads [offset_bytes, offset_bytes + destination.size()) into `destination`. Throws what reading throws.
    virtual void read(std::uint64_t offset_bytes, std::span<std::byte> destination) = 0;

    /// Reads the piece into a slot of the ring, which is larger by `Ring::slack_bytes`; where in the slot it lies. The default is
    /// its beginning.
    virtual std::span<const std::byte> read_to_slot(std::uint64_t offset_bytes, std::size_t size_bytes,
                                                    std::span<std::byte> slot);
};

/// The bytes of a file from some offset on.
///
/// Pieces that are in the page cache are read from there. Others go around it, straight from the storage (O_DIRECT), where the
/// filesystem has that: which is decided for each piece by asking the system what it has cached. What a copy-on-write mapping
/// holds of its own is read from the mapping. A file that has become shorter is bad_file; unreadable blocks are io; both with
/// offsets in the file.
class FileSource final : public Source {
public:
    FileSource(MappedFile file, std::uint64_t offset_bytes) : file_(std::move(file)), offset_bytes_(offset_bytes) {}

    [[nodiscard]] std::string name() const override;
    bool needs_slot(std::uint64_t offset_bytes, std::size_t size_bytes) override;
    void read(std::uint64_t offset_bytes, std::span<std::byte> destination) override;
    std::span<const std::byte> read_to_slot(std::uint64_t offset_bytes, std::size_t size_bytes,
                                            std::span<std::byte> slot) override;

private:
    const MappedFile file_;
    const std::uint64_t offset_bytes_;
    std::once_flag opened_;                // when the first piece is found that is not in the page cache
    FileDescriptor direct_;                // not open where reading around the page cache is impossible
    std::atomic<bool> is_refused_{false};  // the filesystem does not take such reads
};

/// The file that is open, once more, with further flags for `open`: by its descriptor, since its name may be another file's by
/// now. -1 where that fails.
int open_again(const MappedFile& file, int flags) noexcept;

/// Whether the process may have pages of its own in the mapping, which the file does not hold.
bool is_private(const MappedFile& file) noexcept;
/// Reads what the mapping holds: from the file, or from a private mapping itself. Throws as `MappedFile::read`.
void read_mapped(const MappedFile& file, std::uint64_t offset_bytes, std::span<std::byte> destination);

/// What a function puts into memory; it is called from several threads.
class CalledSource final : public Source {
public:
    using Read = std::function<void(std::uint64_t offset_bytes, std::span<std::byte> destination)>;
    explicit CalledSource(Read read) : read_(std::move(read)) {}
    void read(std::uint64_t offset_bytes, std::span<std::byte> destination) override { read_(offset_bytes, destination); }

private:
    const Read read_;
};

}  // namespace tandem
