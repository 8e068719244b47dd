#pragma once
// What a ZIP file's directory says, and the bytes of its members.
//
// Own code, since no library fits: Debian's minizip takes ZIP64 sizes and offsets for 2^32 - 1, and misses empty archives and
// those behind long comments; libzip does not tell where a member's data lies. zlib inflates. Source: PKWARE's
// APPNOTE.TXT 6.3.10.

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tandem/mapped_file.hpp"

namespace tandem::npz {

/// One record of the directory.
struct Record {
    std::string file_name;
    unsigned method = 0;  ///< 0 is stored, 8 deflated
    unsigned flags = 0;
    std::uint32_t crc32 = 0;
    std::uint64_t compressed_bytes = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t local_offset = 0;  ///< of the member's own header, from the start of the file
    std::uint64_t end_limit = 0;     ///< where what follows the member begins: another one, or the directory
};

/// All records, as they come. Throws bad_file with offset, needed and found.
std::vector<Record> read_directory(const MappedFile& file);

/// Why the member can't be read, however whole it is; empty where it can.
std::string why_unreadable(const Record& record);

/// One member, from its first byte on. Reads with `pread`, so that an archive that has become shorter is an error. Not thread
/// safe; several of one archive may be used at once.
class MemberStream {
public:
    /// `record` must outlive this; `name` is what messages call the member. Throws bad_file where the archive contradicts itself;
    /// unsupported for what `why_unreadable` has something against.
    MemberStream(const MappedFile& file, const Record& record, std::string name);
    ~MemberStream();
    MemberStream(const MemberStream&) = delete;
    MemberStream& operator=(const MemberStream&) = delete;

    /// Where in the archive the member's bytes begin, compressed or not.
    [[nodiscard]] std::uint64_t data_offset() const noexcept { return data_offset_; }

    /// The next bytes, inflated. Throws bad_file where there are fewer.
    void read(std::span<std::byte> destination);

    /// Of a compressed member: reads what is left, which nobody wants, and compares size and CRC-32. Throws bad_file.
    void finish();

private:
    // Inflates into `destination`, as far as the compressed bytes reach; how many bytes there were.
    std::size_t inflate_some(std::span<std::byte> destination);

    const MappedFile& file_;
    const Record& record_;
    std::string name_;
    std::uint64_t data_offset_ = 0;
    std::uint64_t done_bytes_ = 0;  // of the member, inflated
    std::uint64_t used_bytes_ = 0;  // of the compressed ones, read
    std::vector<std::byte> input_;
    z_stream stream_{};
    bool is_inflating_ = false;
    bool has_ended_ = false;
    uLong crc32_ = 0;
};

}  // namespace tandem::npz
