#pragma once
// The page that a fence's processes share.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/posix_file.hpp"

namespace tandem {

/// What lies in the page. Anyone who has the fence may write to it at any time.
struct FenceBlock {
    std::atomic<std::uint64_t> value;      ///< what was signalled
    std::atomic<std::uint64_t> failed;     ///< the lowest value whose work failed, less one, inverted: 0 is none
    std::atomic<std::uint64_t> signaller;  ///< ProcessIdentity, packed
    std::atomic<std::uint32_t> changes;    ///< changes with each of the above: what is waited on

    /// Raises the counter and wakes who waits.
    void raise(std::uint64_t to) noexcept;
    /// Notes that the work before `value` failed.
    void fail(std::uint64_t value) noexcept;
    void wake() noexcept;
    [[nodiscard]] bool has_failed(std::uint64_t value) const noexcept;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

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
    FencePage(FencePage&& other) noexcept : file_(std::move(other.file_)), block_(std::exchange(other.block_, nullptr)) {}
    FencePage& operator=(FencePage&&) = delete;
    FencePage(const FencePage&) = delete;
    FencePage& operator=(const FencePage&) = delete;

    [[nodiscard]] FenceBlock& block() const noexcept { return *block_; }
    [[nodiscard]] int file_descriptor() const noexcept { return file_.number(); }

private:
    FileDescriptor file_;
    FenceBlock* block_ = nullptr;
};

}  // namespace tandem
