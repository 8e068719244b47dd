#pragma once
// The page that a fence's processes share.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/share/own_descriptor.hpp"

namespace tandem {

/// What lies in the page. Anyone who has the fence may write to it at any time.
struct FenceBlock {
    std::atomic<std::uint64_t> value;      ///< what was signalled
    std::atomic<std::uint64_t> failed;     ///< the lowest value whose work failed, less one, inverted: 0 is none
    std::atomic<std::uint64_t> signaller;  ///< ProcessIdentity, packed; and perhaps `unwatched`
    std::atomic<std::uint32_t> changes;    ///< changes with each of the above: what is waited on

    /// Raises the counter and wakes who waits.
    void raise(std::uint64_t to) noexcept;
    /// Notes that the work before `at` failed.
    void fail(std::uint64_t at) noexcept;
    void wake() noexcept;
    [[nodiscard]] bool has_failed(std::uint64_t at) const noexcept;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

/// Beside the signaller: it does not hold the page (`FencePage::hold`), and so may live though nobody does.
inline constexpr std::uint64_t unwatched = std::uint64_t{1} << 63U;

/// Bytes of the memfd.
inline constexpr std::size_t fence_bytes = 4096;

/// A mapped page, and the memfd that it is of.
class FencePage {
public:
    /// A new one. Throws io, out_of_memory.
    static FencePage make();
    /// What another process sent. Throws bad_file for anything but a sealed memfd of that size.
    explicit FencePage(FileDescriptor file);
    ~FencePage();
    FencePage(FencePage&& other) noexcept
        : file_(std::move(other.file_)), holder_(std::move(other.holder_)), block_(std::exchange(other.block_, nullptr)) {}
    FencePage& operator=(FencePage&&) = delete;
    FencePage(const FencePage&) = delete;
    FencePage& operator=(const FencePage&) = delete;

    [[nodiscard]] FenceBlock& block() const noexcept { return *block_; }
    [[nodiscard]] int file_descriptor() const noexcept { return file_.number(); }

    /// Holds the page as the signaller `word`, from here until this object or the process ends: what every process that has the
    /// page can see, whichever others it sees. False where the system does not let it. Native calls: open(/proc/self/fd),
    /// fcntl(F_OFD_SETLK) of a byte that only `word` has.
    bool hold(std::uint64_t word) noexcept;
    /// Whether anyone holds it so; true also where the system does not tell. Native call: fcntl(F_OFD_GETLK).
    [[nodiscard]] bool is_held(std::uint64_t word) const noexcept;

private:
    FileDescriptor file_;
    OwnDescriptor holder_;  // what others got with the memfd is one open file with it; locks are of another one
    FenceBlock* block_ = nullptr;
};

}  // namespace tandem
