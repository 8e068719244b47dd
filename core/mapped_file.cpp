#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <tandem/error.hpp>
#include <tandem/mapped_file.hpp>

#include "core/mapping.hpp"
#include "core/page_cache.hpp"
#include "core/posix_file.hpp"

namespace tandem {
namespace {

// What a file without a size is read in, and what its memory grows by at least.
constexpr std::size_t chunk_bytes = std::size_t{1} << 20U;

// The size that can be mapped: 0 for what has none of its own.
std::uint64_t mappable_bytes(const FileDescriptor& file, const struct stat& status) {
    if (S_ISREG(status.st_mode)) {
        return static_cast<std::uint64_t>(status.st_size);
    }
    if (S_ISBLK(status.st_mode)) {
        const off_t end = ::lseek(file.number(), 0, SEEK_END);
        ::lseek(file.number(), 0, SEEK_SET);
        return end > 0 ? static_cast<std::uint64_t>(end) : 0;
    }
    return 0;
}

// Reads the file to its end into `mapping`; the bytes read.
std::size_t read_to_end(Mapping& mapping, int descriptor, const std::filesystem::path& path) {
    const auto resize = [&](std::size_t size_bytes) {
        if (const int error = mapping.resize(size_bytes); error != 0) {
            throw Error(ErrorCode::out_of_memory,
                        fmt::format("{}: {} bytes to read a file of unknown size into: {}", printable_path(path), size_bytes,
                                    std::strerror(error)),
                        error);
        }
    };
    std::size_t size = 0;
    resize(chunk_bytes);
    for (;;) {
        const std::span<std::byte> room(mapping.data() + size, mapping.size_bytes() - size);
        const std::size_t count = read_fully(descriptor, room, path);
        size += count;
        if (count < room.size()) {
            break;
        }
        resize(mapping.size_bytes() * 2);
    }
    if (size == 0) {
        mapping = Mapping();
    } else {
        resize((size + page_bytes() - 1) / page_bytes() * page_bytes());
    }
    return size;
}

// Why nothing can be asked of the system for a file without a mapping.
std::string without_mapping(const MappedFile& file) {
    if (file.in_memory()) return "not a mapping: the file was read into memory";
    return file.is_mapped() ? "the file has no bytes" : "not a mapping: the address space has no room for the file";
}

MapGrants refuse_all(const MapOptions& options, const std::string& reason) {
    const auto refuse = [&](bool requested) { return requested ? Grant{true, false, reason} : Grant(); };
    return {refuse(options.populate), refuse(options.huge_pages), refuse(options.lock), refuse(options.advice != Advice::normal)};
}

// [begin, end) in a file of `file_bytes`; a range that begins behind it is empty.
struct ClampedRange {
    ClampedRange(std::uint64_t offset_bytes, std::uint64_t size_bytes, std::uint64_t file_bytes)
        : begin(std::min(offset_bytes, file_bytes)), end(begin + std::min(size_bytes, file_bytes - begin)) {}
    std::uint64_t begin;
    std::uint64_t end;
};

}  // namespace

struct MappedFile::State {
    std::filesystem::path path;
    FileAccess access = FileAccess::read;
    FileDescriptor file;
    Mapping mapping;
    MapGrants grants;
    std::size_t size_bytes = 0;
    bool is_mapped = true;      // or in memory, or without bytes
    std::string why_in_memory;  // empty for what is mapped
};

MappedFile MappedFile::open(const std::filesystem::path& path, FileAccess access) {
    MapOptions options;
    options.access = access;
    return open(path, options);
}

MappedFile MappedFile::open(const std::filesystem::path& path, const MapOptions& options) {
    const FileAccess access = options.access;
    const auto state = std::make_shared<State>();
    state->path = path;
    state->access = access;
    state->file = open_file(path, access == FileAccess::read_write ? O_RDWR : O_RDONLY);
    const int descriptor = state->file.number();
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) {
        throw io_error(path, "fstat", errno);
    }
    if (has_no_end(status)) {
        throw Error(ErrorCode::io, fmt::format("{}: open: a device without an end", printable_path(path)), EINVAL);
    }
    int map_error = ENODEV;
    const std::uint64_t size = mappable_bytes(state->file, status);
    if (size > 0) {
        map_error = state->mapping.map_file(descriptor, size, options);
    }
    if (map_error == 0) {
        state->size_bytes = size;
        state->grants = state->mapping.request(options);
        return MappedFile(state);
    }
    if (map_error == ENOMEM && options.may_stay_unmapped && access != FileAccess::copy_on_write) {
        state->size_bytes = size;
        state->is_mapped = false;
        MappedFile file(state);
        state->grants = refuse_all(options, without_mapping(file));
        return file;
    }
    if (map_error != ENODEV) {
        throw io_error(path, fmt::format("mmap of {} bytes", size), map_error);
    }
    if (access == FileAccess::read_write && (size > 0 || !S_ISREG(status.st_mode))) {
        throw io_error(path, "mmap to write to the file", map_error);
    }
    // Also where the size is said to be 0: files of /proc are like that, and have content.
    state->size_bytes = read_to_end(state->mapping, descriptor, path);
    const bool in_memory = size > 0 || state->size_bytes > 0 || !S_ISREG(status.st_mode);
    if (in_memory) state->why_in_memory = "the file can't be mapped, and is read into memory";
    if (in_memory && access == FileAccess::read_write) {
        throw io_error(path, "mmap to write to the file", map_error);
    }
    MappedFile file(state);
    state->grants = refuse_all(options, without_mapping(file));
    return file;
}

