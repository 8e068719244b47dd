#include "core/posix_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "core/printable.hpp"

namespace tandem {
namespace {

// `call(position)` reads into the destination from `position` on.
template <class Call>
std::size_t repeat_read(std::size_t needed, const std::filesystem::path& path, std::uint64_t offset_bytes, Call call) {
    std::size_t done = 0;
    while (done < needed) {
        const ssize_t count = call(done);
        if (count < 0) {
            const int error = errno;
            if (error == EINTR) {
                continue;
            }
            throw io_error(path, fmt::format("read at offset {}", offset_bytes + done), error);
        }
        if (count == 0) {
            break;
        }
        done += static_cast<std::size_t>(count);
    }
    return done;
}

}  // namespace

void FileDescriptor::reset() noexcept {
    if (number_ >= 0) {
        ::close(std::exchange(number_, -1));
    }
}

std::string printable_path(const std::filesystem::path& path) {
    return printable(path.native());
}

Error io_error(const std::filesystem::path& path, std::string_view action, int error_number) {
    return Error(ErrorCode::io,
                 fmt::format("{}: {}: {}", printable_path(path), action, std::generic_category().message(error_number)),
                 error_number);
}

FileDescriptor open_file(const std::filesystem::path& path, int flags) {
    FileDescriptor file;
    do {
        file = FileDescriptor(::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY));
    } while (!file.is_open() && errno == EINTR);
    struct stat status {};
    if (!file.is_open()) {
        if (errno == EISDIR) {
            throw Error(ErrorCode::io, fmt::format("{}: open: is a directory", printable_path(path)), EISDIR);
        }
        throw io_error(path, "open", errno);
    }
    if (::fstat(file.number(), &status) == 0 && S_ISDIR(status.st_mode)) {
        throw Error(ErrorCode::io, fmt::format("{}: open: is a directory", printable_path(path)), EISDIR);
    }
    return file;
}

std::size_t read_fully(int descriptor, std::span<std::byte> destination, const std::filesystem::path& path) {
    return repeat_read(destination.size(), path, 0, [&](std::size_t done) {
        return ::read(descriptor, destination.data() + done, destination.size() - done);
    });
}

std::size_t read_fully_at(int descriptor, std::uint64_t offset_bytes, std::span<std::byte> destination,
                          const std::filesystem::path& path) {
    return repeat_read(destination.size(), path, offset_bytes, [&](std::size_t done) {
        return ::pread(descriptor, destination.data() + done, destination.size() - done, static_cast<off_t>(offset_bytes + done));
    });
}

}  // namespace tandem
