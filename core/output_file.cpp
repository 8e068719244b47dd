#include "core/output_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <tandem/error.hpp>

#include "core/posix_file.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr int max_links = 40;  // the kernel's own bound
constexpr int max_name_attempts = 100;

// How soon a wait for a pipe's reader notices that it is to end.
constexpr std::chrono::milliseconds stop_interval{20};

// Where writing to a path leads: a name in a folder, or a descriptor of this process for /dev/stdout and its kind.
struct Destination {
    fs::path path;
    std::optional<int> descriptor;
};

fs::path folder_of(const fs::path& path) {
    const fs::path folder = path.parent_path();
    return folder.empty() ? fs::path(".") : folder;
}

// The number in /proc/PID/fd/NUMBER, where PID is this process.
std::optional<int> own_descriptor(const fs::path& path) {
    std::error_code error;
    const fs::path folder = fs::canonical(folder_of(path), error);
    if (error || folder.filename() != "fd" || !folder.native().starts_with("/proc/") ||
        folder != fs::canonical("/proc/self/fd", error)) {
        return std::nullopt;
    }
    const std::string name = path.filename().native();
    int number = 0;
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
    return problem == std::errc() && end == name.data() + name.size() ? std::optional(number) : std::nullopt;
}

// Follows symbolic links, also to a file that is not there yet.
Destination resolve(const fs::path& path) {
    // Absolute, so that a later change of the working directory does not matter.
    std::error_code problem;
    fs::path target = fs::absolute(path, problem);
    if (path.empty() || problem) {
        throw io_error(path, "open to write", path.empty() ? ENOENT : problem.value());
    }
    for (int links = 0; links <= max_links; ++links) {
        if (const std::optional<int> descriptor = own_descriptor(target); descriptor) {
            return {target, descriptor};
        }
        std::error_code error;
        const fs::path link = fs::read_symlink(target, error);
        if (error) {
            return {target, std::nullopt};
        }
        target = link.is_absolute() ? link : target.parent_path() / link;
    }
    throw io_error(path, "open to write", ELOOP);
}

// A hidden name beside `target` that no other process or thread uses.
fs::path hidden_name(const fs::path& target) {
    static std::atomic<unsigned> counter{0};
    const std::string suffix = fmt::format(".{}-{}.tmp", ::getpid(), counter.fetch_add(1));
    const std::string name = target.filename().native().substr(0, NAME_MAX - 1 - suffix.size());
    return target.parent_path() / fmt::format(".{}{}", name, suffix);
}

bool has_descriptor_links() {
    return ::access("/proc/self/fd", X_OK) == 0;
}

// An unnamed file in `folder`, or -1 where the kernel, the filesystem or the lack of /proc does not let one be named later.
int open_unnamed(const fs::path& folder) {
#ifdef O_TMPFILE
    if (has_descriptor_links()) {
        int descriptor = -1;
        do {
            descriptor = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
        } while (descriptor < 0 && errno == EINTR);
        return descriptor;
    }
#endif
    errno = EOPNOTSUPP;
    return -1;
}

// Calls `create(name)` with hidden names until one is free; the name, or an errno.
template <class Create>
int with_hidden_name(const fs::path& target, fs::path& name, Create create) {
    for (int attempt = 0; attempt < max_name_attempts; ++attempt) {
        fs::path candidate = hidden_name(target);
        if (create(candidate)) {
            name = std::move(candidate);
            return 0;
        }
        if (errno != EEXIST && errno != EINTR) {
            return errno;
        }
    }
    return EEXIST;
}

// Some filesystems and all pipes have nothing to flush to; that is no failure.
int flush(int descriptor) {
    while (::fsync(descriptor) != 0) {
        if (errno != EINTR) {
            return errno == EINVAL || errno == EROFS || errno == EOPNOTSUPP ? 0 : errno;
        }
    }
    return 0;
}

