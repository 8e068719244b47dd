#pragma once
// What a journal holds, and how its newest record is compared with the file that it is of.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tandem {

/// At the journal's beginning, in a block of its own.
struct JournalHeader {
    static constexpr std::array<char, 16> known_magic{'t', 'a', 'n', 'd', 'e', 'm', ' ', 'j',
                                                      'o', 'u', 'r', 'n', 'a', 'l', '3', '\n'};

    std::array<char, 16> magic = known_magic;
    std::uint64_t file_bytes = 0;  // of the file that is changed
    std::uint64_t inode = 0;       // its number; that of its filesystem changes when that is mounted again
    std::uint64_t offset_bytes = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t capacity_bytes = 0;  // of each of the two records
    std::uint64_t unit_bytes = 0;
    std::array<char, 256> operation{};  // its beginning, for messages
    std::uint64_t operation_hash = 0;
    std::uint64_t hash = 0;  // of what comes before

    void set_operation(const std::string& text);
    [[nodiscard]] bool has_operation(const std::string& text) const;
    [[nodiscard]] std::string operation_text() const;
};

/// Before each record, in a block of its own. After it come the record's bytes, and then the hashes of those that they replace:
/// one of 32 bits for each sector of the file that the record touches.
struct RecordHeader {
    static constexpr std::uint64_t known_magic = 0x64726f6365726474U;

    std::uint64_t magic = known_magic;
    std::uint64_t sequence = 0;
    std::uint64_t begin_bytes = 0;  // from the run's beginning on
    std::uint64_t size_bytes = 0;
    std::uint64_t bytes_hash = 0;
    std::uint64_t replaced_hash = 0;   // of the sectors' hashes
    std::uint64_t previous_bytes = 0;  // what the file holds before `begin_bytes`, which the previous record has put there
    std::uint64_t previous_hash = 0;
    std::uint64_t following_hash = 0;  // what it holds after this record, which no record has changed yet
    std::uint64_t hash = 0;            // of what comes before
};

struct Record {
    RecordHeader header;
    std::uint64_t bytes_at = 0;  // in the journal
    std::uint64_t hashes_at = 0;
};

/// Takes the place of the older one of the two records, durably; both are of a run that `header` describes. `file` is as it is
/// before `bytes` go into it. Completes the header, and returns it. Throws io.
RecordHeader write_record(int journal, const std::filesystem::path& path, const JournalHeader& header, RecordHeader record,
                          std::span<const std::byte> bytes, int file, const std::filesystem::path& file_path);

/// The newest record that was written whole. Throws io.
std::optional<Record> find_newest_record(int journal, const std::filesystem::path& path, const JournalHeader& header);

/// Whether `file` is what the run has left: behind the record nothing is changed, before it are the previous record's bytes, and
/// each sector that the record touches holds the old bytes or the new ones. Throws io.
bool is_left_by(const Record& record, int journal, const std::filesystem::path& path, const JournalHeader& header, int file,
                const std::filesystem::path& file_path);

/// Puts the record's bytes into the file once more. Throws io.
void write_again(const Record& record, int journal, const std::filesystem::path& path, const JournalHeader& header, int file,
                 const std::filesystem::path& file_path);

void write_journal_header(int journal, const std::filesystem::path& path, JournalHeader header);
/// Nothing where the journal has no whole one.
std::optional<JournalHeader> read_journal_header(int journal, const std::filesystem::path& path);

std::uint64_t journal_hash(std::span<const std::byte> bytes) noexcept;
void write_fully_at(int descriptor, std::uint64_t offset_bytes, std::span<const std::byte> bytes,
                    const std::filesystem::path& path);
/// fdatasync. Throws io.
void flush_data(int descriptor, const std::filesystem::path& path);

}  // namespace tandem
