#include "core/transport/journal.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/transport/journal_format.hpp"
#include "core/transport/source.hpp"
#include "tandem/error.hpp"
#include "tandem/stream.hpp"

namespace tandem {
namespace {

[[noreturn]] void refuse_busy(const std::filesystem::path& path) {
    throw Error(ErrorCode::io, fmt::format("{}: another process is changing the file in place", printable_path(path)),
                EWOULDBLOCK);
}

void flush_folder_of(const std::filesystem::path& path) {
    const std::filesystem::path folder = path.parent_path().empty() ? "." : path.parent_path();
    const FileDescriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (file.is_open()) static_cast<void>(::fsync(file.number()));
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

// Whether it may be a journal, whole or just begun.
bool is_begun(int descriptor, const std::filesystem::path& path) {
    std::array<char, 16> found{};
    const std::size_t size = read_fully_at(descriptor, 0, std::as_writable_bytes(std::span(found)), path);
    const bool is_empty = std::all_of(found.begin(), found.end(), [](char byte) { return byte == 0; });
    return size == 0 || found == JournalHeader::known_magic || (size == found.size() && is_empty);
}

// What a journal is to a file.
enum class Fit : std::uint8_t {
    none,       // there is no journal, or it is another file's
    untouched,  // it is the file's, which it has not changed yet
    ours,       // it is the file's, which is partly changed
};

Fit fit_of(const std::filesystem::path& path, const MappedFile& file) {
    const FileDescriptor journal(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!journal.is_open()) {
        if (errno == EACCES || errno == EPERM) return Fit::ours;  // another user's, who has kept it to himself
        if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENXIO) return Fit::none;
        throw io_error(path, "open to see whether a run was interrupted", errno);
    }
    struct stat status {};
    const auto header = read_journal_header(journal.number(), path);
    // Records come after a whole header alone.
    if (!header) return is_begun(journal.number(), path) ? Fit::untouched : Fit::none;
    if (::fstat(file.descriptor(), &status) != 0 || header->file_bytes != file.size_bytes()) return Fit::none;
    const auto record = find_newest_record(journal.number(), path, *header);
    if (header->inode == status.st_ino) return record ? Fit::ours : Fit::untouched;
    // A copy that was made together with the journal, or a file that was moved to another filesystem with it. One with the mark
    // alone would take the journal from the file that it is a copy of.
    return record && path == journal_of(file.path()) &&
                   is_left_by(*record, journal.number(), path, *header, file.descriptor(), file.path())
               ? Fit::ours
               : Fit::none;
}

// Where the journal of `file` is, or is to be.
std::filesystem::path place_of_journal(const MappedFile& file) {
    std::optional<std::filesystem::path> found = interrupted_run(file);
    if (!found) return journal_of(file.path());
    if (fit_of(*found, file) != Fit::none) return *std::move(found);
    throw Error(ErrorCode::bad_file,
                fmt::format("{}: an interrupted run has left it partly changed, and its journal, {}, is gone or of another file; "
                            "'tandem forget' (forget_interrupted_run) takes the file as it is",
                            printable_path(file.path()), printable_path(*found)));
}

// Only what a journal may be is written over.
void check_is_journal(int descriptor, const std::filesystem::path& path) {
    if (is_begun(descriptor, path)) return;
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
                refuse_busy(path);
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
    std::string name = target.filename().native();
    // A name that leaves no room for more is known by its beginning and its hash.
    constexpr std::size_t room = NAME_MAX - std::string_view("..tandem-journal").size();
    if (name.size() > room)
        name = fmt::format("{}-{:016x}", name.substr(0, room - 17), journal_hash(std::as_bytes(std::span(name))));
    return target.parent_path() / fmt::format(".{}.tandem-journal", name);
}

std::optional<std::filesystem::path> interrupted_run(const MappedFile& file) {
    const std::filesystem::path beside = journal_of(file.path());
    std::optional<std::filesystem::path> mark = find_mark(file);
    for (const std::filesystem::path& path : {beside, mark.value_or(beside)}) {
        switch (fit_of(path, file)) {
            case Fit::ours:
                return path;
            case Fit::untouched:
                return is_run_under_way(path) ? std::optional(path) : std::nullopt;
            case Fit::none:
                break;
        }
    }
    return mark;
}

// Where the file system has no locks, the journal's lock is all there is.
FileDescriptor lock_file(const MappedFile& file) {
    FileDescriptor own(open_again(file, O_RDWR));
    while (own.is_open() && ::flock(own.number(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR) continue;
        if (errno != EWOULDBLOCK) break;
        refuse_busy(file.path());
    }
    return own;
}

bool is_run_under_way(const std::filesystem::path& journal) {
    const FileDescriptor file(::open(journal.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    return file.is_open() && ::flock(file.number(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

bool forget_interrupted_run(const MappedFile& file) {
    const FileDescriptor lock = lock_file(file);
    bool was_there = false;
    for (const std::filesystem::path& path : {journal_of(file.path()), find_mark(file).value_or("")}) {
        const FileDescriptor journal(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (!journal.is_open()) {
            if (path.empty() || errno == ENOENT || errno == ENOTDIR) continue;
            throw io_error(path, "open", errno);
        }
        if (is_run_under_way(path)) refuse_busy(path);
        if (fit_of(path, file) == Fit::none) {
            if (path != journal_of(file.path())) continue;  // another file's by now
            throw Error(
                ErrorCode::bad_file,
                fmt::format("{}: the journal in its place, {}, is of another file, which had this name or was written over; "
                            "if it is not to be finished, remove the journal",
                            printable_path(file.path()), printable_path(path)));
        }
        if (::unlink(path.c_str()) != 0) throw io_error(path, "unlink", errno);
        was_there = true;
    }
    if (::fremovexattr(file.descriptor(), mark_name) == 0) return true;
    if (errno != ENODATA && errno != EOPNOTSUPP) throw io_error(file.path(), "fremovexattr", errno);
    return was_there;
}

Journal::Journal(MappedFile file, JournaledRun run)
    : file_(std::move(file)),
      lock_(lock_file(file_)),
      run_(std::move(run)),
      path_(place_of_journal(file_)),
      journal_(open_locked(path_)) {
    bool is_made = false;
    try {
        std::optional<Record> record;
        if (const auto header = read_journal_header(journal_.number(), path_)) {
            header_ = *header;
            record = find_newest_record(journal_.number(), path_, header_);
        }
        if (record) {
            resume(*record);
        } else {
            // Nothing had been changed yet.
            check_is_journal(journal_.number(), path_);
            is_made = true;
            create();
        }
        record_bytes_ = std::min<std::uint64_t>(header_.capacity_bytes, std::max(run_.record_bytes, run_.unit_bytes));
        try {
            pending_.reserve(record_bytes_);
        } catch (const std::bad_alloc&) {
            throw Error(ErrorCode::out_of_memory, fmt::format("{}: a record of {} bytes", printable_path(path_), record_bytes_));
        }
    } catch (...) {
        if (is_made) remove();
        throw;
    }
}

void Journal::create() {
    header_ = {};
    header_.file_bytes = file_.size_bytes();
    header_.offset_bytes = run_.offset_bytes;
    header_.size_bytes = run_.size_bytes;
    header_.capacity_bytes = std::max(run_.record_bytes, run_.unit_bytes);
    header_.unit_bytes = run_.unit_bytes;
    header_.set_operation(run_.operation);
    struct stat status {};
    if (::fstat(file_.descriptor(), &status) != 0) throw io_error(file_.path(), "fstat", errno);
    header_.inode = status.st_ino;
    if (::ftruncate(journal_.number(), 0) != 0) throw io_error(path_, "ftruncate", errno);
    write_journal_header(journal_.number(), path_, header_);
    flush_data(journal_.number(), path_);
    flush_folder_of(path_);
    set_mark(file_, path_);  // brought to the storage with the file, before its first byte is changed
}

void Journal::remove() noexcept {
    ::fremovexattr(file_.descriptor(), mark_name);
    ::unlink(path_.c_str());
}

void Journal::resume(const Record& record) {
    if (!header_.has_operation(run_.operation) || header_.file_bytes != file_.size_bytes() ||
        header_.offset_bytes != run_.offset_bytes || header_.size_bytes != run_.size_bytes) {
        throw Error(
            ErrorCode::bad_file,
            fmt::format("{}: the journal of an interrupted run is of \"{}\" on {} bytes at offset {} of a file of {} bytes; "
                        "\"{}\" on {} bytes at offset {} of {} was asked for",
                        printable_path(path_), header_.operation_text(), header_.size_bytes, header_.offset_bytes,
                        header_.file_bytes, run_.operation, run_.size_bytes, run_.offset_bytes, file_.size_bytes()));
    }
    if (header_.unit_bytes != run_.unit_bytes) {
        throw Error(ErrorCode::bad_file,
                    fmt::format("{}: the journal of an interrupted run is of units of {} bytes, {} were asked for",
                                printable_path(path_), header_.unit_bytes, run_.unit_bytes));
    }
    if (!is_left_by(record, journal_.number(), path_, header_, file_.descriptor(), file_.path())) {
        throw Error(
            ErrorCode::bad_file,
            fmt::format(
                "{}: an interrupted run has left {}, which is not for this file any more: it holds other bytes than "
                "the run left in it; nothing was changed; 'tandem forget' (forget_interrupted_run) takes the file as it is",
                printable_path(file_.path()), printable_path(path_)));
    }
    write_again(record, journal_.number(), path_, header_, file_.descriptor(), file_.path());
    latest_ = record.header;
    done_bytes_ = latest_.begin_bytes + latest_.size_bytes;
}

void Journal::write_at(std::uint64_t offset_bytes, std::span<const std::byte> bytes) {
    if (offset_bytes != done_bytes_ + pending_.size())
        throw Error(ErrorCode::internal,
                    fmt::format("{}: bytes for offset {} out of order", printable_path(path_), offset_bytes));
    while (!bytes.empty()) {
        const std::size_t part = std::min<std::size_t>(bytes.size(), record_bytes_ - pending_.size());
        pending_.insert(pending_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(part));
        bytes = bytes.subspan(part);
        if (pending_.size() == record_bytes_) put_record(pending_.size() / run_.unit_bytes * run_.unit_bytes);
    }
}

void Journal::put_record(std::size_t size_bytes) {
    // The record that this one replaces is the one before the last, whose bytes in the file are there for good after this.
    flush_data(file_.descriptor(), file_.path());
    RecordHeader record;
    record.sequence = latest_.sequence + 1;
    record.begin_bytes = done_bytes_;
    record.size_bytes = size_bytes;
    record.previous_bytes = latest_.size_bytes;
    record.previous_hash = latest_.bytes_hash;
    const std::span<const std::byte> bytes = std::span(pending_).first(size_bytes);
    latest_ = write_record(journal_.number(), path_, header_, record, bytes, file_.descriptor(), file_.path());
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
    flush_data(file_.descriptor(), file_.path());
    ::fremovexattr(file_.descriptor(), mark_name);
    if (::unlink(path_.c_str()) != 0) throw io_error(path_, "unlink", errno);
    flush_folder_of(path_);
    journal_.reset();
}

Journal::~Journal() {
    // Nothing has been changed: nothing needs to be finished.
    if (journal_.is_open() && latest_.sequence == 0) remove();
}

}  // namespace tandem
