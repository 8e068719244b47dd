#include "core/disk_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tandem {
namespace {

namespace fs = std::filesystem;

// An entry is this header, the key, the payload, and the hash of all three. Written and read by one machine: its own byte order.
struct Header {
    std::array<char, 8> magic = {'t', 'a', 'n', 'd', 'e', 'm', 'c', 'e'};
    std::uint64_t version = 1;
    std::uint64_t key_bytes = 0;
    std::uint64_t payload_bytes = 0;

    friend bool operator==(const Header&, const Header&) = default;
};
using Hash = std::array<unsigned char, sizeof(XXH128_canonical_t)>;

constexpr const char* entry_suffix = ".entry";
constexpr const char* temporary_suffix = ".tmp";
// Nobody writes an entry for so long: its process has died.
constexpr auto abandoned_after = std::chrono::hours(1);

Hash hash_of(const void* bytes, std::size_t size) noexcept {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
    Hash hash;
    std::memcpy(hash.data(), canonical.digest, hash.size());
    return hash;
}

// Where the text goes on behind blanks, comments and lines that a backslash continues.
std::string_view behind_blanks(std::string_view text) noexcept {
    for (;;) {
        const std::string_view before = text;
        text.remove_prefix(std::min(text.find_first_not_of(" \t\v\f\r\\\n"), text.size()));
        if (text.starts_with("/*")) {
            const std::size_t end = text.find("*/", 2);
            text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
        }
        if (text.size() == before.size()) return text;
    }
}

class File {
public:
    explicit File(int descriptor) noexcept : descriptor_(descriptor) {}
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File() { close(); }

    [[nodiscard]] bool is_open() const noexcept { return descriptor_ >= 0; }
    [[nodiscard]] int get() const noexcept { return descriptor_; }
    bool close() noexcept { return descriptor_ < 0 || ::close(std::exchange(descriptor_, -1)) == 0; }

private:
    int descriptor_;
};

// Calls `transfer(done)` until it has moved `size` bytes; false at an error or an early end.
template <class Transfer>
bool transfer_all(std::size_t size, Transfer transfer) {
    for (std::size_t done = 0; done < size;) {
        const ssize_t moved = transfer(done);
        if (moved < 0 && errno == EINTR) continue;
        if (moved <= 0) return false;
        done += static_cast<std::size_t>(moved);
    }
    return true;
}

// Like create_directories, but what it makes is for this user alone; failures show when a file is made there.
void make_directories(const fs::path& directory) {
    fs::path made;
    for (const fs::path& part : directory) {
        made /= part;
        ::mkdir(made.c_str(), 0700);
    }
}

}  // namespace

bool reads_files(std::string_view source) noexcept {
    for (const std::string_view word : {"__has_include", "__has_embed", "-include"}) {
        if (source.find(word) != std::string_view::npos) return true;
    }
    for (const std::string_view mark : {"#", "%:"}) {  // two ways to write the one
        for (std::size_t at = source.find(mark); at != std::string_view::npos; at = source.find(mark, at + 1)) {
            const std::string_view directive = behind_blanks(source.substr(at + mark.size()));
            // One that a backslash cuts in two is taken for the worst.
            const std::size_t end = std::min(directive.find_first_not_of("abcdefghijklmnopqrstuvwxyz"), directive.size());
            const bool is_cut = end < directive.size() && directive[end] == '\\';
            for (const std::string_view name : {"include", "import", "embed"}) {
                if (directive.starts_with(name) || (is_cut && name.starts_with(directive.substr(0, end)))) return true;
            }
        }
    }
    return false;
}

DiskCache::DiskCache(fs::path directory, std::uint64_t limit_bytes)
    : directory_(std::move(directory)), limit_bytes_(limit_bytes) {}

fs::path DiskCache::entry_path(std::string_view key) const {
    std::string name;
    for (const unsigned char byte : hash_of(key.data(), key.size()))
        name += fmt::format("{:02x}", byte);
    return directory_ / (name + entry_suffix);
}

