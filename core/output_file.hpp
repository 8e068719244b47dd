#pragma once
// A file that becomes visible only when it is complete.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stop_token>
#include <string>

#include "core/transport/sink.hpp"

namespace tandem {

/// Writes `path` all or not at all: bytes go to an unnamed (O_TMPFILE) or hidden file in the same folder; `commit` flushes it and
/// renames it over `path`. Without `commit`, nothing is left and an earlier `path` stays as it was. A symbolic link is followed.
/// An existing file's permissions are kept, and its owner and group where this process may give files to them; where the group
/// can't be, its members get what others had. What else hangs on the old file stays with that: hard links, access control lists,
/// extended attributes, set-user-ID. A `path` that exists and is not a regular file (a pipe, /dev/stdout, /dev/null) is written
/// directly.
///
/// An existing file that may not be written is refused, though renaming over it would be possible. A failed write gives its disk
/// space back at once, and can't be committed after.
///
/// Not thread safe, but for `write_at`. Throws io with the path, the offset and the system's reason (a full disk too).
/// Native calls: open(O_TMPFILE), fchown, fchmod, pwrite, fsync, linkat, rename, fsync of the folder.
class OutputFile final : public Sink {
public:
    struct Options {
        /// Ends the waiting for whoever reads a pipe, as it is opened and as it is written to: with cancelled.
        std::stop_token stop{};
        /// Without, it uses a hidden file from the start, as on filesystems that have no O_TMPFILE.
        bool unnamed = true;
    };
    /// Refuses a directory, a folder that is not there or may not be written to, and a file that may not be written.
    explicit OutputFile(const std::filesystem::path& path, const Options& options);
    explicit OutputFile(const std::filesystem::path& path) : OutputFile(path, Options()) {}
    ~OutputFile() override;

    /// Appends `bytes`.
    void write(std::span<const std::byte> bytes);

    /// Takes the disk space for the file's first `size_bytes` bytes now, so that a disk that is too full shows before anything is
    /// written; what is not written is given back when the file is committed. Nothing happens where the filesystem can't, or
    /// what is written to is no regular file. Throws io. Native call: fallocate.
    void take_space(std::uint64_t size_bytes);

    /// Appends room for `size_bytes`, for `write_at` to fill; where it starts.
    std::uint64_t reserve(std::uint64_t size_bytes);
    /// Writes into what was reserved; from several threads, each its own part. A file that `is_sequential` takes the parts in
    /// order. After a failure the file can't be committed.
    void write_at(std::uint64_t offset_bytes, std::span<const std::byte> bytes) override;
    [[nodiscard]] std::string name() const override;
    /// Written in place and from the front to the end: a pipe, /dev/stdout, what is no regular file.
    [[nodiscard]] bool is_sequential() const noexcept override { return direct_; }

    /// Gives up: the disk space is free again, nothing becomes visible.
    void abandon() noexcept { discard(); }

    /// Makes what was written visible as `path`. Nothing may be written after.
    void commit();

    [[nodiscard]] std::uint64_t size_bytes() const noexcept { return size_bytes_; }

private:
    void discard() noexcept;
    void open_special(bool is_pipe);
    void wait_until_writable();  // throws cancelled
    [[noreturn]] void cancel();

    const std::stop_token stop_;
    std::filesystem::path path_;       // as the caller named it; for messages
    std::filesystem::path target_;     // where it goes: links resolved
    std::filesystem::path temporary_;  // the hidden file's name, empty while it has none
    int descriptor_ = -1;
    bool direct_ = false;  // the target is no regular file: written in place
    std::uint64_t size_bytes_ = 0;
    std::uint64_t taken_bytes_ = 0;
    std::atomic<bool> has_failed_{false};
};

}  // namespace tandem
