#pragma once
// Arrays from and to .npy files.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <tandem/adopt.hpp>
#include <tandem/array.hpp>
#include <tandem/load.hpp>
#include <tandem/mapped_file.hpp>
#include <tandem/npy_header.hpp>

namespace tandem::npy {

/// A .npy file, open: its header, and its data as mapped memory. A shared handle, as MappedFile.
///
/// Opening reads the header alone and maps the rest without touching it: the same cost at any size.
/// Thread safety: const members may be called from any thread.
class File {
public:
    /// Throws io and bad_file as `MappedFile::open` and `parse_header` do, and bad_file where the file ends before its data; with
    /// `strict` also where bytes follow the data.
    /// The access that `mapping` asks for is also the device's, where it works on the data in place.
    static File open(const std::filesystem::path& path, bool strict = false, const MapOptions& mapping = {});

    /// Its offsets count from the start of the .npy file, wherever that lies in `mapping()`.
    [[nodiscard]] const Header& header() const noexcept { return header_; }
    [[nodiscard]] const MappedFile& mapping() const noexcept { return mapping_; }
    /// Where in `mapping()` the first element lies: `header().data_offset`, but for what is stored in an archive (npz.hpp).
    [[nodiscard]] std::uint64_t data_offset_bytes() const noexcept { return start_bytes_ + header_.data_offset; }
    /// Bytes of header, data and what follows them.
    [[nodiscard]] std::uint64_t size_bytes() const noexcept { return size_bytes_; }
    /// What messages call it: the path, and in an archive its member, "x.npz:a".
    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    /// The data as the file has it, byte order included; alignment is whatever the file gives.
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept;
    /// Bytes behind the data.
    [[nodiscard]] std::uint64_t trailing_bytes() const noexcept;

    /// An empty handle: no header, no bytes.
    File() = default;

    /// For core/ alone: `size_bytes` that begin `start_bytes` into `mapping`, which holds header and data at least. Throws
    /// bad_file where they end before the data, and with `strict` where bytes follow it.
    File(MappedFile mapping, Header header, std::string name, std::uint64_t start_bytes, std::uint64_t size_bytes, bool strict);

private:
    MappedFile mapping_;
    Header header_;
    std::string name_;
    std::uint64_t start_bytes_ = 0;
    std::uint64_t size_bytes_ = 0;
};

/// The array in `file`, or the part of it that `options.ranges` name, copied to memory of `options.kind`; waits. Big-endian
/// elements are swapped and bool bytes made 0 or 1 on the device, while others are on their way. Dates and durations come as
/// int64; text and void items as uint8 with the item's bytes as a last dimension.
///
/// Throws invalid_argument where `options.as` has not the items' size, and for a structured file (see `load_fields`);
/// out_of_range for more ranges than axes; bad_file where the file has become shorter; out_of_memory; cancelled.
Array load(const Device& device, const File& file, const LoadOptions& options = {});
/// The same for the file at `path`.
Array load(const Device& device, const std::filesystem::path& path, const LoadOptions& options = {});

/// The arrays in the files at `paths`, in their order: many small files in much less time than one after the other, since several
/// are opened and read at once, and go to the device together. Files of up to a slot of the device's transfers share memory, 64
/// MiB at most, which is given back when the last array in it goes; those that are larger, are swapped or made proper on the
/// device, or of which `options.ranges` name a part, have their own. No more files are open at a time than the transfers have
/// readers. Progress counts the files' bytes. Waits; all of them or, where one fails, none: throws as `load`.
std::vector<Array> load_all(const Device& device, std::span<const std::filesystem::path> paths, const LoadOptions& options = {});

/// The array in `file` itself, in place where the device can: as pageable memory where the device reads that, else as a
/// registered mapping, else as an OpenCL host pointer. Where it can't, a copy as `load` makes it, in memory of the kind
/// `options.fallback`. `zero_copy()` and `residency()` say which, and why. The array keeps the file mapped.
///
/// Always copied: big-endian elements, which are swapped; bools, whose bytes may be other than 0 and 1; with CUDA, files opened
/// as `copy_on_write`. A file opened as `read` may not be written to. What the device writes to one opened as `read_write` is in
/// the file at once where the array is in place, and else when a view for reading has been opened (adopt.hpp). A file that is
/// truncated meanwhile: see `MappedFile`.
///
/// Throws as `load` does; unsupported with the reason on `options.require_zero_copy`.
Array map(const Device& device, const File& file, const AdoptOptions& options = {}, std::optional<DType> as = {});
/// The same for the file at `path`.
Array map(const Device& device, const std::filesystem::path& path, FileAccess access = FileAccess::read,
          const AdoptOptions& options = {}, std::optional<DType> as = {});

/// A structured file on a device: one buffer with all records, and a strided view for each field.
class Records {
public:
    /// The field at `path` ("mass", or "position.x" where structures nest), without copying. Throws out_of_range, naming the
    /// fields there are; text and void fields come as uint8 with the item's bytes as a last dimension.
    [[nodiscard]] Array field(std::string_view path) const;
    [[nodiscard]] const Header& header() const noexcept { return header_; }

    /// For core/ alone.
    Records(Header header, std::shared_ptr<const Buffer> buffer, std::string residency)
        : header_(std::move(header)), buffer_(std::move(buffer)), residency_(std::move(residency)) {}

private:
    Header header_;
    std::shared_ptr<const Buffer> buffer_;  // all records
    std::string residency_;
};

/// All fields of a structured file, copied to memory of `kind` in one go; waits. Big-endian fields are swapped there.
/// Throws invalid_argument where the file is not structured.
Records load_fields(const Device& device, const File& file, MemoryKind kind = MemoryKind::device,
                    const TransferOptions& transfer = {});
/// The same for the file at `path`.
Records load_fields(const Device& device, const std::filesystem::path& path, MemoryKind kind = MemoryKind::device,
                    const TransferOptions& transfer = {});

/// Writes `array` to `path`: Fortran order as such, anything else in C order. Waits for the array's pending work. The file
/// appears complete or not at all; an earlier one stays until then. `alignment`, a power of two from 64 on, is what the data's
/// offset is a multiple of; the page size lets others map the data in place. Throws io, cancelled; nothing is left behind.
void save(const std::filesystem::path& path, const Array& array, std::size_t alignment = 64,
          const TransferOptions& transfer = {});
/// The same, after everything that `queue` holds.
void save(Queue& queue, const Array& array, const std::filesystem::path& path, std::size_t alignment = 64,
          const TransferOptions& transfer = {});

}  // namespace tandem::npy
