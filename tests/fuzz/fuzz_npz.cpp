// Fuzzes the reader of archives: libFuzzer's entry, also driven by run_inputs.cpp.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <tandem/error.hpp>
#include <tandem/npz.hpp>

namespace npz = tandem::npz;

namespace {

void require(bool holds, const char* what) {
    if (!holds) {
        std::fprintf(stderr, "broken: %s\n", what);
        std::abort();
    }
}

void check_error(const tandem::Error& error) {
    const std::string message = error.what();
    require(error.code() == tandem::ErrorCode::bad_file || error.code() == tandem::ErrorCode::unsupported ||
                error.code() == tandem::ErrorCode::out_of_memory,
            "the code is that of a file's fault, or of its size");
    require(message.starts_with("/proc/self/fd/"), "the message starts with the file");
    require(message.size() < 4096, "the message is short");
    require(std::none_of(message.begin(), message.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }),
            "the message is printable");
}

// Members lie in the archive, and what one gives is as long as its header says.
void check_member(const npz::Archive& archive, const npz::Member& member) {
    require(&archive.find(member.file_name) == &member, "a listed member is found");
    try {
        const tandem::npy::File file = archive.member(member.file_name);
        require(member.unreadable.empty(), "what can't be read is not");
        require(file.bytes().size() == file.header().data_bytes, "the data is all there");
        require(file.header().data_offset + file.header().data_bytes + file.trailing_bytes() == member.size_bytes,
                "the sizes add up");
        require(file.data_offset_bytes() + file.bytes().size() <= file.mapping().size_bytes(), "the data lies in the mapping");
        std::size_t sum = 0;
        for (const std::byte byte : file.bytes())
            sum += std::to_integer<std::size_t>(byte);
        require(sum <= file.bytes().size() * 255, "every byte can be read");
    } catch (const tandem::Error& error) {
        check_error(error);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    // One file for all inputs: archives are files.
    static const int descriptor = ::memfd_create("fuzz", MFD_CLOEXEC);
    static const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    require(::ftruncate(descriptor, 0) == 0 && ::pwrite(descriptor, data, size, 0) == static_cast<ssize_t>(size),
            "the input is written");
    require(::lseek(descriptor, 0, SEEK_SET) == 0, "it is read from the front");
    try {
        const npz::Archive archive = npz::Archive::open(path);
        std::size_t looked_at = 0;
        for (const npz::Member& member : archive.members()) {
            if (++looked_at > 16) break;
            check_member(archive, member);
        }
    } catch (const tandem::Error& error) {
        check_error(error);
    }
    return 0;
}
