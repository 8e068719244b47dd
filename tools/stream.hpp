#pragma once
// What can be read only once (a pipe, a socket, a terminal), as a file.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/posix_file.hpp"

namespace tandem::command {

/// A stream that is read as far as it is asked for and no further. What is kept of it lies in a file in memory, at the same
/// offsets, so that whatever works on files works on it.
///
/// Throws io with the stream's own path where it can't be read; out_of_memory for more than this machine's memory holds.
/// Native calls: open or dup, read, memfd_create, pwrite.
class Stream {
public:
    /// Opens `path`; nothing is read yet. A named pipe waits for its writer here.
    explicit Stream(const std::filesystem::path& path);

    /// Reads on until `size_bytes` bytes have been read since the beginning, or to the end of the stream; how many have been.
    std::uint64_t keep(std::uint64_t size_bytes);
    /// The same for bytes that nobody wants: in the file they are a hole.
    std::uint64_t skip(std::uint64_t size_bytes);
    /// The same to the end of the stream. Throws io for a device that has none.
    std::uint64_t keep_all();
    std::uint64_t skip_all();

    /// The first `size_bytes` bytes, fewer where the stream ends before; they are kept. Before any `skip`.
    std::vector<std::byte> start(std::size_t size_bytes);

    /// Where the file in memory can be opened, as long as this lives.
    [[nodiscard]] std::filesystem::path file() const;

private:
    // One piece of what is still to be read of `size_bytes` in all.
    void read_piece(std::uint64_t size_bytes, std::vector<std::byte>& piece);
    void check_end() const;
    void store(std::uint64_t offset_bytes, std::span<const std::byte> bytes);

    std::filesystem::path path_;
    FileDescriptor source_;
    FileDescriptor kept_;
    std::uint64_t position_ = 0;      // bytes read
    std::uint64_t stored_bytes_ = 0;  // those of them that take memory
    bool has_no_end_ = false;
    bool has_ended_ = false;  // a terminal would go on after its end
};

}  // namespace tandem::command