std::optional<std::vector<std::byte>> DiskCache::load(std::string_view key) const noexcept try {
    if (directory_.empty()) return std::nullopt;
    const File file(::open(entry_path(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat status {};
    // Compiled code is believed from this user alone.
    if (!file.is_open() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::geteuid())
        return std::nullopt;
    const auto size = static_cast<std::uint64_t>(status.st_size);
    const std::size_t around = sizeof(Header) + key.size() + sizeof(Hash);
    if (size < around || size > limit_bytes_) return std::nullopt;

    std::vector<std::byte> content(size);
    if (!transfer_all(size, [&](std::size_t done) { return ::read(file.get(), content.data() + done, size - done); }))
        return std::nullopt;
    Header header;
    std::memcpy(&header, content.data(), sizeof header);
    Header expected;
    expected.key_bytes = key.size();
    expected.payload_bytes = size - around;
    const Hash hash = hash_of(content.data(), size - sizeof(Hash));
    if (header != expected || std::memcmp(content.data() + sizeof header, key.data(), key.size()) != 0 ||
        std::memcmp(content.data() + size - sizeof hash, hash.data(), sizeof hash) != 0) {
        return std::nullopt;
    }
    ::futimens(file.get(), nullptr);  // what was used last is dropped last
    const auto payload = content.begin() + static_cast<std::ptrdiff_t>(sizeof header + key.size());
    return std::vector<std::byte>(payload, payload + static_cast<std::ptrdiff_t>(expected.payload_bytes));
} catch (...) {
    return std::nullopt;
}

void DiskCache::store(std::string_view key, std::span<const std::byte> bytes) const noexcept try {
    Header header;
    header.key_bytes = key.size();
    header.payload_bytes = bytes.size();
    const std::size_t size = sizeof header + key.size() + bytes.size() + sizeof(Hash);
    if (directory_.empty() || size > limit_bytes_) return;
    std::vector<std::byte> content(size);
    std::byte* end = content.data();
    const auto append = [&](const void* from, std::size_t count) {
        if (count != 0) std::memcpy(end, from, count);
        end += count;
    };
    append(&header, sizeof header);
    append(key.data(), key.size());
    append(bytes.data(), bytes.size());
    const Hash hash = hash_of(content.data(), size - sizeof(Hash));
    append(hash.data(), hash.size());

    make_directories(directory_);
    std::string temporary = (directory_ / "XXXXXX").string() + temporary_suffix;
    File file(::mkostemps(temporary.data(), static_cast<int>(std::strlen(temporary_suffix)), O_CLOEXEC));
    if (!file.is_open()) return;
    const bool written =
        transfer_all(size, [&](std::size_t done) { return ::write(file.get(), content.data() + done, size - done); });
    // No fsync: after a crash a torn entry fails its hash.
    if (!written || !file.close() || ::rename(temporary.c_str(), entry_path(key).c_str()) != 0) {
        ::unlink(temporary.c_str());
        return;
    }
    evict();
} catch (...) {  // NOLINT(bugprone-empty-catch): an entry that can't be kept is computed again
}

void DiskCache::evict() const {
    struct Entry {
        fs::path path;
        fs::file_time_type used;
        std::uint64_t bytes;
    };
    std::vector<Entry> entries;
    std::uint64_t total = 0;
    std::error_code error;
    for (fs::directory_iterator it(directory_, error), end; !error && it != end; it.increment(error)) {
        std::error_code gone;  // another process may be dropping entries too
        const fs::path& path = it->path();
        const auto used = it->last_write_time(gone);
        const std::uint64_t bytes = gone ? 0 : it->file_size(gone);
        if (gone) continue;
        if (path.extension() == temporary_suffix) {
            if (fs::file_time_type::clock::now() - used > abandoned_after) fs::remove(path, gone);
        } else if (path.extension() == entry_suffix) {
            entries.push_back({path, used, bytes});
            total += bytes;
        }
    }
    if (total <= limit_bytes_) return;
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
    for (const Entry& entry : entries) {
        if (total <= limit_bytes_) break;
        std::error_code gone;
        fs::remove(entry.path, gone);
        total -= entry.bytes;
    }
}

}  // namespace tandem
