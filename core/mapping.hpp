#pragma once
// The owner of a mapping, and what it asks of the system.

#include <cstddef>
#include <cstdint>
#include <utility>

#include <tandem/mapped_file.hpp>

#include "core/host_block.hpp"

namespace tandem {

/// A mapping, of a file or of anonymous memory; unmaps itself. Anonymous memory serves for what is read: it grows without being
/// copied, its pages are taken as they are written, and it starts at a page as a file's mapping does.
class Mapping {
public:
    Mapping() = default;
    ~Mapping();
    Mapping(Mapping&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)),
          size_bytes_(std::exchange(other.size_bytes_, 0)),
          huge_page_bytes_(std::exchange(other.huge_page_bytes_, 0)) {}
    Mapping& operator=(Mapping&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_bytes_, other.size_bytes_);
        std::swap(huge_page_bytes_, other.huge_page_bytes_);
        return *this;
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    /// Maps the first `size_bytes` of a file, of which there is at least one. 0 or an errno. Of the options it heeds what has to
    /// be said now; `request` is for the rest.
    int map_file(int descriptor, std::uint64_t size_bytes, const MapOptions& options);

    /// Makes this anonymous memory of `size_bytes`, with the content it had. 0 or an errno.
    int resize(std::size_t size_bytes);

    /// Asks for what `options` name, for the whole of a file's mapping. Does not throw for what is refused.
    [[nodiscard]] MapGrants request(const MapOptions& options) const;

    /// For [begin_bytes, end_bytes), which holds a byte at least and does not end behind the file; rounded outward.
    [[nodiscard]] Grant advise(Advice advice, std::uint64_t begin_bytes, std::uint64_t end_bytes) const;

    /// Gives back what whole pages there are in [begin_bytes, end_bytes); the range ends at `file_bytes` at most, and there it
    /// counts the last page as whole. The mapping is shared with the file.
    [[nodiscard]] Grant drop(std::uint64_t begin_bytes, std::uint64_t end_bytes, std::uint64_t file_bytes) const;

    [[nodiscard]] std::byte* data() const noexcept { return data_; }
    /// A multiple of the page size on hugetlbfs; elsewhere as it was asked for.
    [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }

private:
    [[nodiscard]] bool on_hugetlbfs() const noexcept { return huge_page_bytes_ > 0; }
    [[nodiscard]] std::uint64_t granularity() const { return on_hugetlbfs() ? huge_page_bytes_ : page_bytes(); }
    [[nodiscard]] int map(std::size_t size_bytes, int protection, int flags, int descriptor);
    [[nodiscard]] Grant madvise_all(int advice, const char* name) const;
    [[nodiscard]] Grant populate(FileAccess access) const;
    [[nodiscard]] Grant lock(FileAccess access) const;
    [[nodiscard]] Grant huge_pages(Grant accepted) const;

    std::byte* data_ = nullptr;
    std::size_t size_bytes_ = 0;
    std::size_t huge_page_bytes_ = 0;  // of the hugetlbfs that the file is on; 0 on other filesystems
};

/// Has pages of a file's mapping mapped ahead of those who read them, where the system can: a hint. `begin` is at a page's
/// beginning.
void map_ahead(const std::byte* begin, std::size_t size_bytes) noexcept;

}  // namespace tandem
