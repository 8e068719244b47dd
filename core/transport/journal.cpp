#include "core/transport/journal.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
// Header-only, so that what links the library needs no other.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "tandem/error.hpp"
#include "tandem/stream.hpp"

namespace tandem {
namespace {

constexpr std::size_t block_bytes = 4096;
constexpr std::array<char, 16> file_magic{'t', 'a', 'n', 'd', 'e', 'm', ' ', 'j', 'o', 'u', 'r', 'n', 'a', 'l', '2', '\n'};
constexpr std::uint64_t record_magic = 0x64726f6365726474U;

// At the journal's beginning, in a block of its own.
struct FileHeader {
    std::array<char, 16> magic = file_magic;
    std::uint64_t file_bytes = 0;
    std::uint64_t offset_bytes = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t capacity_bytes = 0;  // of each of the two records
    std::uint64_t unit_bytes = 0;
    std::uint64_t device = 0;  // of the file that is changed, as the system numbers them
    std::uint64_t inode = 0;
    std::array<char, 256> operation{};
    std::uint64_t hash = 0;  // of what comes before
};

// Before each record, in a block of its own.
struct RecordHeader {
    std::uint64_t magic = record_magic;
    std::uint64_t sequence = 0;
    std::uint64_t begin_bytes = 0;  // from the run's beginning on
    std::uint64_t size_bytes = 0;
    std::uint64_t bytes_hash = 0;
    std::uint64_t previous_bytes = 0;  // what the file holds before `begin_bytes`, which the previous record has put there
    std::uint64_t previous_hash = 0;
    std::uint64_t following_hash = 0;  // what it holds after this record, which no record has changed yet
    std::uint64_t hash = 0;            // of what comes before
};

// So much of what follows a record tells whether the file is still the one that was changed.
constexpr std::uint64_t following_bytes = 65536;

template <class Header>
std::uint64_t hash_of(const Header& header) {
    return XXH3_64bits(&header, offsetof(Header, hash));
}

std::uint64_t slot_offset(std::uint64_t sequence, std::uint64_t capacity_bytes) {
    return block_bytes + (sequence % 2) * (block_bytes + capacity_bytes);
}

void write_fully_at(int descriptor, std::uint64_t offset_bytes, std::span<const std::byte> bytes,
                    const std::filesystem::path& path) {
    while (!bytes.empty()) {
        const ssize_t count = ::pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset_bytes));
        if (count < 0) {
            if (errno == EINTR) continue;
            throw io_error(path, fmt::format("write at offset {}", offset_bytes), errno);
        }
        offset_bytes += static_cast<std::uint64_t>(count);
        bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
}

template <class Header>
void write_header(int descriptor, std::uint64_t offset_bytes, Header header, const std::filesystem::path& path) {
    header.hash = hash_of(header);
    std::vector<std::byte> block(block_bytes);
    std::memcpy(block.data(), &header, sizeof header);
    write_fully_at(descriptor, offset_bytes, block, path);
}

// Nothing where the file holds no such header there.
template <class Header>
std::optional<Header> read_header(int descriptor, std::uint64_t offset_bytes, const std::filesystem::path& path) {
    Header header;
    const Header expected;
    const std::size_t found = read_fully_at(descriptor, offset_bytes, std::as_writable_bytes(std::span(&header, 1)), path);
    if (found < sizeof header || header.magic != expected.magic || header.hash != hash_of(header)) return {};
    return header;
}

void flush_folder_of(const std::filesystem::path& path) {
    const std::filesystem::path folder = path.parent_path().empty() ? "." : path.parent_path();
    const FileDescriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (file.is_open()) static_cast<void>(::fsync(file.number()));
}

void flush(int descriptor, const std::filesystem::path& path) {
    while (::fdatasync(descriptor) != 0) {
        if (errno != EINTR) throw io_error(path, "fdatasync", errno);
    }
}

// Keeps others from changing the file in place, by whatever name they reach it. Where the file system has no locks, the journal's
// lock is all there is.
void lock_file(const MappedFile& file) {
    while (::flock(file.descriptor(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR) continue;
        if (errno != EWOULDBLOCK) return;
        throw Error(ErrorCode::io, fmt::format("{}: another process is changing the file in place", printable_path(file.path())),
                    EWOULDBLOCK);
    }
}

// The attribute of a file that is being changed: its journal's path. Filesystems without attributes do without it.
constexpr const char* mark_name = "user.tandem.journal";

void set_mark(const MappedFile& file, const std::filesystem::path& journal) {
    std::error_code error;
    const std::string path = std::filesystem::absolute(journal, error).native();
    if (!error) static_cast<void>(::fsetxattr(file.descriptor(), mark_name, path.data(), path.size(), 0));
}

std::optional<std::filesystem::path> find_mark(const MappedFile& file) {
    std::array<char, 4096> path{};
    const ssize_t size = ::fgetxattr(file.descriptor(), mark_name, path.data(), path.size());
    if (size <= 0) return {};
    return std::filesystem::path(std::string(path.data(), static_cast<std::size_t>(size)));
}

// Whether a journal at `path` is of this very file.
bool is_journal_of(const std::filesystem::path& path, const MappedFile& file) {
    const FileDescriptor journal(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!journal.is_open()) return false;
    try {
        const auto header = read_header<FileHeader>(journal.number(), 0, path);
        struct stat status {};
        return header && ::fstat(file.descriptor(), &status) == 0 && header->device == status.st_dev &&
               header->inode == status.st_ino;
    } catch (const Error&) {
        return false;  // it can't be read
    }
}

// Where the journal of `file` is, or is to be.
std::filesystem::path place_of_journal(const MappedFile& file) {
    std::optional<std::filesystem::path> found = interrupted_run(file);
    if (!found) return journal_of(file.path());
    if (is_journal_of(*found, file)) return *std::move(found);
    throw Error(ErrorCode::bad_file,
                fmt::format("{}: an interrupted run has left it partly changed, and its journal, {}, is gone or of another file",
                            printable_path(file.path()), printable_path(*found)));
}

// Only what a journal may be, whole or just begun, is written over.
void check_is_journal(int descriptor, const std::filesystem::path& path) {
    std::array<char, 16> found{};
    const std::size_t size = read_fully_at(descriptor, 0, std::as_writable_bytes(std::span(found)), path);
    const bool is_begun = std::all_of(found.begin(), found.end(), [](char byte) { return byte == 0; });
    if (size == 0 || found == file_magic || (size == found.size() && is_begun)) return;
    throw Error(ErrorCode::bad_file,
                fmt::format("{}: is not a journal of this format, and in the place of one", printable_path(path)));
}

// The journal at `path`, locked; made where there is none.
FileDescriptor open_locked(const std::filesystem::path& path) {
    for (;;) {
        FileDescriptor journal(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (!journal.is_open()) throw io_error(path, "open", errno);
        if (::flock(journal.number(), LOCK_EX | LOCK_NB) != 0) {
            if (errno == EINTR) continue;
            if (errno == EWOULDBLOCK) {
                throw Error(ErrorCode::io, fmt::format("{}: another process is changing the file in place", printable_path(path)),
                            EWOULDBLOCK);
            }
            throw io_error(path, "flock", errno);
        }
        // Another process may have ended its run, and removed the journal, between the two calls.
        struct stat opened {
        }, named{};
        if (::fstat(journal.number(), &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
            opened.st_dev == named.st_dev) {
            return journal;
        }
    }
}

}  // namespace

std::filesystem::path journal_of(const std::filesystem::path& file) {
    // Beside the file itself, whatever name it was reached by.
    std::error_code error;
    std::filesystem::path target = std::filesystem::canonical(file, error);
    if (error) target = file;
    return target.parent_path() / fmt::format(".{}.tandem-journal", target.filename().native());
}

std::optional<std::filesystem::path> interrupted_run(const MappedFile& file) {
    std::filesystem::path beside = journal_of(file.path());
    if (is_journal_of(beside, file)) return beside;
    return find_mark(file);
}

Journal::Journal(MappedFile file, JournaledRun run)
    : file_(std::move(file)), run_(std::move(run)), path_(place_of_journal(file_)), journal_(open_locked(path_)) {
    lock_file(file_);
    bool is_made = false;
    try {
        if (read_header<FileHeader>(journal_.number(), 0, path_)) {
            resume();
        } else {
            // Without a whole header nothing had been changed yet.
            check_is_journal(journal_.number(), path_);
            is_made = true;
            create();
        }
        pending_.reserve(capacity_bytes_);
    } catch (...) {
        if (is_made) remove();
        ::flock(file_.descriptor(), LOCK_UN);
        throw;
    }
}

void Journal::create() {
    FileHeader header;
    header.file_bytes = file_.size_bytes();
    header.offset_bytes = run_.offset_bytes;
    header.size_bytes = run_.size_bytes;
    header.capacity_bytes = std::max(run_.record_bytes, run_.unit_bytes);
    header.unit_bytes = run_.unit_bytes;
    struct stat status {};
    if (::fstat(file_.descriptor(), &status) != 0) throw io_error(file_.path(), "fstat", errno);
    header.device = status.st_dev;
    header.inode = status.st_ino;
    run_.operation.copy(header.operation.data(), header.operation.size() - 1);
    write_header(journal_.number(), 0, header, path_);
    capacity_bytes_ = header.capacity_bytes;
    flush(journal_.number(), path_);
    flush_folder_of(path_);
    set_mark(file_, path_);  // brought to the storage with the file, before its first byte is changed
}

void Journal::remove() noexcept {
    ::fremovexattr(file_.descriptor(), mark_name);
    ::unlink(path_.c_str());
}

void Journal::resume() {
    const FileHeader header = *read_header<FileHeader>(journal_.number(), 0, path_);
    const std::string operation(header.operation.data(), ::strnlen(header.operation.data(), header.operation.size()));
    if (operation != run_.operation.substr(0, header.operation.size() - 1) || header.file_bytes != file_.size_bytes() ||
        header.offset_bytes != run_.offset_bytes || header.size_bytes != run_.size_bytes) {
        throw Error(
            ErrorCode::bad_file,
            fmt::format("{}: the journal of an interrupted run is of \"{}\" on {} bytes at offset {} of a file of {} bytes; "
                        "\"{}\" on {} bytes at offset {} of {} was asked for",
                        printable_path(path_), operation, header.size_bytes, header.offset_bytes, header.file_bytes,
                        run_.operation, run_.size_bytes, run_.offset_bytes, file_.size_bytes()));
    }
    if (header.unit_bytes != run_.unit_bytes) {
        throw Error(ErrorCode::bad_file,
                    fmt::format("{}: the journal of an interrupted run is of units of {} bytes, {} were asked for",
                                printable_path(path_), header.unit_bytes, run_.unit_bytes));
    }
    struct stat status {};
    if (::fstat(file_.descriptor(), &status) != 0) throw io_error(file_.path(), "fstat", errno);
    if (header.device != status.st_dev || header.inode != status.st_ino) refuse_other_file("another one has taken its place");
    capacity_bytes_ = header.capacity_bytes;
    std::optional<RecordHeader> newest;
    for (const std::uint64_t slot : {0U, 1U}) {
        const auto record = read_header<RecordHeader>(journal_.number(), slot_offset(slot, capacity_bytes_), path_);
        if (!record || record->size_bytes > capacity_bytes_ || record->begin_bytes > run_.size_bytes ||
            record->size_bytes > run_.size_bytes - record->begin_bytes || (newest && newest->sequence > record->sequence)) {
            continue;
        }
        std::vector<std::byte> bytes(record->size_bytes);
        if (read_fully_at(journal_.number(), slot_offset(slot, capacity_bytes_) + block_bytes, bytes, path_) < bytes.size() ||
            XXH3_64bits(bytes.data(), bytes.size()) != record->bytes_hash) {
            continue;  // it was being written; its bytes in the file are the old ones
        }
        newest = record;
        pending_ = std::move(bytes);
    }
    if (!newest) return;
    const std::uint64_t end_bytes = newest->begin_bytes + newest->size_bytes;
    const std::uint64_t previous = std::min(newest->previous_bytes, newest->begin_bytes);
    if ((previous != 0 && hash_in_file(newest->begin_bytes - previous, previous) != newest->previous_hash) ||
        hash_in_file(end_bytes, following_bytes) != newest->following_hash) {
        refuse_other_file("it was written to since");
    }
    previous_bytes_ = newest->size_bytes;
    previous_hash_ = newest->bytes_hash;
    sequence_ = newest->sequence;
    write_fully_at(file_.descriptor(), run_.offset_bytes + newest->begin_bytes, pending_, file_.path());
    done_bytes_ = newest->begin_bytes + newest->size_bytes;
    pending_.clear();
}

void Journal::refuse_other_file(const char* why) const {
    throw Error(ErrorCode::bad_file,
                fmt::format("{}: an interrupted run has left {}, which is not for this file any more: {}; nothing was changed",
                            printable_path(file_.path()), printable_path(path_), why));
}

std::uint64_t Journal::hash_in_file(std::uint64_t begin_bytes, std::uint64_t size_bytes) const {
    std::vector<std::byte> bytes(std::min(size_bytes, run_.size_bytes - begin_bytes));
    const std::size_t found = read_fully_at(file_.descriptor(), run_.offset_bytes + begin_bytes, bytes, file_.path());
    return XXH3_64bits(bytes.data(), found);
}

void Journal::write_at(std::uint64_t offset_bytes, std::span<const std::byte> bytes) {
    if (offset_bytes != done_bytes_ + pending_.size())
        throw Error(ErrorCode::internal,
                    fmt::format("{}: bytes for offset {} out of order", printable_path(path_), offset_bytes));
    while (!bytes.empty()) {
        const std::size_t part = std::min<std::size_t>(bytes.size(), capacity_bytes_ - pending_.size());
        pending_.insert(pending_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(part));
        bytes = bytes.subspan(part);
        if (pending_.size() == capacity_bytes_) put_record(pending_.size() / run_.unit_bytes * run_.unit_bytes);
    }
}

void Journal::put_record(std::size_t size_bytes) {
    // The record that this one replaces is the one before the last, whose bytes in the file are there for good after this.
    flush(file_.descriptor(), file_.path());
    RecordHeader header;
    header.sequence = sequence_ + 1;
    header.begin_bytes = done_bytes_;
    header.size_bytes = size_bytes;
    const std::span<const std::byte> bytes = std::span(pending_).first(size_bytes);
    header.bytes_hash = XXH3_64bits(bytes.data(), bytes.size());
    header.previous_bytes = previous_bytes_;
    header.previous_hash = previous_hash_;
    header.following_hash = hash_in_file(done_bytes_ + size_bytes, following_bytes);
    const std::uint64_t at = slot_offset(header.sequence, capacity_bytes_);
    write_fully_at(journal_.number(), at + block_bytes, bytes, path_);
    write_header(journal_.number(), at, header, path_);
    flush(journal_.number(), path_);
    sequence_ = header.sequence;
    previous_bytes_ = header.size_bytes;
    previous_hash_ = header.bytes_hash;
    write_fully_at(file_.descriptor(), run_.offset_bytes + done_bytes_, bytes, file_.path());
    done_bytes_ += size_bytes;
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(size_bytes));
}

void Journal::finish() {
    if (done_bytes_ + pending_.size() != run_.size_bytes) {
        throw Error(ErrorCode::internal, fmt::format("{}: {} of {} bytes written", printable_path(path_),
                                                     done_bytes_ + pending_.size(), run_.size_bytes));
    }
    if (!pending_.empty()) put_record(pending_.size());
    flush(file_.descriptor(), file_.path());
    ::fremovexattr(file_.descriptor(), mark_name);
    if (::unlink(path_.c_str()) != 0) throw io_error(path_, "unlink", errno);
    flush_folder_of(path_);
    journal_.reset();
}

Journal::~Journal() {
    // Nothing has been changed: nothing needs to be finished.
    if (journal_.is_open() && sequence_ == 0) remove();
    ::flock(file_.descriptor(), LOCK_UN);
}

}  // namespace tandem
