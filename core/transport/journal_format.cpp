#include "core/transport/journal_format.hpp"

#include <unistd.h>
// Header-only, so that what links the library needs no other.
// Its functions are more than a compiler takes in by force with -Og.
#define XXH_NO_INLINE_HINTS 1
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

#include <fmt/format.h>

#include "core/posix_file.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t block_bytes = 4096;

// Storage writes so much at a time or not at all.
constexpr std::uint64_t sector_bytes = 512;

// So much of what follows a record tells whether the file is still the one that was changed.
constexpr std::uint64_t following_bytes = 65536;

// Records are read and hashed in such pieces: one may be larger than the memory that the run is finished in.
constexpr std::size_t piece_bytes = std::size_t{1} << 20U;

// Calls `visit` with piece after piece of a file's bytes, as far as there are so many; how many that were. All but the first one
// begin at multiples of `piece_bytes`.
template <class Visit>
std::uint64_t for_each_piece(int descriptor, std::uint64_t offset_bytes, std::uint64_t size_bytes,
                             const std::filesystem::path& path, Visit visit) {
    std::vector<std::byte> piece(std::min<std::uint64_t>(piece_bytes, size_bytes));
    std::uint64_t done = 0;
    while (done < size_bytes) {
        const std::uint64_t at = offset_bytes + done;
        const std::uint64_t most = std::min<std::uint64_t>(piece_bytes - at % piece_bytes, piece.size());
        const std::span<std::byte> wanted = std::span(piece).first(std::min<std::uint64_t>(most, size_bytes - done));
        const std::size_t found = read_fully_at(descriptor, at, wanted, path);
        if (found != 0) visit(done, std::span<const std::byte>(wanted.first(found)));
        done += found;
        if (found < wanted.size()) break;
    }
    return done;
}

struct Hashed {
    std::uint64_t size_bytes = 0;
    std::uint64_t hash = 0;
};

Hashed hash_in_file(int descriptor, std::uint64_t offset_bytes, std::uint64_t size_bytes, const std::filesystem::path& path) {
    const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), XXH3_freeState);
    if (state == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(state.get());
    const std::uint64_t found =
        for_each_piece(descriptor, offset_bytes, size_bytes, path, [&](std::uint64_t /*at*/, std::span<const std::byte> bytes) {
            XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
        });
    return {found, XXH3_64bits_digest(state.get())};
}

// Of what lies behind a record, as far as it is the run's.
std::uint64_t following_hash(const JournalHeader& header, std::uint64_t end_bytes, int file, const std::filesystem::path& path) {
    const std::uint64_t size = std::min(following_bytes, header.size_bytes - end_bytes);
    return hash_in_file(file, header.offset_bytes + end_bytes, size, path).hash;
}

// Calls `visit` with the part of each sector of the file that lies in `bytes`, which begin at `offset_bytes` of it.
template <class Visit>
void for_each_sector(std::uint64_t offset_bytes, std::span<const std::byte> bytes, Visit visit) {
    while (!bytes.empty()) {
        const std::size_t size = std::min<std::size_t>(sector_bytes - offset_bytes % sector_bytes, bytes.size());
        visit(bytes.first(size));
        bytes = bytes.subspan(size);
        offset_bytes += size;
    }
}

std::uint32_t sector_hash(std::span<const std::byte> bytes) noexcept {
    return static_cast<std::uint32_t>(journal_hash(bytes));
}

// How many sectors hold a part of the bytes.
std::uint64_t sector_count(std::uint64_t offset_bytes, std::uint64_t size_bytes) {
    return (offset_bytes % sector_bytes + size_bytes + sector_bytes - 1) / sector_bytes;
}

// Room for the hashes of a record that begins anywhere.
std::uint64_t hashes_bytes(const JournalHeader& header) {
    const std::uint64_t bytes = (header.capacity_bytes / sector_bytes + 2) * sizeof(std::uint32_t);
    return (bytes + block_bytes - 1) / block_bytes * block_bytes;
}

std::uint64_t slot_offset(std::uint64_t sequence, const JournalHeader& header) {
    return block_bytes + (sequence % 2) * (block_bytes + header.capacity_bytes + hashes_bytes(header));
}

template <class Header>
std::uint64_t hash_of(const Header& header) {
    return XXH3_64bits(&header, offsetof(Header, hash));
}

template <class Header>
void write_header(int descriptor, std::uint64_t offset_bytes, Header header, const std::filesystem::path& path) {
    header.hash = hash_of(header);
    std::vector<std::byte> block(block_bytes);
    std::memcpy(block.data(), &header, sizeof header);
    write_fully_at(descriptor, offset_bytes, block, path);
}

template <class Header>
std::optional<Header> read_header(int descriptor, std::uint64_t offset_bytes, const std::filesystem::path& path) {
    Header header;
    const std::size_t found = read_fully_at(descriptor, offset_bytes, std::as_writable_bytes(std::span(&header, 1)), path);
    if (found < sizeof header || header.magic != Header::known_magic || header.hash != hash_of(header)) return {};
    return header;
}

}  // namespace

std::uint64_t journal_hash(std::span<const std::byte> bytes) noexcept {
    return XXH3_64bits(bytes.data(), bytes.size());
}

void JournalHeader::set_operation(const std::string& text) {
    operation = {};
    text.copy(operation.data(), operation.size() - 1);
    operation_hash = journal_hash(std::as_bytes(std::span(text)));
}