MappedFile MappedFile::from_memory(std::filesystem::path path, FileAccess access, Mapping content, std::size_t size_bytes,
                                   std::string why_in_memory) {
    const auto state = std::make_shared<State>();
    state->path = std::move(path);
    state->access = access;
    state->mapping = std::move(content);
    state->size_bytes = size_bytes;
    state->why_in_memory = std::move(why_in_memory);
    return MappedFile(state);
}

const std::filesystem::path& MappedFile::path() const noexcept {
    static const std::filesystem::path none;
    return state_ ? state_->path : none;
}

FileAccess MappedFile::access() const noexcept {
    return state_ ? state_->access : FileAccess::read;
}

std::span<const std::byte> MappedFile::bytes() const noexcept {
    if (!is_mapped() || !state_) return {};
    return {state_->mapping.data(), state_->size_bytes};
}

std::uint64_t MappedFile::size_bytes() const noexcept {
    return state_ ? state_->size_bytes : 0;
}

bool MappedFile::is_mapped() const noexcept {
    return !state_ || state_->is_mapped;
}

std::span<std::byte> MappedFile::writable_bytes() const {
    if (access() == FileAccess::read) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: writable bytes of a file that is open for reading only", printable_path(path())));
    }
    if (!is_mapped()) return {};
    return {state_->mapping.data(), state_->size_bytes};
}

bool MappedFile::in_memory() const noexcept {
    return !why_in_memory().empty();
}

const std::string& MappedFile::why_in_memory() const noexcept {
    static const std::string none;
    return state_ ? state_->why_in_memory : none;
}

int MappedFile::descriptor() const noexcept {
    return state_ ? state_->file.number() : -1;
}

const MapGrants& MappedFile::grants() const noexcept {
    static const MapGrants none;
    return state_ ? state_->grants : none;
}

Grant MappedFile::advise(Advice advice, std::uint64_t offset_bytes, std::uint64_t size_bytes) const {
    const ClampedRange range(offset_bytes, size_bytes, bytes().size());
    if (in_memory() || bytes().empty()) {
        return {true, false, without_mapping(*this)};
    }
    if (range.begin == range.end) {
        return {true, false, "no byte of the file lies in the range"};
    }
    return state_->mapping.advise(advice, range.begin, range.end);
}

Grant MappedFile::drop(std::uint64_t offset_bytes, std::uint64_t size_bytes) const {
    if (access() == FileAccess::copy_on_write) {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("{}: drop of pages that are copied on write: what was written would be lost", printable_path(path())));
    }
    const ClampedRange range(offset_bytes, size_bytes, bytes().size());
    if (in_memory() || bytes().empty()) {
        return {true, false, without_mapping(*this)};
    }
    Grant dropped = state_->mapping.drop(range.begin, range.end, bytes().size());
    if (!dropped.granted && grants().lock.granted) {
        dropped.reason += "; the mapping is locked";
    }
    return dropped;
}

std::uint64_t MappedFile::cached_bytes(std::uint64_t offset_bytes, std::uint64_t size_bytes) const {
    const ClampedRange range(offset_bytes, size_bytes, this->size_bytes());
    if (in_memory() || range.begin == range.end) {
        return range.end - range.begin;
    }
    if (const auto cached = cached_by_cachestat(state_->file.number(), range.begin, range.end)) {
        return *cached;
    }
    if (!is_mapped()) return range.end - range.begin;
    return cached_by_mincore(state_->mapping.data(), range.begin, range.end, path());
}

void MappedFile::read(std::uint64_t offset_bytes, std::span<std::byte> destination) const {
    std::size_t found = 0;
    if (in_memory() || !state_) {
        const std::span<const std::byte> all = bytes();
        const std::span<const std::byte> rest = all.subspan(std::min<std::uint64_t>(offset_bytes, all.size()));
        found = std::min(rest.size(), destination.size());
        std::copy_n(rest.begin(), found, destination.begin());
    } else {
        // An offset that off_t can't hold lies behind the end of every file.
        constexpr auto last_offset = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
        if (offset_bytes <= last_offset && destination.size() <= last_offset - offset_bytes) {
            found = read_fully_at(state_->file.number(), offset_bytes, destination, path());
        }
    }
    if (found < destination.size()) {
        throw Error(ErrorCode::bad_file, fmt::format("{}: offset {}: {} bytes needed, {} found", printable_path(path()),
                                                     offset_bytes, destination.size(), found));
    }
}

}  // namespace tandem
