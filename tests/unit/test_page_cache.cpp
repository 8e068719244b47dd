// The page cache's two ways to be counted, against mincore on a mapping of the test's own.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tandem/mapped_file.hpp>

#include "child.hpp"
#include "core/page_cache.hpp"
#include "core/posix_file.hpp"
#include "mapping_checks.hpp"
#include "scratch_folder.hpp"

using tandem::cached_by_cachestat;
using tandem::cached_by_mincore;
using tandem::FileDescriptor;
using tandem::MappedFile;
using tandem::test::in_child;
using tandem::test::page;
using tandem::test::places;
using tandem::test::refuse_call;
using tandem::test::ScratchFolder;
namespace fs = std::filesystem;

namespace {

constexpr long cachestat_number = 451;

// Content, a hole that is read in places, content that is dropped, and an end within a page.
fs::path patchy_file(const ScratchFolder& folder) {
    const fs::path path = folder.write("patchy", std::string(40 * page, 'x'));
    fs::resize_file(path, 300 * page + 123);
    const FileDescriptor file = tandem::open_file(path, O_RDWR);
    ::fsync(file.number());
    ::posix_fadvise(file.number(), static_cast<off_t>(8 * page), static_cast<off_t>(16 * page), POSIX_FADV_DONTNEED);
    ::posix_fadvise(file.number(), 0, 0, POSIX_FADV_RANDOM);
    char byte = 0;
    for (const std::size_t at : {50 * page, 51 * page + 7, 100 * page, 300 * page + 1}) {
        REQUIRE(::pread(file.number(), &byte, 1, static_cast<off_t>(at)) == 1);
    }
    REQUIRE(::pwrite(file.number(), "y", 1, static_cast<off_t>(200 * page + 5)) == 1);
    return path;
}

// By mincore, a page at a time.
std::vector<bool> resident_pages(const fs::path& path) {
    const FileDescriptor file = tandem::open_file(path, O_RDONLY);
    const std::size_t size = fs::file_size(path);
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number(), 0);
    REQUIRE(address != MAP_FAILED);
    std::vector<bool> resident;
    for (std::size_t at = 0; at < size; at += page) {
        unsigned char flags = 0;
        REQUIRE(::mincore(static_cast<std::byte*>(address) + at, 1, &flags) == 0);
        resident.push_back((flags & 1U) != 0);
    }
    ::munmap(address, size);
    return resident;
}

std::uint64_t expected_bytes(const std::vector<bool>& resident, std::uint64_t begin, std::uint64_t end) {
    std::uint64_t bytes = 0;
    for (std::uint64_t at = begin; at < end;) {
        const std::uint64_t next = std::min(end, (at / page + 1) * page);
        bytes += resident[at / page] ? next - at : 0;
        at = next;
    }
    return bytes;
}

// Asked again where it differs: a page that the system moves at the moment is not counted.
template <class Count>
std::uint64_t counted(std::uint64_t expected, Count count) {
    std::uint64_t found = count();
    for (int i = 0; i < 20 && found != expected; ++i)
        found = count();
    return found;
}

}  // namespace

