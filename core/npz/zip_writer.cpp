#include "core/npz/zip_writer.hpp"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "core/printable.hpp"

namespace tandem::npz {
namespace {

constexpr std::uint64_t most32 = 0xffffffff;  // what a field holds whose value is in a ZIP64 one
constexpr std::uint64_t most16 = 0xffff;
constexpr unsigned version_plain = 20;
constexpr unsigned version_zip64 = 45;
constexpr unsigned made_on_unix = 3U << 8U;
constexpr unsigned sizes_follow = 1U << 3U;
constexpr unsigned name_is_utf8 = 1U << 11U;
constexpr unsigned first_of_1980 = 0x21;  // no clock: the same arrays make the same file
constexpr std::uint32_t owner_may_read_and_write = 0100600U << 16U;
constexpr std::size_t local_header_bytes = 30;
constexpr std::size_t zip64_extra_bytes = 20;
constexpr std::size_t padding_extra_bytes = 6;  // without the padding
constexpr unsigned padding_extra_id = 0xd935;   // which Android's zipalign puts in for the same purpose

// Little-endian numbers, one after the other.
class Record {
public:
    Record& u16(std::uint64_t value) { return put(value, 2); }
    Record& u32(std::uint64_t value) { return put(value, 4); }
    Record& u64(std::uint64_t value) { return put(value, 8); }
    Record& text(const std::string& text) {
        const auto more = std::as_bytes(std::span(text));
        bytes_.insert(bytes_.end(), more.begin(), more.end());
        return *this;
    }
    Record& zeros(std::size_t count) {
        bytes_.resize(bytes_.size() + count);
        return *this;
    }
    [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

private:
    Record& put(std::uint64_t value, unsigned count) {
        for (unsigned i = 0; i < count; ++i)
            bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
        return *this;
    }

    std::vector<std::byte> bytes_;
};

unsigned flags_of(const std::string& name, bool deflated) {
    const bool is_ascii = std::all_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    bool is_utf8 = !is_ascii;
    for (std::size_t at = 0; is_utf8 && at < name.size();) {
        const std::size_t length = utf8_sequence_bytes(name, at);
        is_utf8 = length != 0;
        at += length;
    }
    return (is_utf8 ? name_is_utf8 : 0) | (deflated ? sizes_follow : 0);
}

// Even bytes that can't be compressed grow by less than this.
std::uint64_t most_deflated_bytes(std::uint64_t size_bytes) {
    return size_bytes + size_bytes / 1000 + 1024;
}

}  // namespace

void ZipWriter::write_local_header(Member member) {
    member.offset = file_.size_bytes();
    const std::uint64_t sizes_at = member.offset + local_header_bytes + member.name.size();
    const std::size_t zip64_bytes = member.zip64 ? zip64_extra_bytes : 0;
    std::uint64_t padding = 0;
    std::size_t extra_bytes = zip64_bytes;
    if (!member.deflated) {
        extra_bytes += padding_extra_bytes;
        padding = (alignment - (sizes_at + extra_bytes) % alignment) % alignment;
        extra_bytes += static_cast<std::size_t>(padding);
    }
    // What is not known yet is zero, and stands behind the data.
    const auto size32 = [&](std::uint64_t size) { return member.zip64 ? most32 : member.deflated ? 0 : size; };
    const auto size64 = [&](std::uint64_t size) { return member.deflated ? 0 : size; };
    Record header;
    header.u32(0x04034b50).u16(member.zip64 ? version_zip64 : version_plain).u16(flags_of(member.name, member.deflated));
    header.u16(member.deflated ? Z_DEFLATED : 0).u16(0).u16(first_of_1980).u32(member.crc32);
    header.u32(size32(member.compressed_bytes)).u32(size32(member.size_bytes)).u16(member.name.size()).u16(extra_bytes);
    header.text(member.name);
    if (member.zip64) header.u16(1).u16(16).u64(size64(member.size_bytes)).u64(size64(member.compressed_bytes));
    if (!member.deflated) header.u16(padding_extra_id).u16(2 + padding).u16(alignment).zeros(static_cast<std::size_t>(padding));
    file_.write(header.bytes());
    member.data_offset = file_.size_bytes();
    members_.push_back(std::move(member));
}

void ZipWriter::begin_stored(const std::string& name, std::uint64_t size_bytes, std::uint32_t crc32) {
    Member member;
    member.name = name;
    member.zip64 = size_bytes >= most32;
    member.crc32 = crc32;
    member.size_bytes = member.compressed_bytes = size_bytes;
    write_local_header(std::move(member));
}

void ZipWriter::begin_deflated(const std::string& name, std::uint64_t size_bytes) {
    Member member;
    member.name = name;
    member.deflated = true;
    member.zip64 = most_deflated_bytes(size_bytes) >= most32;
    member.size_bytes = size_bytes;
    write_local_header(std::move(member));
}

void ZipWriter::end_deflated(std::uint32_t crc32) {
    Member& member = members_.back();
    member.crc32 = crc32;
    member.compressed_bytes = file_.size_bytes() - member.data_offset;
    Record sizes;
    sizes.u32(0x08074b50).u32(crc32);
    if (member.zip64) {
        sizes.u64(member.compressed_bytes).u64(member.size_bytes);
    } else {
        sizes.u32(member.compressed_bytes).u32(member.size_bytes);
    }
    file_.write(sizes.bytes());
}

void ZipWriter::finish() {
    const std::uint64_t directory_at = file_.size_bytes();
    for (const Member& member : members_) {
        Record extra;
        for (const std::uint64_t value : {member.size_bytes, member.compressed_bytes, member.offset}) {
            if (value >= most32) extra.u64(value);
        }
        const std::size_t extra_bytes = extra.bytes().empty() ? 0 : 4 + extra.bytes().size();
        const unsigned version = member.zip64 || extra_bytes != 0 ? version_zip64 : version_plain;
        Record record;
        record.u32(0x02014b50).u16(made_on_unix | version).u16(version).u16(flags_of(member.name, member.deflated));
        record.u16(member.deflated ? Z_DEFLATED : 0).u16(0).u16(first_of_1980).u32(member.crc32);
        record.u32(std::min(member.compressed_bytes, most32)).u32(std::min(member.size_bytes, most32));
        record.u16(member.name.size()).u16(extra_bytes).u16(0).u16(0).u16(0).u32(owner_may_read_and_write);
        record.u32(std::min(member.offset, most32)).text(member.name);
        if (extra_bytes != 0) record.u16(1).u16(extra.bytes().size());
        file_.write(record.bytes());
        file_.write(extra.bytes());
    }
    const std::uint64_t directory_bytes = file_.size_bytes() - directory_at;
    const std::uint64_t count = members_.size();
    Record end;
    if (count >= most16 || directory_bytes >= most32 || directory_at >= most32) {
        end.u32(0x06064b50).u64(44).u16(made_on_unix | version_zip64).u16(version_zip64).u32(0).u32(0);
        end.u64(count).u64(count).u64(directory_bytes).u64(directory_at);
        end.u32(0x07064b50).u32(0).u64(file_.size_bytes()).u32(1);
    }
    end.u32(0x06054b50).u16(0).u16(0).u16(std::min(count, most16)).u16(std::min(count, most16));
    end.u32(std::min(directory_bytes, most32)).u32(std::min(directory_at, most32)).u16(0);
    file_.write(end.bytes());
}

}  // namespace tandem::npz
