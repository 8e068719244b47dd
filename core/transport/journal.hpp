#pragma once
// What makes it safe to change a file in place.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <tandem/mapped_file.hpp>

#include "core/posix_file.hpp"
#include "core/transport/journal_format.hpp"
#include "core/transport/sink.hpp"

namespace tandem {

/// What is being done, and to which bytes of the file.
struct JournaledRun {
    std::string operation;
    std::uint64_t offset_bytes = 0;
    std::uint64_t size_bytes = 0;
    std::size_t unit_bytes = 1;                         ///< the run can go on after any number of units
    std::size_t record_bytes = std::size_t{32} << 20U;  ///< so much host memory, twice as much beside the file, or one unit
};

/// Keeps others from changing the file in place, by whatever name they reach it, until it is closed. Not open where the file
/// system has no locks. Throws io where another process is at the file. Native call: flock, by a descriptor of its own, since a
/// lock is shared by all that use one.
FileDescriptor lock_file(const MappedFile& file);

/// Writes a file's new bytes from the front to the end, each through a record in a second file beside it: first the record is
/// brought to the storage, then the bytes are written to the file, and those are brought to the storage before the next record
/// but one takes the first one's place. So whatever happens, the file is the old one behind some point and the new one before it,
/// but for one record's bytes, which the journal holds.
///
/// Creating one where an interrupted run has left a journal writes that record's bytes once more, and `done_bytes` says from
/// where on the run continues. The file bears the journal's path as long as there is one: under another name it is still known.
/// Native calls: flock, fsetxattr, pwrite, fdatasync, fremovexattr, unlink.
class Journal final : public Sink {
public:
    /// Opens the journal beside `file`, or makes one. Throws io where another process is changing the file; bad_file where the
    /// journal is of another run than `run`, or the file holds other bytes than that has left in it (`is_left_by`): another file
    /// has taken its place, or its old contents were put back.
    Journal(MappedFile file, JournaledRun run);
    /// Leaves the journal where the run was not finished; removes it where nothing had been changed yet.
    ~Journal() override;

    /// Bytes from the run's beginning on that are done.
    [[nodiscard]] std::uint64_t done_bytes() const noexcept { return done_bytes_; }

    [[nodiscard]] std::string name() const override { return printable_path(file_.path()); }
    [[nodiscard]] bool is_sequential() const noexcept override { return true; }
    /// The offset is from the run's beginning on. Keeps the bytes until there are enough for a record.
    void write_at(std::uint64_t offset_bytes, std::span<const std::byte> bytes) override;

    /// Writes what is left, brings everything to the storage and removes the journal.
    void finish();

private:
    void create();
    // From the file and from its folder. The mark goes first: a file without one and with a journal is finished once more.
    void remove() noexcept;
    void resume(const Record& record);
    void put_record(std::size_t size_bytes);

    const MappedFile file_;
    const FileDescriptor lock_;  // of the file; before there is a journal, so that who comes second leaves none
    const JournaledRun run_;
    const std::filesystem::path path_;
    FileDescriptor journal_;
    JournalHeader header_;
    RecordHeader latest_;             // with sequence 0 the file is as it was
    std::uint64_t record_bytes_ = 0;  // what records are made of: the journal's room for one, or less
    std::uint64_t done_bytes_ = 0;
    std::vector<std::byte> pending_;  // what follows `done_bytes_`
};

}  // namespace tandem
