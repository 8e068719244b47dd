#pragma once
// Small results that are costly to compute, kept on disk between runs: compiled kernels.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tandem {

/// Whether a compiler that is given `source`, C or C++ text or a line of options, may read other files too: by a directive
/// however it is written, or by an option. What comes of it depends on more than the text, and is not to be kept by it. May err
/// towards true.
[[nodiscard]] bool reads_files(std::string_view source) noexcept;

/// A folder of entries, each one file that tells its key and is checked to the last bit before it is believed. Everything here is
/// best effort: what can't be read is a miss, what can't be written is not kept, and nothing throws. Threads and processes may
/// share a folder.
class DiskCache {
public:
    /// Keeps at most about `limit_bytes`, by dropping what was not used for longest. An empty `directory` means no cache; one
    /// that is missing is made with the first entry, for this user alone.
    explicit DiskCache(std::filesystem::path directory, std::uint64_t limit_bytes = std::uint64_t{256} << 20U);

    /// False for a cache that keeps nothing: where making an entry is costly in itself, ask first.
    [[nodiscard]] bool is_enabled() const noexcept { return !directory_.empty(); }

    /// What was stored under exactly `key`, or empty.
    [[nodiscard]] std::optional<std::vector<std::byte>> load(std::string_view key) const noexcept;

    /// Keeps `bytes` under `key`, in place of what was there. Readers see the old entry or the new one, never a part.
    void store(std::string_view key, std::span<const std::byte> bytes) const noexcept;

private:
    [[nodiscard]] std::filesystem::path entry_path(std::string_view key) const;
    void evict() const;

    std::filesystem::path directory_;
    std::uint64_t limit_bytes_;
};

}  // namespace tandem
