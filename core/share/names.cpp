#include "core/share/names.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "core/environment.hpp"
#include "core/printable.hpp"
#include "core/share/message.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view socket_suffix = ".sock";
constexpr std::string_view lock_suffix = ".lock";

// The user's folder for what lives as long as they are logged in. Without the variable, where systemd has it by convention.
fs::path user_folder() {
    fs::path folder = environment::runtime_directory();
    if (!folder.empty()) return folder;
    folder = fmt::format("/run/user/{}", ::geteuid());
    struct stat status {};
    if (::stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid()) return folder;
    throw Error(ErrorCode::unavailable,
                fmt::format("no folder for sockets: XDG_RUNTIME_DIR is not set to an absolute path, and {} is not there",
                            folder.native()));
}

void check_own_folder(const fs::path& folder) {
    struct stat status {};
    if (::lstat(folder.c_str(), &status) != 0) throw io_error(folder, "lstat", errno);
    if (!S_ISDIR(status.st_mode)) throw io_error(folder, "folder for sockets", ENOTDIR);
    if (status.st_uid != ::geteuid() || (status.st_mode & 077U) != 0) {
        throw Error(ErrorCode::io,
                    fmt::format("{}: folder for sockets: user {} and mode 0700 needed, user {} and mode {:04o} found",
                                printable_path(folder), ::geteuid(), status.st_uid, status.st_mode & 07777U));
    }
}

// Who may write to a folder may put another socket in a name's place.
void check_not_writable_by_others(const fs::path& folder) {
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0) throw io_error(folder, "stat", errno);
    if (!S_ISDIR(status.st_mode)) throw io_error(folder, "folder for sockets", ENOTDIR);
    if ((status.st_mode & 022U) == 0) return;
    throw Error(ErrorCode::io, fmt::format("{}: folder for sockets: mode {:04o}: others may write to it", printable_path(folder),
                                           status.st_mode & 07777U));
}

// The lock of a name, held from here on; not open where another process holds it. A file that is removed while it is being
// locked is not the name's any more: whoever comes then makes a new one.
FileDescriptor open_locked(const fs::path& path, bool make) {
    while (true) {
        FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (make ? O_CREAT : 0), 0600));
        if (!file.is_open()) {
            if (errno == EINTR) continue;
            if (!make) return {};
            throw io_error(path, "open", errno);
        }
        while (::flock(file.number(), LOCK_EX | LOCK_NB) != 0) {
            if (errno == EWOULDBLOCK) return {};
            if (errno != EINTR) throw io_error(path, "flock", errno);
        }
        struct stat locked {};
        struct stat named {};
        if (::fstat(file.number(), &locked) != 0) throw io_error(path, "fstat", errno);
        if (::lstat(path.c_str(), &named) == 0 && named.st_ino == locked.st_ino && named.st_dev == locked.st_dev) return file;
        if (!make) return {};
    }
}

// A child that goes on when its parent is killed must not go on with the lock too.
OwnDescriptor take_lock(const fs::path& path, bool make) {
    return OwnDescriptor::take([&] { return open_locked(path, make); });
}

// The same for a name to be published. Who looks for what dead processes left holds a lock for a moment.
OwnDescriptor take_lock_patiently(const fs::path& path) {
    for (int attempt = 0; attempt < 10; ++attempt) {
        OwnDescriptor file = take_lock(path, true);
        if (file.is_open()) return file;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return {};
}

// The process that has written its number to the lock at `path`; for messages alone.
std::string holder_text(const fs::path& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    std::array<char, 16> text{};
    const ssize_t count = file.is_open() ? ::read(file.number(), text.data(), text.size()) : 0;
    int pid = 0;
    if (count > 0) std::from_chars(text.data(), text.data() + count, pid);
    return pid > 0 ? fmt::format(" (process {})", pid) : std::string();
}

fs::path with_suffix(const fs::path& folder, std::string_view name, std::string_view suffix) {
    return folder / (std::string(name) + std::string(suffix));
}

bool has_socket(const fs::path& path) {
    std::error_code ignored;
    return fs::symlink_status(path, ignored).type() == fs::file_type::socket;
}

}  // namespace

fs::path names_folder(const fs::path& given, bool make) {
    if (!given.empty()) {
        // The process may go elsewhere before the names end.
        std::error_code error;
        const fs::path folder = fs::absolute(given, error);
        if (make) check_not_writable_by_others(folder);
        return error ? given : folder;
    }
    fs::path folder = user_folder() / "tandem";
    if (make && ::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) throw io_error(folder, "mkdir", errno);
    std::error_code ignored;
    if (make || fs::exists(fs::symlink_status(folder, ignored))) check_own_folder(folder);
    return folder;
}

fs::path socket_path(const fs::path& folder, std::string_view name) {
    return with_suffix(folder, name, socket_suffix);
}

NameLock::NameLock(const fs::path& folder, std::string_view name)
    : socket_path_(tandem::socket_path(folder, name)),
      lock_path_(with_suffix(folder, name, lock_suffix)),
      file_(take_lock_patiently(lock_path_)) {
    if (!file_.is_open()) {
        throw Error(ErrorCode::unavailable,
                    fmt::format("{}: this name is published already{}", in_quotes(name), holder_text(lock_path_)), EADDRINUSE);
    }
    const std::string pid = fmt::format("{}\n", ::getpid());
    // Only for messages: a disk that is full keeps nobody from publishing.
    static_cast<void>(::ftruncate(file_.number(), 0) != 0 || ::write(file_.number(), pid.data(), pid.size()) < 0);
    if (has_socket(socket_path_)) ::unlink(socket_path_.c_str());
}

NameLock::~NameLock() {
    if (!file_.is_open()) return;
    if (has_socket(socket_path_)) ::unlink(socket_path_.c_str());
    ::unlink(lock_path_.c_str());
}

std::vector<std::string> live_names(const fs::path& folder) {
    std::vector<std::string> names;
    std::error_code problem;
    fs::directory_iterator entries(folder, problem);
    if (problem == std::errc::no_such_file_or_directory) return names;
    if (problem) throw io_error(folder, "opendir", problem.value());
    for (; entries != fs::directory_iterator(); entries.increment(problem)) {
        const std::string file = entries->path().filename().native();
        const bool is_lock = file.ends_with(lock_suffix);
        if (!is_lock && !file.ends_with(socket_suffix)) continue;
        const std::string name = file.substr(0, file.size() - (is_lock ? lock_suffix : socket_suffix).size());
        if (!name_problem(name).empty()) continue;
        const fs::path lock_path = with_suffix(folder, name, lock_suffix);
        if (is_lock) {
            // Only who is dead lets go of the lock and leaves the file.
            const OwnDescriptor lock = take_lock(lock_path, false);
            if (!lock.is_open()) continue;
            const fs::path path = tandem::socket_path(folder, name);
            if (has_socket(path)) ::unlink(path.c_str());
            ::unlink(lock_path.c_str());
        } else if (has_socket(entries->path())) {
            names.push_back(name);
        }
    }
    if (problem) throw io_error(folder, "readdir", problem.value());
    std::erase_if(names, [&](const std::string& name) { return !has_socket(tandem::socket_path(folder, name)); });
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace tandem
