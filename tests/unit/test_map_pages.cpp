// Huge and locked pages of a mapping, against what the system's own tables say of it.
#include <doctest/doctest.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <tandem/mapped_file.hpp>

#include "child.hpp"
#include "mapping_checks.hpp"
#include "scratch_folder.hpp"

using tandem::Advice;
using tandem::FileAccess;
using tandem::Grant;
using tandem::MappedFile;
using tandem::test::as_text;
using tandem::test::check_reason;
using tandem::test::check_refused;
using tandem::test::every_access;
using tandem::test::has_capability;
using tandem::test::has_flag;
using tandem::test::in_child;
using tandem::test::locked_bytes;
using tandem::test::mappings_of;
using tandem::test::megabyte;
using tandem::test::page;
using tandem::test::places;
using tandem::test::populate_read;
using tandem::test::refuse_call;
using tandem::test::ScratchFolder;
using tandem::test::smaps_bytes;
using tandem::test::smaps_of;
using tandem::test::sparse_file;
using tandem::test::system_does;
namespace fs = std::filesystem;

TEST_CASE("map options: huge pages are granted where the kernel's table says so") {
    std::uint64_t huge_page = 0;
    std::ifstream("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size") >> huge_page;
    for (const fs::path& place : places()) {
        for (const bool populate : {false, true}) {
            for (const std::uint64_t size : {page, 32 * megabyte}) {
                CAPTURE(place);
                CAPTURE(populate);
                CAPTURE(size);
                const ScratchFolder folder(place);
                const fs::path path = sparse_file(folder, size);
                const MappedFile file = MappedFile::open(path, {.populate = populate, .huge_pages = true});
                const Grant& grant = file.grants().huge_pages;
                CAPTURE(grant.reason);
                check_reason(grant);
                const std::byte* data = file.bytes().data();
                const std::uint64_t mapped_huge = smaps_bytes(data, "FilePmdMapped") + smaps_bytes(data, "ShmemPmdMapped");
                const bool eligible = smaps_of(data)["THPeligible"] == "1";
                if (grant.granted) {
                    CHECK((eligible || (huge_page > 0 && mapped_huge + 2 * huge_page > size)));
                    CHECK(has_flag(data, "hg"));
                } else {
                    CHECK_FALSE(eligible);
                    CHECK(mapped_huge < size);
                    CHECK(grant.reason.find("madvise(MADV_HUGEPAGE) of " + std::to_string(size) + " bytes: ") == 0);
                }
            }
        }
    }
}

TEST_CASE("map options: a system without MADV_HUGEPAGE") {
    const ScratchFolder folder;
    const fs::path path = sparse_file(folder, megabyte);
    const std::string result = in_child([&]() -> std::string {
        if (!refuse_call(SYS_madvise, 2, MADV_HUGEPAGE, EINVAL)) {
            return "no seccomp";
        }
        return MappedFile::open(path, {.huge_pages = true}).grants().huge_pages.reason;
    });
    if (result == "no seccomp") {
        MESSAGE("seccomp is refused: a system without MADV_HUGEPAGE is not tested");
        return;
    }
    CHECK(result == "madvise(MADV_HUGEPAGE) of 1048576 bytes: Invalid argument");
}

TEST_CASE("map options: lock, to the end of the mapping") {
    for (const fs::path& place : places()) {
        for (const FileAccess access : every_access) {
            CAPTURE(place);
            CAPTURE(static_cast<int>(access));
            const ScratchFolder folder(place);
            const fs::path path = sparse_file(folder, 16 * page);
            const bool possible =
                system_does(path, [](void* data, std::size_t size) { return ::syscall(SYS_mlock, data, size); });
            const std::uint64_t before = locked_bytes();
            {
                MappedFile first = MappedFile::open(path, {.access = access, .lock = true});
                const Grant& grant = first.grants().lock;
                check_reason(grant);
                if (access != FileAccess::copy_on_write || ::madvise(nullptr, 0, populate_read) == 0) {
                    CHECK(grant.granted == possible);
                }
                const MappedFile second = first;
                first = MappedFile();
                const std::byte* data = second.bytes().data();
                const bool granted = second.grants().lock.granted;
                CHECK(has_flag(data, "lo") == granted);
                CHECK(locked_bytes() == before + (granted ? 16 * page : 0));
                if (granted) {
                    CHECK(smaps_bytes(data, "Rss") == 16 * page);
                    CHECK(smaps_bytes(data, "Anonymous") == 0);
                    if (access != FileAccess::copy_on_write) {
                        const Grant dropped = second.drop(0, 16 * page);
                        CHECK(dropped.reason == "madvise(MADV_DONTNEED) of " + std::to_string(16 * page) +
                                                    " bytes: Invalid argument; the mapping is locked");
                    }
                }
            }
            CHECK(locked_bytes() == before);
        }
    }
}

