#include "core/host_block.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <utility>

#include "core/thread_pool.hpp"

namespace tandem {
namespace {

constexpr std::size_t huge_page_bytes = std::size_t{2} << 20U;

std::size_t round_up(std::size_t size_bytes, std::size_t unit) noexcept {
    return (size_bytes + unit - 1) / unit * unit;
}

}  // namespace

std::size_t page_bytes() noexcept {
    static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return size;
}

std::uint64_t available_host_bytes() noexcept {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/meminfo", "re"), &std::fclose);
    char line[256];
    while (file != nullptr && std::fgets(line, sizeof line, file.get()) != nullptr) {
        std::uint64_t kib = 0;
        if (std::sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1) return kib << 10U;
    }
    return 0;
}

HostBlock::HostBlock(std::size_t size_bytes) noexcept {
    // A mapping starts at any page; with one huge page more than asked for, a huge page's boundary lies in it.
    const std::size_t alignment = size_bytes >= huge_page_bytes ? huge_page_bytes : page_bytes();
    if (size_bytes > SIZE_MAX / 2) return;
    const std::size_t rounded = round_up(size_bytes, page_bytes());
    const std::size_t mapped = rounded + alignment - page_bytes();
    void* mapping = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) return;
    const auto start = reinterpret_cast<std::uintptr_t>(mapping);
    data_ = static_cast<std::byte*>(mapping) + (round_up(start, alignment) - start);
    size_bytes_ = rounded;
    mapping_ = mapping;
    mapping_bytes_ = mapped;
    // A system without huge pages refuses, and nothing is lost.
    if (alignment == huge_page_bytes) ::madvise(data_, size_bytes_, MADV_HUGEPAGE);
}

HostBlock::~HostBlock() {
    if (mapping_ != nullptr) ::munmap(mapping_, mapping_bytes_);
}

HostBlock::HostBlock(HostBlock&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(std::exchange(other.mapping_bytes_, 0)) {}

HostBlock& HostBlock::operator=(HostBlock&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(mapping_, other.mapping_);
    std::swap(mapping_bytes_, other.mapping_bytes_);
    return *this;
}

void HostBlock::touch() noexcept {
    constexpr std::size_t part_bytes = std::size_t{16} << 20U;  // a few huge pages a turn
    const auto parts = static_cast<std::int64_t>(round_up(size_bytes_, part_bytes) / part_bytes);
    ThreadPool::instance().parallel(parts, [&](std::int64_t part) {
        const std::size_t begin = static_cast<std::size_t>(part) * part_bytes;
        const std::size_t end = std::min(begin + part_bytes, size_bytes_);
        for (std::size_t at = begin; at < end; at += page_bytes())
            data_[at] = std::byte{0};
    });
}

}  // namespace tandem
