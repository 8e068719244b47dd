#pragma once
// Mappings as the system's own tables have them, and checks on what came of requests.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <tandem/mapped_file.hpp>

#include "scratch_folder.hpp"

namespace tandem::test {

inline const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
inline constexpr int populate_read = 22;  ///< MADV_POPULATE_READ
inline constexpr std::size_t megabyte = std::size_t{1} << 20U;
inline constexpr auto every_access = {FileAccess::read, FileAccess::copy_on_write, FileAccess::read_write};

/// The disk's folder for temporary files, and tmpfs where there is one.
inline std::vector<std::filesystem::path> places() {
    std::vector<std::filesystem::path> found = {std::filesystem::temp_directory_path()};
    if (std::filesystem::is_directory("/dev/shm") && ::access("/dev/shm", W_OK) == 0) {
        found.emplace_back("/dev/shm");
    } else {
        MESSAGE("no /dev/shm to write to: tmpfs is not tested");
    }
    return found;
}

inline std::filesystem::path sparse_file(const ScratchFolder& folder, std::uint64_t size_bytes) {
    std::filesystem::path path = folder.write("sparse", "");
    std::filesystem::resize_file(path, size_bytes);
    return path;
}

/// The lines "KEY: VALUE" on the mapping that holds `address`, in /proc/self/smaps.
inline std::map<std::string, std::string> smaps_of(const void* address) {
    const auto wanted = reinterpret_cast<std::uintptr_t>(address);
    std::map<std::string, std::string> facts;
    bool inside = false;
    std::ifstream smaps("/proc/self/smaps");
    for (std::string line; std::getline(smaps, line);) {
        std::istringstream words(line);
        std::string first;
        words >> first;
        if (first.ends_with(":")) {
            if (inside) {
                std::string value;
                std::getline(words >> std::ws, value);
                facts[first.substr(0, first.size() - 1)] = value;
            }
            continue;
        }
        const std::size_t dash = first.find('-');
        inside = wanted >= std::stoull(first.substr(0, dash), nullptr, 16) &&
                 wanted < std::stoull(first.substr(dash + 1), nullptr, 16);
    }
    return facts;
}

inline std::uint64_t smaps_bytes(const void* address, const std::string& key) {
    const auto facts = smaps_of(address);
    const auto fact = facts.find(key);
    return fact == facts.end() ? 0 : std::stoull(fact->second) * 1024;
}

/// Two letters, as "sr" for what is read in sequence.
inline bool has_flag(const void* address, const std::string& flag) {
    return (" " + smaps_of(address)["VmFlags"] + " ").find(" " + flag + " ") != std::string::npos;
}

inline std::uint64_t locked_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind("VmLck:", 0) == 0) {
            return std::stoull(line.substr(6)) * 1024;
        }
    }
    return 0;
}

/// Whether the system grants `call` on a mapping of its own of this file.
template <class Call>
bool system_does(const std::filesystem::path& path, Call call) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    REQUIRE(::fstat(descriptor, &status) == 0);
    const auto size = static_cast<std::size_t>(status.st_size);
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
    ::close(descriptor);
    REQUIRE(address != MAP_FAILED);
    const bool done = call(address, size) == 0;
    ::munmap(address, size);
    return done;
}

inline void check_reason(const Grant& grant) {
    CAPTURE(grant.reason);
    CHECK(grant.requested);
    CHECK(grant.reason.empty() == grant.granted);
    CHECK(grant.reason.find('\n') == std::string::npos);
}

inline void check_refused(const Grant& grant, const std::string& reason) {
    CHECK(grant.requested);
    CHECK_FALSE(grant.granted);
    CHECK(grant.reason == reason);
}

}  // namespace tandem::test
