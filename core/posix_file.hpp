#pragma once
// File descriptors, and the errors of the calls on them.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tandem/error.hpp>

struct stat;

namespace tandem {

/// An open file descriptor; closes itself.
class FileDescriptor {
public:
    FileDescriptor() = default;
    explicit FileDescriptor(int number) noexcept : number_(number) {}
    ~FileDescriptor() { reset(); }
    FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    FileDescriptor& operator=(FileDescriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    FileDescriptor(const FileDescriptor&) = delete;
    FileDescriptor& operator=(const FileDescriptor&) = delete;

    [[nodiscard]] int number() const noexcept { return number_; }
    [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }
    void reset() noexcept;
    /// Another one for the same open file. Throws io.
    [[nodiscard]] FileDescriptor duplicate() const { return duplicate(number_); }
    /// The same for one that somebody else owns.
    static FileDescriptor duplicate(int number);
    /// The number, which is the caller's to close.
    int release() noexcept { return std::exchange(number_, -1); }

private:
    int number_ = -1;
};

/// `path` as messages name it: on one line.
std::string printable_path(const std::filesystem::path& path);

/// The io error "PATH: ACTION: the system's words for ERROR_NUMBER".
Error io_error(const std::filesystem::path& path, std::string_view action, int error_number);

/// The descriptor of this process that `path` names: /dev/stdin, /dev/fd/NUMBER or /proc/self/fd/NUMBER.
std::optional<int> named_descriptor(const std::filesystem::path& path);

/// Whether it is /dev/zero, full, random or urandom, which could be read for ever.
bool has_no_end(const struct stat& status);

/// Opens `path` with `flags`, O_CLOEXEC and O_NOCTTY; starts again after a signal. A path that names a descriptor of this process
/// gives a duplicate of it, with its access and its position: opening it anew by its name is impossible for sockets and for
/// what belongs to another user. Throws io; a directory is one of its errors.
FileDescriptor open_file(const std::filesystem::path& path, int flags);

/// Reads until `destination` is full or the file ends; the bytes read. Starts again after a signal and after a short read, and
/// waits where the descriptor itself does not.
/// Without an offset it reads on from where the last read ended. Throws io with the offset.
std::size_t read_fully(int descriptor, std::span<std::byte> destination, const std::filesystem::path& path);
std::size_t read_fully_at(int descriptor, std::uint64_t offset_bytes, std::span<std::byte> destination,
                          const std::filesystem::path& path);

}  // namespace tandem
