#include "tools/stream.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include <fmt/format.h>

#include <tandem/error.hpp>

namespace tandem::command {
namespace {

// Small enough to be copied on out of the processor's cache.
constexpr std::size_t piece_bytes = std::size_t{256} << 10U;

constexpr std::uint64_t to_the_end = std::numeric_limits<std::uint64_t>::max();

std::uint64_t memory_bytes() {
    static const auto bytes =
        static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return bytes;
}

}  // namespace

Stream::Stream(const std::filesystem::path& path)
    : path_(path), source_(open_file(path, O_RDONLY)), kept_(::memfd_create("tandem stream", MFD_CLOEXEC)) {
    struct stat status {};
    if (!kept_.is_open()) throw io_error(path_, "memfd_create", errno);
    if (::fstat(source_.number(), &status) != 0) throw io_error(path_, "fstat", errno);
    has_no_end_ = has_no_end(status);
}

void Stream::read_piece(std::uint64_t size_bytes, std::vector<std::byte>& piece) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, size_bytes - position_)));
    const std::size_t wanted = piece.size();
    piece.resize(read_fully(source_.number(), piece, path_));
    position_ += piece.size();
    has_ended_ = piece.size() < wanted;
}

void Stream::store(std::uint64_t offset_bytes, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::pwrite(kept_.number(), bytes.data(), bytes.size(), static_cast<off_t>(offset_bytes));
        if (count < 0 && errno != EINTR) throw io_error(path_, fmt::format("keep in memory at offset {}", offset_bytes), errno);
        const std::size_t done = count < 0 ? 0 : static_cast<std::size_t>(count);
        offset_bytes += done;
        stored_bytes_ += done;
        bytes = bytes.subspan(done);
    }
}

std::uint64_t Stream::keep(std::uint64_t size_bytes) {
    std::vector<std::byte> piece;
    while (!has_ended_ && position_ < size_bytes) {
        const std::uint64_t needed = stored_bytes_ + (size_bytes == to_the_end ? 0 : size_bytes - position_);
        if (needed > memory_bytes()) {
            throw Error(ErrorCode::out_of_memory,
                        fmt::format("{}: {} bytes needed to keep what is read of it, this machine has {}", printable_path(path_),
                                    needed, memory_bytes()));
        }
        const std::uint64_t offset_bytes = position_;
        read_piece(size_bytes, piece);
        store(offset_bytes, piece);
    }
    // What was skipped last counts as well.
    if (::ftruncate(kept_.number(), static_cast<off_t>(position_)) != 0) throw io_error(path_, "keep in memory", errno);
    return position_;
}

void Stream::check_end() const {
    if (has_no_end_) throw Error(ErrorCode::io, fmt::format("{}: read: a device without an end", printable_path(path_)), EINVAL);
}

std::uint64_t Stream::keep_all() {
    check_end();
    return keep(to_the_end);
}

std::uint64_t Stream::skip_all() {
    check_end();
    return skip(to_the_end);
}

std::uint64_t Stream::skip(std::uint64_t size_bytes) {
    std::vector<std::byte> piece;
    while (!has_ended_ && position_ < size_bytes)
        read_piece(size_bytes, piece);
    return position_;
}

std::vector<std::byte> Stream::start(std::size_t size_bytes) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(std::min<std::uint64_t>(keep(size_bytes), size_bytes)));
    bytes.resize(read_fully_at(kept_.number(), 0, bytes, path_));
    return bytes;
}

std::filesystem::path Stream::file() const {
    return fmt::format("/proc/self/fd/{}", kept_.number());
}

}  // namespace tandem::command
