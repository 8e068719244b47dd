#include "core/npz/directory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "core/npy/magic.hpp"
#include "core/posix_file.hpp"
#include "core/printable.hpp"
#include "tandem/error.hpp"

namespace tandem::npz {
namespace {

constexpr std::uint32_t in_zip64 = 0xffffffff;  // a 32-bit field whose value is in the ZIP64 extra field
constexpr std::uint32_t local_magic = 0x04034b50;
constexpr std::uint32_t record_magic = 0x02014b50;
constexpr std::uint32_t end_magic = 0x06054b50;
constexpr std::uint32_t end64_magic = 0x06064b50;
constexpr std::uint32_t locator_magic = 0x07064b50;
constexpr std::size_t local_bytes = 30;   // of a member's header, without name and extra field
constexpr std::size_t record_bytes = 46;  // of a directory's record, without name, extra field and comment
constexpr std::size_t end_bytes = 22;
constexpr std::size_t end64_bytes = 56;
constexpr std::size_t locator_bytes = 20;
constexpr std::size_t longest_comment = 0xffff;

using Bytes = std::span<const std::byte>;

[[noreturn]] void refuse(const MappedFile& file, std::uint64_t offset, const std::string& what) {
    throw Error(ErrorCode::bad_file, fmt::format("{}: offset {}: {}", printable_path(file.path()), offset, what));
}

template <class Number>
Number number_at(Bytes bytes, std::size_t offset) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(Number); ++i)
        value |= std::to_integer<std::uint64_t>(bytes[offset + i]) << (8 * i);
    return static_cast<Number>(value);
}

std::string_view text_of(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::byte> read_bytes(const MappedFile& file, std::uint64_t offset, std::size_t size) {
    std::vector<std::byte> bytes(size);
    file.read(offset, bytes);
    return bytes;
}

// A file's bytes a good many at a time, since a directory's records are small.
class Window {
public:
    explicit Window(const MappedFile& file) : file_(file) {}

    // Valid until the next call. The bytes are in the file.
    Bytes at(std::uint64_t offset, std::size_t size) {
        if (offset < start_ || offset + size > start_ + bytes_.size()) {
            constexpr std::size_t usual = std::size_t{64} << 10U;
            const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(usual, file_.size_bytes() - offset));
            bytes_ = read_bytes(file_, offset, std::max(size, most));
            start_ = offset;
        }
        return Bytes(bytes_).subspan(static_cast<std::size_t>(offset - start_), size);
    }

private:
    const MappedFile& file_;
    std::vector<std::byte> bytes_;
    std::uint64_t start_ = 0;
};

// Where the directory is, and what stands in front of the archive, by which all offsets in it are too small.
struct Directory {
    std::uint64_t offset = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t count = 0;
    std::uint64_t before_bytes = 0;
    bool is_count_16_bit = true;
};

[[noreturn]] void refuse_without_end(const MappedFile& file, std::uint64_t tail_at) {
    const auto start = read_bytes(file, 0, static_cast<std::size_t>(std::min<std::uint64_t>(24, file.size_bytes())));
    const std::string_view kind = npy::file_kind(start);
    const std::string found = kind.find("zip archive") != std::string_view::npos
                                  ? "none found: the archive is truncated or damaged"
                              : !kind.empty() ? fmt::format("{} found", kind)
                              : start.empty() ? "an empty file found"
                                              : "none found: no .npz archive";
    refuse(file, tail_at, fmt::format("the end record of a ZIP directory from here on needed, {}", found));
}

// The end record among the file's last bytes: one whose comment ends with the file, since a comment may hold anything; else the
// last of those whose comment fits, since others append to archives.
std::uint64_t find_end(const MappedFile& file) {
    const auto tail_bytes = static_cast<std::size_t>(std::min<std::uint64_t>(file.size_bytes(), end_bytes + longest_comment));
    const std::uint64_t tail_at = file.size_bytes() - tail_bytes;
    const std::vector<std::byte> tail = read_bytes(file, tail_at, tail_bytes);
    std::optional<std::uint64_t> fitting;
    for (std::size_t at = tail_bytes < end_bytes ? 0 : tail_bytes - end_bytes + 1; at-- > 0;) {
        if (number_at<std::uint32_t>(tail, at) != end_magic) continue;
        const std::size_t end = at + end_bytes + number_at<std::uint16_t>(tail, at + 20);
        if (end == tail_bytes) return tail_at + at;
        if (end < tail_bytes && !fitting) fitting = tail_at + at;
    }
    if (!fitting) refuse_without_end(file, tail_at);
    return *fitting;
}

