#include "core/posix_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>

#include <fmt/format.h>

#include "core/printable.hpp"

namespace tandem {
namespace {

// `call(position)` reads into the destination from `position` on. A descriptor that does not block, which whoever handed it over
// may have chosen, is waited for.
template <class Call>
std::size_t repeat_read(int descriptor, std::size_t needed, const std::filesystem::path& path, std::uint64_t offset_bytes,
                        Call call) {
    std::size_t done = 0;
    while (done < needed) {
        const ssize_t count = call(done);
        if (count < 0) {
            const int error = errno;
            if (error == EINTR) {
                continue;
            }
            if (error == EAGAIN) {
                pollfd ready{.fd = descriptor, .events = POLLIN, .revents = 0};
                ::poll(&ready, 1, -1);
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

FileDescriptor FileDescriptor::duplicate(int number) {
    FileDescriptor copy(::fcntl(number, F_DUPFD_CLOEXEC, 0));  // NOLINT(cppcoreguidelines-pro-type-vararg)
    if (!copy.is_open()) {
        const int error = errno;
        throw Error(ErrorCode::io, fmt::format("dup of file descriptor {}: {}", number, std::generic_category().message(error)),
                    error);
    }
    return copy;
}

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

std::optional<int> named_descriptor(const std::filesystem::path& path) {
    using namespace std::string_view_literals;
    static constexpr std::array folders{"/dev/fd/"sv, "/proc/self/fd/"sv};
    std::string_view name = path.native();
    if (name == "/dev/stdin"sv) {
        return STDIN_FILENO;
    }
    for (const std::string_view folder : folders) {
        if (!name.starts_with(folder)) {
            continue;
        }
        name.remove_prefix(folder.size());
        int number = 0;
        const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
        if (problem == std::errc() && end == name.data() + name.size() && number >= 0) {
            return number;
        }
    }
    return std::nullopt;
}

bool has_no_end(const struct stat& status) {
    const unsigned device = minor(status.st_rdev);
    return S_ISCHR(status.st_mode) && major(status.st_rdev) == 1 && (device == 5 || device == 7 || device == 8 || device == 9);
}

FileDescriptor open_file(const std::filesystem::path& path, int flags) {
    FileDescriptor file;
    const std::optional<int> own = named_descriptor(path);
    do {
        file = FileDescriptor(own ? ::fcntl(*own, F_DUPFD_CLOEXEC, 0) : ::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY));
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
    return repeat_read(descriptor, destination.size(), path, 0, [&](std::size_t done) {
        return ::read(descriptor, destination.data() + done, destination.size() - done);
    });
}

std::size_t read_fully_at(int descriptor, std::uint64_t offset_bytes, std::span<std::byte> destination,
                          const std::filesystem::path& path) {
    return repeat_read(descriptor, destination.size(), path, offset_bytes, [&](std::size_t done) {
        return ::pread(descriptor, destination.data() + done, destination.size() - done, static_cast<off_t>(offset_bytes + done));
    });
}

}  // namespace tandem