// Gives the new file the owner, group and permissions of the one it replaces, as far as this process may; 0 or an errno.
// Set-user-ID and set-group-ID are not passed on to new content, as writing to the old file would have cleared them.
int take_over_rights(int descriptor, const struct stat& old) {
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) {
        return errno;
    }
    mode_t mode = old.st_mode & 0777U;
    if (status.st_gid != old.st_gid && ::fchown(descriptor, static_cast<uid_t>(-1), old.st_gid) != 0) {
        // To the old file, the members of the new one's group were others.
        const mode_t others = mode & 07U;
        mode = (mode & 0707U) | (others << 3U);
    }
    if (::fchmod(descriptor, mode) != 0) {
        return errno;
    }
    // Last, since it may end the right to do the rest; and no failure, since only few may give files away.
    if (status.st_uid != old.st_uid) {
        static_cast<void>(::fchown(descriptor, old.st_uid, static_cast<gid_t>(-1)) == 0);
    }
    return 0;
}

// Makes the new name itself last. A folder that may be written but not read can't be flushed.
int flush_folder(const fs::path& folder) {
    const FileDescriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return file.is_open() ? flush(file.number()) : 0;
}

}  // namespace

OutputFile::OutputFile(const fs::path& path, const Options& options) : stop_(options.stop), path_(path) {
    const Destination destination = resolve(path);
    target_ = destination.path;
    struct stat status {};
    const bool exists =
        destination.descriptor ? ::fstat(*destination.descriptor, &status) == 0 : ::stat(target_.c_str(), &status) == 0;
    if (!exists && errno != ENOENT) {
        throw io_error(path_, "open to write", errno);
    }
    if ((exists && S_ISDIR(status.st_mode)) || !target_.has_filename() || target_.filename() == "." ||
        target_.filename() == "..") {
        throw Error(ErrorCode::io, fmt::format("{}: open to write: is a directory", printable_path(path_)), EISDIR);
    }
    if (destination.descriptor) {
        // The descriptor itself, not the file behind it, so that what is written follows what others wrote to it.
        direct_ = true;
        descriptor_ = ::fcntl(*destination.descriptor, F_DUPFD_CLOEXEC, 0);
    } else if (exists && !S_ISREG(status.st_mode)) {
        direct_ = true;
        open_special(S_ISFIFO(status.st_mode));
    }
    if (direct_) {
        if (descriptor_ < 0) {
            throw io_error(path_, "open to write", errno);
        }
        return;
    }
    // Renaming over a file asks for no permission on it; its owner's wish not to have it written counts all the same.
    if (exists && ::access(target_.c_str(), W_OK) != 0) {
        throw io_error(path_, "open to write", errno);
    }
    const fs::path folder = folder_of(target_);
    int error = EOPNOTSUPP;
    if (options.unnamed) {
        descriptor_ = open_unnamed(folder);
        error = descriptor_ < 0 ? errno : 0;
    }
    if (error == EOPNOTSUPP || error == ENOSYS || error == EISDIR || error == ENOENT || error == EINVAL) {
        error = with_hidden_name(target_, temporary_, [this](const fs::path& name) {
            descriptor_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
            return descriptor_ >= 0;
        });
    }
    if (error != 0) {
        throw io_error(path_, fmt::format("create a file in {}", printable_path(folder)), error);
    }
    if (exists) {
        if (const int mode_error = take_over_rights(descriptor_, status); mode_error != 0) {
            discard();
            throw io_error(path_, "fchmod", mode_error);
        }
    }
}

void OutputFile::open_special(bool is_pipe) {
    // A pipe that nobody reads can be waited for only in the call to open itself, which no stop would end.
    const bool asks = is_pipe && stop_.stop_possible();
    const int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | (asks ? O_NONBLOCK : 0);
    for (;;) {
        descriptor_ = ::open(target_.c_str(), flags);
        if (descriptor_ >= 0 && asks) ::fcntl(descriptor_, F_SETFL, O_WRONLY);
        if (descriptor_ >= 0 || (errno != EINTR && !(asks && errno == ENXIO))) return;
        if (stop_.stop_requested()) cancel();
        if (errno == ENXIO) std::this_thread::sleep_for(stop_interval);
    }
}

void OutputFile::cancel() {
    has_failed_ = true;
    throw Error(ErrorCode::cancelled, fmt::format("{}: cancelled while nothing reads what is written", printable_path(path_)));
}