// The ZIP64 end record of an archive that has one; it stands right in front of its locator, or where that says.
std::optional<std::uint64_t> find_end64(const MappedFile& file, std::uint64_t end_at) {
    if (end_at < locator_bytes + end64_bytes) return std::nullopt;
    const std::uint64_t locator_at = end_at - locator_bytes;
    const std::vector<std::byte> locator = read_bytes(file, locator_at, locator_bytes);
    if (number_at<std::uint32_t>(locator, 0) != locator_magic) return std::nullopt;
    for (const std::uint64_t at : {locator_at - end64_bytes, number_at<std::uint64_t>(locator, 8)}) {
        if (at <= locator_at - end64_bytes && number_at<std::uint32_t>(read_bytes(file, at, 4), 0) == end64_magic) return at;
    }
    refuse(file, locator_at, "the offset of a ZIP64 end record needed, another found");
}

Directory find_directory(const MappedFile& file) {
    const std::uint64_t end_at = find_end(file);
    const std::vector<std::byte> end = read_bytes(file, end_at, end_bytes);
    Directory directory;
    directory.count = number_at<std::uint16_t>(end, 10);
    directory.size_bytes = number_at<std::uint32_t>(end, 12);
    std::uint64_t offset = number_at<std::uint32_t>(end, 16);
    std::uint64_t directory_end = end_at;
    bool is_split = number_at<std::uint16_t>(end, 4) != 0 || number_at<std::uint16_t>(end, 6) != 0;
    if (const auto end64_at = find_end64(file, end_at)) {
        const std::vector<std::byte> end64 = read_bytes(file, *end64_at, end64_bytes);
        directory.count = number_at<std::uint64_t>(end64, 32);
        directory.size_bytes = number_at<std::uint64_t>(end64, 40);
        directory.is_count_16_bit = false;
        offset = number_at<std::uint64_t>(end64, 48);
        directory_end = *end64_at;
        is_split = number_at<std::uint32_t>(end64, 16) != 0 || number_at<std::uint32_t>(end64, 20) != 0;
    }
    if (is_split) refuse(file, end_at, "an archive in one file needed, a part of a split one found");
    if (directory.size_bytes > directory_end || offset > directory_end - directory.size_bytes) {
        refuse(file, end_at,
               fmt::format("a directory of {} bytes at {} needed, its end at {} found", directory.size_bytes, offset,
                           directory_end));
    }
    directory.offset = directory_end - directory.size_bytes;
    directory.before_bytes = directory.offset - offset;
    return directory;
}

// Puts in what a record keeps in its ZIP64 extra field: of those values that do not fit into 32 bits, one after the other.
void read_zip64(const MappedFile& file, std::uint64_t record_at, Bytes extra, std::initializer_list<std::uint64_t*> values) {
    Bytes field;
    for (Bytes rest = extra; rest.size() >= 4;) {
        const std::size_t size = std::min<std::size_t>(number_at<std::uint16_t>(rest, 2), rest.size() - 4);
        if (number_at<std::uint16_t>(rest, 0) == 1 && field.empty()) field = rest.subspan(4, size);
        rest = rest.subspan(4 + size);
    }
    for (std::uint64_t* value : values) {
        if (*value != in_zip64) continue;
        if (field.size() < 8) refuse(file, record_at, "a ZIP64 extra field with sizes and offset needed, none found");
        *value = number_at<std::uint64_t>(field, 0);
        field = field.subspan(8);
    }
}

// Each member ends where something else begins: what lies in two of them is not what either was written as.
void find_limits(std::vector<Record>& records, std::uint64_t directory_at) {
    std::vector<std::uint64_t> starts{directory_at};
    for (const Record& record : records)
        starts.push_back(record.local_offset);
    std::sort(starts.begin(), starts.end());
    for (Record& record : records)
        record.end_limit = *std::upper_bound(starts.begin(), starts.end(), record.local_offset);
}