TEST_CASE("page cache: both ways count the same bytes in any range") {
    for (const fs::path& place : places()) {
        CAPTURE(place);
        const ScratchFolder folder(place);
        const fs::path path = patchy_file(folder);
        const MappedFile file = MappedFile::open(path);
        const FileDescriptor descriptor = tandem::open_file(path, O_RDONLY);
        void* address = ::mmap(nullptr, file.size_bytes(), PROT_READ, MAP_SHARED, descriptor.number(), 0);
        REQUIRE(address != MAP_FAILED);
        const std::vector<bool> resident = resident_pages(path);
        CHECK(resident[0]);
        CHECK(resident[200]);
        bool by_cachestat = false;
        std::vector<std::uint64_t> edges;
        for (const std::size_t at : {0U, 7U, 8U, 23U, 24U, 39U, 40U, 50U, 51U, 52U, 100U, 199U, 200U, 201U, 299U, 300U}) {
            edges.insert(edges.end(), {at * page, at * page + 1, (at + 1) * page - 1});
        }
        edges.push_back(file.size_bytes());
        for (const std::uint64_t begin : edges) {
            for (const std::uint64_t end : edges) {
                if (begin >= end || end > file.size_bytes()) {
                    continue;
                }
                CAPTURE(begin);
                CAPTURE(end);
                const std::uint64_t expected = expected_bytes(resident, begin, end);
                CHECK(counted(expected, [&] { return cached_by_mincore(static_cast<std::byte*>(address), begin, end, path); }) ==
                      expected);
                CHECK(counted(expected, [&] { return file.cached_bytes(begin, end - begin); }) == expected);
                if (cached_by_cachestat(descriptor.number(), begin, end)) {
                    by_cachestat = true;
                    CHECK(counted(expected, [&] { return *cached_by_cachestat(descriptor.number(), begin, end); }) == expected);
                }
            }
        }
        ::munmap(address, file.size_bytes());
        if (!by_cachestat) {
            MESSAGE("in " << place << " cachestat is not asked: mincore alone is tested there");
        }
    }
}

TEST_CASE("page cache: pages that fallocate took on tmpfs and nobody wrote") {
    if (!fs::is_directory("/dev/shm") || ::access("/dev/shm", W_OK) != 0) {
        MESSAGE("no /dev/shm to write to: tmpfs is not tested");
        return;
    }
    const ScratchFolder folder("/dev/shm");
    const fs::path path = folder.write("a.bin", std::string(page, 'x'));
    const FileDescriptor file = tandem::open_file(path, O_RDWR);
    REQUIRE(::fallocate(file.number(), 0, 0, static_cast<off_t>(8 * page)) == 0);
    const std::uint64_t expected = expected_bytes(resident_pages(path), 0, 8 * page);
    CHECK(MappedFile::open(path).cached_bytes(0, 8 * page) == expected);
}

TEST_CASE("page cache: a system without cachestat, or one that refuses it") {
    const ScratchFolder folder;
    const fs::path path = patchy_file(folder);
    const std::uint64_t expected = expected_bytes(resident_pages(path), 0, fs::file_size(path));
    for (const int error : {ENOSYS, EPERM}) {
        const std::string result = in_child([&]() -> std::string {
            const MappedFile file = MappedFile::open(path);
            // Whatever its flags; tandem gives none.
            if (!refuse_call(cachestat_number, 3, 0, static_cast<unsigned>(error))) {
                return "no seccomp";
            }
            const FileDescriptor descriptor = tandem::open_file(path, O_RDONLY);
            if (cached_by_cachestat(descriptor.number(), 0, file.size_bytes())) {
                return "cachestat was not refused";
            }
            return std::to_string(file.cached_bytes(0, file.size_bytes()));
        });
        if (result == "no seccomp") {
            MESSAGE("seccomp is refused: a system without cachestat is not tested");
            return;
        }
        CHECK(result == std::to_string(expected));
    }
}

TEST_CASE("page cache: a sparse TiB is counted at once where cachestat is asked") {
    const ScratchFolder folder;
    const fs::path path = folder.write("sparse", std::string(page, 'x'));
    std::error_code error;
    fs::resize_file(path, std::uintmax_t{1} << 40U, error);
    if (error) {
        MESSAGE("no sparse TiB in " << folder.path() << ": " << error.message());
        return;
    }
    const MappedFile file = MappedFile::open(path);
    if (!cached_by_cachestat(tandem::open_file(path, O_RDONLY).number(), 0, 1)) {
        MESSAGE("in " << folder.path() << " cachestat is not asked: a sparse TiB is not tested");
        return;
    }
    volatile std::byte touched = file.bytes()[file.size_bytes() / 2];
    static_cast<void>(touched);
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t cached = file.cached_bytes(0, file.size_bytes());
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::milliseconds(50));
    CHECK(cached >= 2 * page);
    CHECK(cached < std::uint64_t{1} << 30U);
    CHECK(file.cached_bytes(0, page) == page);
    CHECK(file.cached_bytes(file.size_bytes() / 2, 1) == 1);
}