void OutputFile::wait_until_writable() {
    pollfd ready{.fd = descriptor_, .events = POLLOUT, .revents = 0};
    while (::poll(&ready, 1, stop_.stop_possible() ? static_cast<int>(stop_interval.count()) : -1) == 0) {
        if (stop_.stop_requested()) cancel();
    }
}

OutputFile::~OutputFile() {
    discard();
}

void OutputFile::discard() noexcept {
    if (!temporary_.empty()) {
        ::unlink(temporary_.c_str());
        temporary_.clear();
    }
    if (descriptor_ >= 0) {
        ::close(std::exchange(descriptor_, -1));
    }
}

std::string OutputFile::name() const {
    return printable_path(path_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
    try {
        write_at(reserve(bytes.size()), bytes);
    } catch (...) {
        // At once, so that a full disk has its space back.
        discard();
        throw;
    }
}

void OutputFile::take_space(std::uint64_t size_bytes) {
    if (direct_ || size_bytes == 0) return;
    while (::fallocate(descriptor_, 0, 0, static_cast<off_t>(size_bytes)) != 0) {
        if (errno == EOPNOTSUPP || errno == ENOSYS) return;
        if (errno != EINTR) throw io_error(path_, fmt::format("fallocate of {} bytes", size_bytes), errno);
    }
    taken_bytes_ = std::max(taken_bytes_, size_bytes);
}

std::uint64_t OutputFile::reserve(std::uint64_t size_bytes) {
    return std::exchange(size_bytes_, size_bytes_ + size_bytes);
}

void OutputFile::write_at(std::uint64_t offset_bytes, std::span<const std::byte> bytes) {
    if (descriptor_ < 0 || has_failed_) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: write: the file is committed, or an earlier write failed", printable_path(path_)));
    }
    // So much goes into a pipe that can be written to at all, without waiting.
    const bool asks = direct_ && stop_.stop_possible();
    const std::size_t most = asks ? PIPE_BUF : bytes.size();
    while (!bytes.empty()) {
        if (asks) wait_until_writable();
        // A pipe has no offsets, and what /dev/stdout leads to may be appended to by others.
        const ssize_t count = direct_ ? ::write(descriptor_, bytes.data(), std::min(bytes.size(), most))
                                      : ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset_bytes));
        if (count >= 0) {
            offset_bytes += static_cast<std::uint64_t>(count);
            bytes = bytes.subspan(static_cast<std::size_t>(count));
            continue;
        }
        const int error = errno;
        if (error == EAGAIN && direct_) {
            wait_until_writable();
        } else if (error != EINTR) {
            has_failed_ = true;  // nothing incomplete can be committed later
            throw io_error(path_, fmt::format("write at offset {}", offset_bytes), error);
        }
    }
}

void OutputFile::commit() {
    if (descriptor_ < 0 || has_failed_) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: commit: the file is committed, or a write failed", printable_path(path_)));
    }
    const auto check = [this](int error, std::string_view action) {
        if (error != 0) {
            discard();
            throw io_error(path_, action, error);
        }
    };
    if (taken_bytes_ > size_bytes_)
        check(::ftruncate(descriptor_, static_cast<off_t>(size_bytes_)) == 0 ? 0 : errno, "ftruncate");
    check(flush(descriptor_), fmt::format("fsync of {} bytes", size_bytes_));
    if (!direct_) {
        if (temporary_.empty()) {
            const std::string link = fmt::format("/proc/self/fd/{}", descriptor_);
            check(with_hidden_name(target_, temporary_,
                                   [&link](const fs::path& name) {
                                       return ::linkat(AT_FDCWD, link.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
                                   }),
                  "linkat");
        }
        check(::rename(temporary_.c_str(), target_.c_str()) == 0 ? 0 : errno, "rename");
        temporary_.clear();
    }
    const int close_error = ::close(std::exchange(descriptor_, -1)) == 0 || errno == EINTR ? 0 : errno;
    check(close_error, "close");
    if (!direct_) {
        check(flush_folder(folder_of(target_)), "fsync of the folder");
    }
}

}  // namespace tandem