TEST_CASE("map options: lock beyond the limit") {
    for (const FileAccess access : every_access) {
        const ScratchFolder folder;
        REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
        const fs::path path = sparse_file(folder, 8 * megabyte);
        REQUIRE(::chmod(path.c_str(), 0666) == 0);
        const std::string result = in_child([&]() -> std::string {
            const struct rlimit limit { 65536, 65536 };
            if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
                return std::string("skipped: setrlimit: ") + std::strerror(errno);
            }
            // Root's right to lock what it likes goes with its name.
            if (::geteuid() == 0 && ::setuid(65534) != 0) {
                return std::string("skipped: setuid: ") + std::strerror(errno);
            }
            if (has_capability(CAP_IPC_LOCK)) {
                return "skipped: CAP_IPC_LOCK can't be given up";
            }
            const MappedFile file = MappedFile::open(path, {.access = access, .lock = true});
            const Grant& grant = file.grants().lock;
            return std::to_string(grant.granted) + " " + std::to_string(locked_bytes()) + " " + grant.reason;
        });
        if (result.rfind("skipped", 0) == 0) {
            MESSAGE("lock beyond the limit: " << result);
            continue;
        }
        const std::string call = access == FileAccess::copy_on_write ? "mlock2(MLOCK_ONFAULT)" : "mlock";
        CHECK(result == "0 0 " + call + " of 8388608 bytes: Cannot allocate memory; RLIMIT_MEMLOCK is 65536 bytes");
    }
}

TEST_CASE("map options: a lock whose pages can't be read is taken back") {
    const ScratchFolder folder;
    const fs::path path = sparse_file(folder, 4 * page);
    const std::string result = in_child([&]() -> std::string {
        if (!refuse_call(SYS_madvise, 2, populate_read, EFAULT)) {
            return "no seccomp";
        }
        const MappedFile file = MappedFile::open(path, {.access = FileAccess::copy_on_write, .lock = true});
        return std::to_string(has_flag(file.bytes().data(), "lo")) + " " + file.grants().lock.reason;
    });
    if (result == "no seccomp") {
        MESSAGE("seccomp is refused: a lock whose pages can't be read is not tested");
    } else if (system_does(path, [](void* data, std::size_t size) { return ::syscall(SYS_mlock, data, size); })) {
        CHECK(result == "0 madvise(MADV_POPULATE_READ) of " + std::to_string(4 * page) + " bytes: Bad address");
    }
}

TEST_CASE("map options: hugetlbfs") {
    // A mount to write to, of a page size of which there are free pages.
    fs::path place;
    std::uint64_t huge_page = 0;
    std::ifstream mounts("/proc/self/mounts");
    std::string why = "no hugetlbfs is mounted to write to";
    for (std::string device, where, type, rest; mounts >> device >> where >> type && std::getline(mounts, rest);) {
        if (type == "hugetlbfs" && ::access(where.c_str(), W_OK) == 0) {
            struct stat status {};
            REQUIRE(::stat(where.c_str(), &status) == 0);
            huge_page = static_cast<std::uint64_t>(status.st_blksize);
            std::uint64_t free_pages = 0;
            std::ifstream("/sys/kernel/mm/hugepages/hugepages-" + std::to_string(huge_page / 1024) + "kB/free_hugepages") >>
                free_pages;
            if (free_pages >= 4) {
                place = where;
                break;
            }
            why = where + " has " + std::to_string(free_pages) + " free pages of " + std::to_string(huge_page) + " bytes";
        }
    }
    if (place.empty()) {
        MESSAGE("hugetlbfs is not tested: " << why);
        return;
    }
    const ScratchFolder folder(place);
    const fs::path path = sparse_file(folder, 2 * huge_page);
    {
        const MappedFile file = MappedFile::open(path, {.access = FileAccess::read_write, .huge_pages = true});
        CHECK(file.grants().huge_pages.granted);
        CHECK(file.size_bytes() == 2 * huge_page);
        std::memcpy(file.writable_bytes().data() + huge_page, "huge", 4);
        CHECK(smaps_bytes(file.bytes().data(), "Shared_Hugetlb") + smaps_bytes(file.bytes().data(), "Private_Hugetlb") ==
              huge_page);
        check_refused(file.drop(1, huge_page), "no whole page of " + std::to_string(huge_page) + " bytes lies in the range");
        check_reason(file.drop(0, 2 * huge_page));
    }
    CHECK(mappings_of(path) == 0);
    {
        const MappedFile file = MappedFile::open(path, {.populate = true, .huge_pages = true, .lock = true});
        CHECK(as_text(file.bytes().subspan(huge_page, 4)) == "huge");
        check_reason(file.grants().populate);
        CHECK(file.grants().populate.granted ==
              (smaps_bytes(file.bytes().data(), "Shared_Hugetlb") + smaps_bytes(file.bytes().data(), "Private_Hugetlb") ==
               2 * huge_page));
        CHECK(file.grants().huge_pages.granted);
        check_reason(file.grants().lock);
        CHECK(file.cached_bytes(0, 2 * huge_page) == 2 * huge_page);
        CHECK(file.advise(Advice::random, huge_page + 1, 1).granted);
    }
    CHECK(mappings_of(path) == 0);
    {
        const MappedFile own = MappedFile::open(path, {.access = FileAccess::copy_on_write, .huge_pages = true});
        own.writable_bytes()[huge_page] = std::byte{'H'};
        CHECK(as_text(own.bytes().subspan(huge_page, 4)) == "Huge");
        CHECK(own.grants().huge_pages.granted);
    }
    CHECK(as_text(MappedFile::open(path).bytes().subspan(huge_page, 4)) == "huge");
    CHECK(mappings_of(path) == 0);
}
