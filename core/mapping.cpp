#include "core/mapping.hpp"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "core/smaps.hpp"

namespace tandem {
namespace {

// Linux 5.14; a C library may be older than the kernel it runs on.
#if defined(MADV_POPULATE_READ)
constexpr int populate_read = MADV_POPULATE_READ;
#else
constexpr int populate_read = 22;
#endif

struct NativeAdvice {
    int number;
    const char* name;
};

NativeAdvice native(Advice advice) {
    switch (advice) {
        case Advice::sequential:
            return {MADV_SEQUENTIAL, "madvise(MADV_SEQUENTIAL)"};
        case Advice::random:
            return {MADV_RANDOM, "madvise(MADV_RANDOM)"};
        case Advice::will_need:
            return {MADV_WILLNEED, "madvise(MADV_WILLNEED)"};
        case Advice::normal:
            break;
    }
    return {MADV_NORMAL, "madvise(MADV_NORMAL)"};
}

Grant granted() {
    return {true, true, {}};
}

Grant refused(std::string reason) {
    return {true, false, std::move(reason)};
}

// "CALL of 4096 bytes at offset 8192: the system's words for ERROR_NUMBER", without an offset of 0.
std::string failure(std::string_view call, std::uint64_t size_bytes, int error_number, std::uint64_t offset_bytes = 0) {
    return fmt::format("{} of {} bytes{}: {}", call, size_bytes,
                       offset_bytes > 0 ? fmt::format(" at offset {}", offset_bytes) : "",
                       std::generic_category().message(error_number));
}

std::uint64_t round_down(std::uint64_t bytes, std::uint64_t unit) {
    return bytes / unit * unit;
}

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
    return round_down(bytes + unit - 1, unit);
}

// Not by the C library's functions: the sanitizers put others in the place of mlock and munlock, which do nothing.
int lock_pages(const void* data, std::size_t size_bytes) {
    return static_cast<int>(::syscall(SYS_mlock, data, size_bytes));
}

int lock_pages_on_fault(const void* data, std::size_t size_bytes) {
    return static_cast<int>(::syscall(SYS_mlock2, data, size_bytes, MLOCK_ONFAULT));
}

void unlock_pages(const void* data, std::size_t size_bytes) {
    ::syscall(SYS_munlock, data, size_bytes);
}

// Without pages, madvise says whether it knows an advice.
bool knows_populate_read() {
    return ::madvise(nullptr, 0, populate_read) == 0;
}

// The page size of the hugetlbfs that the file is on, or 0.
std::size_t hugetlbfs_page_bytes(int descriptor) {
    struct statfs filesystem {};
    const bool is_hugetlbfs =
        ::fstatfs(descriptor, &filesystem) == 0 && static_cast<std::uint32_t>(filesystem.f_type) == HUGETLBFS_MAGIC;
    return is_hugetlbfs ? static_cast<std::size_t>(filesystem.f_bsize) : 0;
}

// The size of the transparent huge pages that the page table has an entry for, or 0 where the system does not tell.
std::uint64_t transparent_huge_page_bytes() {
    std::uint64_t bytes = 0;
    std::ifstream("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size") >> bytes;
    return bytes;
}

// What of [data, data + size_bytes) lies in whole pages of `huge_page` bytes.
std::uint64_t whole_pages_bytes(const std::byte* data, std::uint64_t size_bytes, std::uint64_t huge_page) {
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    const std::uint64_t first = round_up(begin, huge_page);
    const std::uint64_t last = round_down(begin + size_bytes, huge_page);
    return last > first ? last - first : 0;
}

}  // namespace

Mapping::~Mapping() {
    if (data_ != nullptr) {
        ::munmap(data_, size_bytes_);
    }
}

int Mapping::map(std::size_t size_bytes, int protection, int flags, int descriptor) {
    void* address = ::mmap(nullptr, size_bytes, protection, flags, descriptor, 0);
    if (address == MAP_FAILED) {
        return errno;
    }
    data_ = static_cast<std::byte*>(address);
    size_bytes_ = size_bytes;
    return 0;
}

int Mapping::map_file(int descriptor, std::uint64_t size_bytes, const MapOptions& options) {
    huge_page_bytes_ = hugetlbfs_page_bytes(descriptor);
    // munmap takes whole huge pages alone.
    const std::uint64_t length = on_hugetlbfs() ? round_up(size_bytes, huge_page_bytes_) : size_bytes;
    if (options.access == FileAccess::copy_on_write) {
        // Without a reservation: most pages of a large file are never written. But a huge page that is not reserved and not to be
        // had when it is written is a SIGBUS.
        const int reservation = on_hugetlbfs() ? 0 : MAP_NORESERVE;
        return map(length, PROT_READ | PROT_WRITE, MAP_PRIVATE | reservation, descriptor);
    }
    const int protection = options.access == FileAccess::read ? PROT_READ : PROT_READ | PROT_WRITE;
    const int population = options.populate && !knows_populate_read() ? MAP_POPULATE : 0;
    return map(length, protection, MAP_SHARED | population, descriptor);
}

