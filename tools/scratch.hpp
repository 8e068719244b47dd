#pragma once
// Files for the time being.

#include <cstdint>
#include <filesystem>
#include <string>

namespace tandem::command {

/// A new folder, which goes with all that is in it. An interrupt waits for that where a `WritingGuard` lives.
class ScratchFolder {
public:
    /// Makes it in `parent`. Throws io.
    explicit ScratchFolder(const std::filesystem::path& parent);
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

private:
    std::filesystem::path path_;
};

/// Bytes that may be written in `folder`. Throws io.
std::uint64_t free_bytes(const std::filesystem::path& folder);

/// A .npy file of float32, of which the one at `i` is `value_at(i)`; and what of it is in the page cache.
class ScratchFile {
public:
    /// Writes it to the storage. Throws io, and what `check_interrupt` throws.
    ScratchFile(const std::filesystem::path& path, std::int64_t count);

    /// Small integers: sums and doubles of them are exact.
    static float value_at(std::int64_t index) noexcept { return static_cast<float>(index % 4093); }

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    [[nodiscard]] std::int64_t count() const noexcept { return count_; }
    [[nodiscard]] std::uint64_t size_bytes() const noexcept { return static_cast<std::uint64_t>(count_) * 4; }
    [[nodiscard]] std::uint64_t offset_bytes() const noexcept { return offset_bytes_; }  ///< of the elements

    /// Has all of it in the page cache; else the reason: "not warm: N of M bytes cached".
    [[nodiscard]] std::string make_warm() const;
    /// Has nothing of it in the page cache; else the reason: "not cold: N bytes cached". Native calls: posix_fadvise.
    [[nodiscard]] std::string make_cold() const;

private:
    std::filesystem::path path_;
    std::int64_t count_;
    std::uint64_t offset_bytes_;
};

}  // namespace tandem::command
