#pragma once
// Arrays from and to .npz archives: ZIP files whose members are .npy files.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/adopt.hpp>
#include <tandem/array.hpp>
#include <tandem/mapped_file.hpp>
#include <tandem/npy.hpp>

namespace tandem::npz {

/// What an archive's directory says of a member. Nothing in it has been compared with the member yet.
struct Member {
    std::string name;         ///< without ".npy", as NumPy lists it; the bytes that the archive has, most often ASCII or UTF-8
    std::string file_name;    ///< in the archive: "weights/first.npy"
    bool compressed = false;  ///< false where it is stored as it is
    std::uint64_t compressed_bytes = 0;  ///< that it takes in the archive; `size_bytes` where it is stored
    std::uint64_t size_bytes = 0;        ///< of the .npy file, header included
    std::uint32_t crc32 = 0;             ///< of the .npy file
    std::string unreadable;              ///< why it can't be read: it is encrypted, or compressed by another method; else empty
};

/// An .npz archive, open: its directory, and the whole of it as mapped memory. A shared handle, as MappedFile, of which arrays
/// that lie in the mapping hold one.
///
/// Opening reads the directory alone; members are looked at when they are asked for. Data in front of the archive and a comment
/// behind it are accepted, as are ZIP64 records. Thread safety: const members may be called from any thread; compressed members
/// are inflated by each caller for itself.
class Archive {
public:
    /// An empty handle: no members.
    Archive() = default;

    /// Throws io as `MappedFile::open`; bad_file with file, offset, needed and found where it is no ZIP file, is truncated, or
    /// has a directory that contradicts itself; unsupported for `read_write`, since what is written to a member would leave a
    /// wrong CRC-32 in the archive.
    static Archive open(const std::filesystem::path& path, const MapOptions& mapping = {});

    /// In the order of the directory. Of members with one file name there is the last alone, as in Python's zipfile.
    [[nodiscard]] const std::vector<Member>& members() const noexcept;

    /// The member with the file name `name`, or else with the file name `name` + ".npy", as NumPy looks it up. Throws
    /// out_of_range naming the members there are.
    [[nodiscard]] const Member& find(std::string_view name) const;
    [[nodiscard]] bool contains(std::string_view name) const noexcept;

    /// The .npy file that `find(name)` is. A stored one lies in the archive's mapping, and nothing but its header is read: its
    /// CRC-32 is not checked, since that would read all of it. A compressed one is inflated into memory: as many bytes as its
    /// header asks for are kept, and all of them are checked against size and CRC-32.
    ///
    /// Throws as `find`; bad_file where it is no .npy file, and as `npy::File::open` (offsets then count from the member's
    /// start); bad_file where directory, member and archive contradict each other (headers that differ, bytes that belong to two
    /// members or lie behind the archive's end, a size or CRC-32 that is not the data's); unsupported for what
    /// `Member::unreadable` tells; out_of_memory with the sizes, before anything is inflated where the machine has less memory
    /// than the member needs;
    /// cancelled where `stop` ends the inflating.
    [[nodiscard]] npy::File member(std::string_view name, bool strict = false, const std::stop_token& stop = {}) const;

    /// Its header alone: of a compressed member no more than that is inflated. Throws as `member`, but that it sees of the data
    /// only whether it can all be there.
    [[nodiscard]] npy::Header read_header(std::string_view name) const;

    [[nodiscard]] const MappedFile& mapping() const noexcept;

private:
    struct State;
    explicit Archive(std::shared_ptr<const State> state) : state_(std::move(state)) {}
    std::shared_ptr<const State> state_;
};

/// The array that the member `name` of the archive at `path` holds, as `npy::load` gives it. Throws as `Archive::open`,
/// `Archive::member` and `npy::load`.
Array load(const Device& device, const std::filesystem::path& path, std::string_view name, const LoadOptions& options = {});

/// The same array as `npy::map` gives it: in the archive itself, in place where the device can; where the member is compressed, a
/// copy in memory. `access` is `read` or `copy_on_write`. Throws as `Archive::open`, `Archive::member` and `npy::map`.
Array map(const Device& device, const std::filesystem::path& path, std::string_view name, FileAccess access = FileAccess::read,
          const AdoptOptions& options = {}, std::optional<DType> as = {});

/// An array to write, and its name in the archive without ".npy".
struct Entry {
    std::string name;
    Array array;
};

/// Writes the arrays to a new archive at `path`, in their order, which NumPy and others read: `save("x.npz", {{"a", a}, {"b",
/// b}})`. The data of stored members starts at multiples of 64 in the archive, so that `map` finds it in place; `compressed`
/// members are deflated by zlib's default level. Waits for the arrays' pending work. The archive appears complete or not at all,
/// and replaces an earlier one as a whole. Throws invalid_argument for two equal names and for names that a ZIP file can't have
/// (NUL bytes, over 65531 bytes); io; cancelled; nothing is left behind. Progress counts the arrays' bytes.
void save(const std::filesystem::path& path, const std::vector<Entry>& entries, bool compressed = false,
          const TransferOptions& transfer = {});
/// The same, after everything that `queue` holds.
void save(Queue& queue, const std::vector<Entry>& entries, const std::filesystem::path& path, bool compressed = false,
          const TransferOptions& transfer = {});

}  // namespace tandem::npz
