// A layer between a program and its files that fails on demand: preloaded, it stands in for the C library's reads and writes.
//
// FAULT_FILE names the file by a part of its path. FAULT says what happens to it:
//   unreadable:OFFSET   reading the 4096 bytes around that byte fails with EIO, as a bad block of a disk does
//   short               every read and write moves 4097 bytes at most
//   interrupted         every second read or write fails with EINTR
//   full:OFFSET         writing that byte fails with ENOSPC
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

enum class Fault { none, unreadable, short_count, interrupted, full };

struct Plan {
    std::string file;
    Fault fault = Fault::none;
    std::uint64_t offset_bytes = 0;
};

const Plan& plan() {
    static const Plan made = [] {
        Plan plan;
        const char* file = std::getenv("FAULT_FILE");
        const char* fault = std::getenv("FAULT");
        if (file == nullptr || fault == nullptr) return plan;
        plan.file = file;
        const std::string text = fault;
        const std::string name = text.substr(0, text.find(':'));
        plan.fault = name == "unreadable"    ? Fault::unreadable
                     : name == "short"       ? Fault::short_count
                     : name == "interrupted" ? Fault::interrupted
                     : name == "full"        ? Fault::full
                                             : Fault::none;
        if (text.size() > name.size()) plan.offset_bytes = std::strtoull(text.c_str() + name.size() + 1, nullptr, 10);
        return plan;
    }();
    return made;
}

bool is_meant(int descriptor) {
    if (plan().fault == Fault::none) return false;
    char path[4096];
    const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
    const ssize_t length = ::readlink(link.c_str(), path, sizeof path);
    return length > 0 && std::string(path, static_cast<std::size_t>(length)).find(plan().file) != std::string::npos;
}

// How many bytes are moved of `count` at `offset`; a negative number is the error, negated.
ssize_t allowed(int descriptor, std::size_t count, std::uint64_t offset, bool writes) {
    static std::atomic<unsigned> calls{0};
    if (count == 0 || !is_meant(descriptor)) return static_cast<ssize_t>(count);
    const Plan& what = plan();
    switch (what.fault) {
        case Fault::short_count:
            return static_cast<ssize_t>(std::min<std::size_t>(count, 4097));
        case Fault::interrupted:
            return calls++ % 2 == 0 ? -EINTR : static_cast<ssize_t>(count);
        case Fault::unreadable: {
            const std::uint64_t block = what.offset_bytes / 4096 * 4096;
            if (writes || offset + count <= block || offset >= block + 4096) break;
            return offset >= block ? -EIO : static_cast<ssize_t>(block - offset);
        }
        case Fault::full:
            if (!writes || offset + count <= what.offset_bytes) break;
            return offset >= what.offset_bytes ? -ENOSPC : static_cast<ssize_t>(what.offset_bytes - offset);
        case Fault::none:
            break;
    }
    return static_cast<ssize_t>(count);
}

template <class Function>
Function next(const char* name) {
    return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

std::uint64_t position(int descriptor) {
    const off_t at = ::lseek(descriptor, 0, SEEK_CUR);
    return at < 0 ? 0 : static_cast<std::uint64_t>(at);
}

template <class Call>
ssize_t with_fault(int descriptor, std::size_t count, std::uint64_t offset, bool writes, Call&& call) {
    const ssize_t may = allowed(descriptor, count, offset, writes);
    if (may >= 0) return call(static_cast<std::size_t>(may));
    errno = static_cast<int>(-may);
    return -1;
}

}  // namespace

extern "C" {

ssize_t read(int descriptor, void* bytes, std::size_t count) {
    static const auto real = next<ssize_t (*)(int, void*, std::size_t)>("read");
    return with_fault(descriptor, count, position(descriptor), false,
                      [&](std::size_t may) { return real(descriptor, bytes, may); });
}

ssize_t write(int descriptor, const void* bytes, std::size_t count) {
    static const auto real = next<ssize_t (*)(int, const void*, std::size_t)>("write");
    return with_fault(descriptor, count, position(descriptor), true,
                      [&](std::size_t may) { return real(descriptor, bytes, may); });
}

ssize_t pread(int descriptor, void* bytes, std::size_t count, off_t offset) {
    static const auto real = next<ssize_t (*)(int, void*, std::size_t, off_t)>("pread");
    return with_fault(descriptor, count, static_cast<std::uint64_t>(offset), false,
                      [&](std::size_t may) { return real(descriptor, bytes, may, offset); });
}

ssize_t pwrite(int descriptor, const void* bytes, std::size_t count, off_t offset) {
    static const auto real = next<ssize_t (*)(int, const void*, std::size_t, off_t)>("pwrite");
    return with_fault(descriptor, count, static_cast<std::uint64_t>(offset), true,
                      [&](std::size_t may) { return real(descriptor, bytes, may, offset); });
}

ssize_t pread64(int descriptor, void* bytes, std::size_t count, off_t offset) {
    return pread(descriptor, bytes, count, offset);
}

ssize_t pwrite64(int descriptor, const void* bytes, std::size_t count, off_t offset) {
    return pwrite(descriptor, bytes, count, offset);
}

}  // extern "C"