bool JournalHeader::has_operation(const std::string& text) const {
    return operation_hash == journal_hash(std::as_bytes(std::span(text)));
}

std::string JournalHeader::operation_text() const {
    return {operation.data(), ::strnlen(operation.data(), operation.size())};
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

void flush_data(int descriptor, const std::filesystem::path& path) {
    while (::fdatasync(descriptor) != 0) {
        if (errno != EINTR) throw io_error(path, "fdatasync", errno);
    }
}

void write_journal_header(int journal, const std::filesystem::path& path, JournalHeader header) {
    write_header(journal, 0, header, path);
}

std::optional<JournalHeader> read_journal_header(int journal, const std::filesystem::path& path) {
    return read_header<JournalHeader>(journal, 0, path);
}

RecordHeader write_record(int journal, const std::filesystem::path& path, const JournalHeader& header, RecordHeader record,
                          std::span<const std::byte> bytes, int file, const std::filesystem::path& file_path) {
    record.size_bytes = bytes.size();
    record.bytes_hash = journal_hash(bytes);
    record.following_hash = following_hash(header, record.begin_bytes + record.size_bytes, file, file_path);
    const std::uint64_t in_file = header.offset_bytes + record.begin_bytes;
    std::vector<std::uint32_t> hashes;
    hashes.reserve(sector_count(in_file, bytes.size()));
    for_each_piece(file, in_file, bytes.size(), file_path, [&](std::uint64_t at, std::span<const std::byte> piece) {
        for_each_sector(in_file + at, piece, [&](std::span<const std::byte> sector) { hashes.push_back(sector_hash(sector)); });
    });
    record.replaced_hash = journal_hash(std::as_bytes(std::span(hashes)));
    const std::uint64_t at = slot_offset(record.sequence, header);
    write_fully_at(journal, at + block_bytes, bytes, path);
    write_fully_at(journal, at + block_bytes + header.capacity_bytes, std::as_bytes(std::span(hashes)), path);
    write_header(journal, at, record, path);
    flush_data(journal, path);
    return record;
}

std::optional<Record> find_newest_record(int journal, const std::filesystem::path& path, const JournalHeader& header) {
    std::optional<Record> newest;
    for (const std::uint64_t slot : {0U, 1U}) {
        const std::uint64_t at = slot_offset(slot, header);
        const auto record = read_header<RecordHeader>(journal, at, path);
        if (!record || record->size_bytes > header.capacity_bytes || record->begin_bytes > header.size_bytes ||
            record->size_bytes > header.size_bytes - record->begin_bytes ||
            (newest && newest->header.sequence > record->sequence)) {
            continue;
        }
        const Record found{*record, at + block_bytes, at + block_bytes + header.capacity_bytes};
        const std::uint64_t sectors = sector_count(header.offset_bytes + record->begin_bytes, record->size_bytes);
        const Hashed bytes = hash_in_file(journal, found.bytes_at, record->size_bytes, path);
        const Hashed hashes = hash_in_file(journal, found.hashes_at, sectors * sizeof(std::uint32_t), path);
        // Else it was being written; its bytes in the file are the old ones.
        if (bytes.size_bytes == record->size_bytes && bytes.hash == record->bytes_hash && hashes.hash == record->replaced_hash)
            newest = found;
    }
    return newest;
}

bool is_left_by(const Record& record, int journal, const std::filesystem::path& path, const JournalHeader& header, int file,
                const std::filesystem::path& file_path) {
    const std::uint64_t begin = record.header.begin_bytes, in_file = header.offset_bytes + begin;
    const std::uint64_t previous = std::min(record.header.previous_bytes, begin);
    if (previous != 0 && hash_in_file(file, in_file - previous, previous, file_path).hash != record.header.previous_hash)
        return false;
    if (following_hash(header, begin + record.header.size_bytes, file, file_path) != record.header.following_hash) return false;
    std::vector<std::byte> fresh;
    std::vector<std::uint32_t> hashes;
    std::uint64_t sectors_seen = 0;
    bool is_either = true;
    const std::uint64_t found = for_each_piece(
        file, in_file, record.header.size_bytes, file_path, [&](std::uint64_t at, std::span<const std::byte> piece) {
            fresh.resize(piece.size());
            hashes.resize(sector_count(in_file + at, piece.size()));
            read_fully_at(journal, record.bytes_at + at, fresh, path);
            read_fully_at(journal, record.hashes_at + sectors_seen * sizeof(std::uint32_t),
                          std::as_writable_bytes(std::span(hashes)), path);
            std::size_t done = 0, sector_index = 0;
            for_each_sector(in_file + at, piece, [&](std::span<const std::byte> sector) {
                is_either = is_either && (std::memcmp(sector.data(), fresh.data() + done, sector.size()) == 0 ||
                                          sector_hash(sector) == hashes[sector_index]);
                done += sector.size();
                ++sector_index;
            });
            sectors_seen += sector_index;
        });
    return is_either && found == record.header.size_bytes;
}

void write_again(const Record& record, int journal, const std::filesystem::path& path, const JournalHeader& header, int file,
                 const std::filesystem::path& file_path) {
    for_each_piece(journal, record.bytes_at, record.header.size_bytes, path,
                   [&](std::uint64_t at, std::span<const std::byte> bytes) {
                       write_fully_at(file, header.offset_bytes + record.header.begin_bytes + at, bytes, file_path);
                   });
}

}  // namespace tandem