// The record at `at`, which ends at `limit` at most; how many bytes it takes.
std::size_t read_record(const MappedFile& file, Window& window, std::uint64_t at, std::uint64_t limit, Record& record) {
    if (limit - at < record_bytes || number_at<std::uint32_t>(window.at(at, record_bytes), 0) != record_magic) return 0;
    const Bytes fixed = window.at(at, record_bytes);
    const std::size_t name_bytes = number_at<std::uint16_t>(fixed, 28);
    const std::size_t extra_bytes = number_at<std::uint16_t>(fixed, 30);
    const std::size_t size = record_bytes + name_bytes + extra_bytes + number_at<std::uint16_t>(fixed, 32);
    if (size > limit - at) return 0;
    if (number_at<std::uint16_t>(fixed, 34) != 0) refuse(file, at, "an archive in one file needed, a part of a split one found");
    const Bytes all = window.at(at, size);
    record.flags = number_at<std::uint16_t>(all, 8);
    record.method = number_at<std::uint16_t>(all, 10);
    record.crc32 = number_at<std::uint32_t>(all, 16);
    record.compressed_bytes = number_at<std::uint32_t>(all, 20);
    record.size_bytes = number_at<std::uint32_t>(all, 24);
    record.local_offset = number_at<std::uint32_t>(all, 42);
    record.file_name = text_of(all.subspan(record_bytes, name_bytes));
    read_zip64(file, at, all.subspan(record_bytes + name_bytes, extra_bytes),
               {&record.size_bytes, &record.compressed_bytes, &record.local_offset});
    return size;
}

}  // namespace

std::vector<Record> read_directory(const MappedFile& file) {
    const Directory directory = find_directory(file);
    const std::uint64_t end = directory.offset + directory.size_bytes;
    std::vector<Record> records;
    Window window(file);
    std::uint64_t at = directory.offset;
    while (at < end) {
        Record record;
        const std::size_t size = read_record(file, window, at, end, record);
        if (size == 0) break;
        if (record.local_offset >= directory.offset - directory.before_bytes) {
            refuse(file, at,
                   fmt::format("the offset of {} in front of the directory at {} needed, {} found", in_quotes(record.file_name),
                               directory.offset - directory.before_bytes, record.local_offset));
        }
        record.local_offset += directory.before_bytes;
        records.push_back(std::move(record));
        at += size;
    }
    const std::uint64_t counted = directory.is_count_16_bit ? records.size() & 0xffffU : records.size();
    if (at != end || counted != directory.count) {
        refuse(file, at, fmt::format("a directory of {} records needed, {} found", directory.count, records.size()));
    }
    find_limits(records, directory.offset);
    return records;
}

std::string why_unreadable(const Record& record) {
    constexpr unsigned encrypted = 1U | 1U << 6U | 1U << 13U;
    constexpr unsigned patch = 1U << 5U;
    if ((record.flags & encrypted) != 0) return "it is encrypted";
    if ((record.flags & patch) != 0) return "it is a patch for another file";
    if (record.method == 0 || record.method == Z_DEFLATED) return {};
    static constexpr std::array names{std::pair{1U, "shrink"}, std::pair{6U, "implode"}, std::pair{9U, "deflate64"},
                                      std::pair{12U, "bzip2"}, std::pair{14U, "lzma"},   std::pair{20U, "zstd"},
                                      std::pair{93U, "zstd"},  std::pair{95U, "xz"},     std::pair{98U, "ppmd"}};
    const auto found = std::find_if(names.begin(), names.end(), [&](const auto& pair) { return pair.first == record.method; });
    return fmt::format("it is compressed by {}, not by deflate",
                       found == names.end() ? fmt::format("method {}", record.method) : found->second);
}

MemberStream::MemberStream(const MappedFile& file, const Record& record, std::string name)
    : file_(file), record_(record), name_(std::move(name)) {
    if (const std::string reason = why_unreadable(record); !reason.empty())
        throw Error(ErrorCode::unsupported, fmt::format("{}: {}", printable(name_), reason));
    const std::string file_name = in_quotes(record.file_name);
    const std::size_t header_bytes = local_bytes + record.file_name.size();
    const std::uint64_t room = record.end_limit - record.local_offset;
    std::size_t extra_bytes = 0;
    bool agrees = header_bytes <= room;
    if (agrees) {
        const std::vector<std::byte> header = read_bytes(file, record.local_offset, header_bytes);
        extra_bytes = number_at<std::uint16_t>(header, 28);
        agrees = number_at<std::uint32_t>(header, 0) == local_magic && number_at<std::uint16_t>(header, 8) == record.method &&
                 number_at<std::uint16_t>(header, 26) == record.file_name.size() &&
                 text_of(Bytes(header).subspan(local_bytes)) == record.file_name;
    }
    if (!agrees) {
        refuse(file, record.local_offset,
               fmt::format("a header of {} that says what the directory says needed, none found", file_name));
    }
    data_offset_ = record.local_offset + header_bytes + extra_bytes;
    const std::uint64_t data_room = record.end_limit - std::min(record.end_limit, data_offset_);
    if (record.compressed_bytes > data_room) {
        refuse(
            file, data_offset_,
            fmt::format("{} bytes of {} needed, {} found before what follows it", record.compressed_bytes, file_name, data_room));
    }
    if (record.method == 0 && record.compressed_bytes != record.size_bytes) {
        refuse(file, data_offset_,
               fmt::format("{} bytes of {}, which is stored, needed; the directory says that it takes {}", record.size_bytes,
                           file_name, record.compressed_bytes));
    }
    // No two bits of a deflated stream make more than 258 bytes.
    if (record.size_bytes / 1032 > record.compressed_bytes) {
        refuse(file, data_offset_,
               fmt::format("{} bytes of {} needed, which {} compressed ones can't hold", record.size_bytes, file_name,
                           record.compressed_bytes));
    }
    if (record.method == 0) return;
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK)
        throw Error(ErrorCode::out_of_memory, fmt::format("{}: inflateInit2: not enough host memory", printable(name_)));
    is_inflating_ = true;
}