int Mapping::resize(std::size_t size_bytes) {
    if (data_ == nullptr) {
        return map(size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    }
    void* address = ::mremap(data_, size_bytes_, size_bytes, MREMAP_MAYMOVE);
    if (address == MAP_FAILED) {
        return errno;
    }
    data_ = static_cast<std::byte*>(address);
    size_bytes_ = size_bytes;
    return 0;
}

MapGrants Mapping::request(const MapOptions& options) const {
    MapGrants grants;
    // How pages are to be read comes before what reads them, and what has come of it is seen last.
    if (options.huge_pages) {
        grants.huge_pages = on_hugetlbfs() ? granted() : madvise_all(MADV_HUGEPAGE, "madvise(MADV_HUGEPAGE)");
    }
    if (options.advice != Advice::normal) {
        grants.advice = advise(options.advice, 0, size_bytes_);
    }
    if (options.populate) {
        grants.populate = populate(options.access);
    }
    if (options.lock) {
        grants.lock = lock(options.access);
    }
    if (grants.huge_pages.granted && !on_hugetlbfs()) {
        grants.huge_pages = huge_pages(grants.huge_pages);
    }
    return grants;
}

Grant Mapping::madvise_all(int advice, const char* name) const {
    if (::madvise(data_, size_bytes_, advice) != 0) {
        return refused(failure(name, size_bytes_, errno));
    }
    return granted();
}

Grant Mapping::populate(FileAccess access) const {
    if (knows_populate_read()) {
        return madvise_all(populate_read, "madvise(MADV_POPULATE_READ)");
    }
    if (access == FileAccess::copy_on_write) {
        return refused(failure("madvise(MADV_POPULATE_READ)", size_bytes_, EINVAL) + "; MAP_POPULATE would copy every page");
    }
    const auto facts = mapping_facts(data_, size_bytes_);
    if (!facts) {
        return refused(
            fmt::format("mmap(MAP_POPULATE) of {} bytes: /proc/self/smaps does not tell what came of it", size_bytes_));
    }
    if (facts->resident_bytes < size_bytes_) {
        return refused(fmt::format("mmap(MAP_POPULATE) of {} bytes: {} are resident", size_bytes_, facts->resident_bytes));
    }
    return granted();
}

Grant Mapping::lock(FileAccess access) const {
    const bool shared = access != FileAccess::copy_on_write;
    if ((shared ? lock_pages(data_, size_bytes_) : lock_pages_on_fault(data_, size_bytes_)) != 0) {
        const int error = errno;
        // A lock whose pages could not be read stays.
        unlock_pages(data_, size_bytes_);
        std::string reason = failure(shared ? "mlock" : "mlock2(MLOCK_ONFAULT)", size_bytes_, error);
        struct rlimit limit {};
        if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
            reason += fmt::format("; RLIMIT_MEMLOCK is {} bytes", limit.rlim_cur);
        }
        return refused(std::move(reason));
    }
    if (!shared) {
        Grant read = madvise_all(populate_read, "madvise(MADV_POPULATE_READ)");
        if (!read.granted) {
            unlock_pages(data_, size_bytes_);
            return read;
        }
    }
    return granted();
}

// What has come of the advice that the system has accepted.
Grant Mapping::huge_pages(Grant accepted) const {
    const auto facts = mapping_facts(data_, size_bytes_);
    const std::string request = fmt::format("madvise(MADV_HUGEPAGE) of {} bytes: accepted, but ", size_bytes_);
    if (!facts) {
        return refused(request + "/proc/self/smaps does not tell what came of it");
    }
    if (facts->huge_eligible) {
        return accepted;
    }
    // A filesystem with large folios maps by huge pages what it has read in them, whatever is said of eligibility.
    const std::uint64_t huge_page = transparent_huge_page_bytes();
    const std::uint64_t possible = huge_page > 0 ? whole_pages_bytes(data_, size_bytes_, huge_page) : 0;
    if (possible > 0 && facts->huge_bytes >= possible) {
        return accepted;
    }
    if (huge_page > 0 && possible == 0) {
        return refused(request + fmt::format("no whole huge page of {} bytes lies in the mapping", huge_page));
    }
    return refused(request + fmt::format("the kernel calls the mapping not eligible (THPeligible in /proc/self/smaps), and {} "
                                         "bytes are mapped by huge pages",
                                         facts->huge_bytes));
}

Grant Mapping::advise(Advice advice, std::uint64_t begin_bytes, std::uint64_t end_bytes) const {
    const NativeAdvice call = native(advice);
    const std::uint64_t begin = round_down(begin_bytes, granularity());
    const std::uint64_t end = round_up(end_bytes, granularity());
    if (::madvise(data_ + begin, end - begin, call.number) != 0) {
        return refused(failure(call.name, end - begin, errno, begin));
    }
    return granted();
}

Grant Mapping::drop(std::uint64_t begin_bytes, std::uint64_t end_bytes, std::uint64_t file_bytes) const {
    const std::uint64_t begin = round_up(begin_bytes, granularity());
    const std::uint64_t end = end_bytes == file_bytes ? round_up(end_bytes, granularity()) : round_down(end_bytes, granularity());
    if (begin >= end) {
        return refused(fmt::format("no whole page of {} bytes lies in the range", granularity()));
    }
    if (::madvise(data_ + begin, end - begin, MADV_DONTNEED) != 0) {
        return refused(failure("madvise(MADV_DONTNEED)", end - begin, errno, begin));
    }
    return granted();
}

void map_ahead(const std::byte* begin, std::size_t size_bytes) noexcept {
    ::madvise(const_cast<std::byte*>(begin), size_bytes, populate_read);
}

}  // namespace tandem
