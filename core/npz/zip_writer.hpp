#pragma once
// A ZIP file, written from front to end.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/output_file.hpp"

namespace tandem::npz {

/// Own code, since the libraries that there are go back to what they have written, which an OutputFile, a pipe perhaps, can't.
/// ZIP64 records are used where a size, an offset or the number of members needs them. Not thread safe. Throws io as
/// `OutputFile::write`. Source: PKWARE's APPNOTE.TXT 6.3.10.
class ZipWriter {
public:
    /// The longest name that a member can have.
    static constexpr std::size_t max_name_bytes = 0xffff;
    /// What the bytes of stored members start at a multiple of.
    static constexpr std::uint64_t alignment = 64;

    /// Writes to the end of `file`, which must outlive this.
    explicit ZipWriter(OutputFile& file) : file_(file) {}

    /// Begins a stored member, of which the caller then writes `size_bytes` to the file.
    void begin_stored(const std::string& name, std::uint64_t size_bytes, std::uint32_t crc32);

    /// Begins a deflated member of `size_bytes` bytes before that; the caller then writes it to the file, deflated, and ends it.
    void begin_deflated(const std::string& name, std::uint64_t size_bytes);
    void end_deflated(std::uint32_t crc32);

    /// Writes the directory. Nothing may follow.
    void finish();

private:
    struct Member {
        std::string name;
        bool deflated = false;
        bool zip64 = false;  // the local header has 64-bit sizes
        std::uint32_t crc32 = 0;
        std::uint64_t size_bytes = 0;
        std::uint64_t compressed_bytes = 0;
        std::uint64_t offset = 0;  // of the local header
        std::uint64_t data_offset = 0;
    };

    void write_local_header(Member member);

    OutputFile& file_;
    std::vector<Member> members_;
};

}  // namespace tandem::npz