MemberStream::~MemberStream() {
    if (is_inflating_) inflateEnd(&stream_);
}

std::size_t MemberStream::inflate_some(std::span<std::byte> destination) {
    constexpr std::size_t input_bytes = std::size_t{64} << 10U;
    constexpr std::size_t most = std::size_t{4} << 20U;  // what is summed up while it is in the processor's caches
    stream_.next_out = reinterpret_cast<Bytef*>(destination.data());
    stream_.avail_out = static_cast<uInt>(std::min(destination.size(), most));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out > 0 && !has_ended_) {
        const std::uint64_t left = record_.compressed_bytes - used_bytes_;
        if (stream_.avail_in == 0 && left > 0) {
            input_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(input_bytes, left)));
            file_.read(data_offset_ + used_bytes_, input_);
            used_bytes_ += input_.size();
            stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
            stream_.avail_in = static_cast<uInt>(input_.size());
        }
        const int status = inflate(&stream_, Z_NO_FLUSH);
        // Without input there may still be output, which did not fit before.
        has_ended_ = status == Z_STREAM_END || (status == Z_BUF_ERROR && stream_.avail_in == 0 && left == 0);
        if (status == Z_MEM_ERROR)
            throw Error(ErrorCode::out_of_memory, fmt::format("{}: inflate: not enough host memory", printable(name_)), status);
        if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
            const std::uint64_t at = done_bytes_ + (wanted - stream_.avail_out);
            throw Error(ErrorCode::bad_file,
                        fmt::format("{}: offset {}: {} more bytes needed, damaged compressed data found{}{}", printable(name_),
                                    at, record_.size_bytes - std::min(at, record_.size_bytes), stream_.msg != nullptr ? ": " : "",
                                    stream_.msg != nullptr ? stream_.msg : ""),
                        status);
        }
    }
    const std::size_t count = wanted - stream_.avail_out;
    crc32_ = crc32_z(crc32_, reinterpret_cast<const Bytef*>(destination.data()), count);
    return count;
}

void MemberStream::read(std::span<std::byte> destination) {
    if (!is_inflating_) {
        file_.read(data_offset_ + done_bytes_, destination);
        done_bytes_ += destination.size();
        return;
    }
    while (!destination.empty()) {
        const std::size_t count = inflate_some(destination);
        done_bytes_ += count;
        destination = destination.subspan(count);
        if (count == 0) {
            throw Error(ErrorCode::bad_file,
                        fmt::format("{}: offset {}: {} more bytes needed, the end of the compressed data found", printable(name_),
                                    done_bytes_, record_.size_bytes - done_bytes_));
        }
    }
}

void MemberStream::finish() {
    if (!is_inflating_) return;
    std::vector<std::byte> unwanted(std::size_t{64} << 10U);
    while (done_bytes_ < record_.size_bytes)
        read(std::span(unwanted).first(std::min<std::uint64_t>(unwanted.size(), record_.size_bytes - done_bytes_)));
    const uLong found = crc32_;
    if (inflate_some(std::span(unwanted).first(1)) != 0) {
        throw Error(ErrorCode::bad_file, fmt::format("{}: offset {}: the end of the member needed, more compressed data found",
                                                     printable(name_), done_bytes_));
    }
    if (found != record_.crc32) {
        throw Error(ErrorCode::bad_file, fmt::format("{}: offset 0: {} bytes with the CRC-32 {:#010x} needed, {:#010x} found",
                                                     printable(name_), record_.size_bytes, record_.crc32, found));
    }
}

}  // namespace tandem::npz
