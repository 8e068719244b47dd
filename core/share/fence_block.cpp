#include "core/share/fence_block.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "core/share/futex.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Error fence_error(std::string_view action) {
    const int error = errno;
    const ErrorCode code = error == ENOMEM ? ErrorCode::out_of_memory : ErrorCode::io;
    return Error(code, fmt::format("fence of {} bytes: {}: {}", fence_bytes, action, std::generic_category().message(error)),
                 error);
}

// Sizes first: a page that another process can take away would end this one with SIGBUS.
void check(int file) {
    struct stat status {};
    const int found = ::fcntl(file, F_GET_SEALS);
    if (found < 0) throw Error(ErrorCode::bad_file, "fence: a memfd needed, another file descriptor found", errno);
    if ((found & F_SEAL_SHRINK) == 0) {
        throw Error(ErrorCode::bad_file,
                    fmt::format("fence: a memfd sealed against shrinking needed, one with the seals {:#x} found", found));
    }
    if ((found & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0)
        throw Error(ErrorCode::bad_file, "fence: a memfd that can be written to needed, one sealed against that found");
    if (::fstat(file, &status) != 0) throw fence_error("fstat");
    if (status.st_size != static_cast<off_t>(fence_bytes)) {
        throw Error(ErrorCode::bad_file,
                    fmt::format("fence: a memfd of {} bytes needed, one of {} found", fence_bytes, status.st_size));
    }
}

// A lock on the byte that stands for a signaller, far behind the file's own.
struct flock lock_of(std::uint64_t word, short type) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(word & ~unwatched);
    lock.l_len = 1;
    return lock;
}

// Raises `word` to `to`, in few attempts: a process that writes all the time must not keep this one here.
void raise_word(std::atomic<std::uint64_t>& word, std::uint64_t to) noexcept {
    std::uint64_t found = word.load();
    for (int attempt = 0; attempt < 1000 && found < to; ++attempt) {
        if (word.compare_exchange_weak(found, to)) return;
    }
}

}  // namespace

void FenceBlock::wake() noexcept {
    changes.fetch_add(1);
    futex_wake(changes);
}

void FenceBlock::raise(std::uint64_t to) noexcept {
    raise_word(value, to);
    wake();
}

void FenceBlock::fail(std::uint64_t at) noexcept {
    raise_word(failed, ~at);
    wake();
}

bool FenceBlock::has_failed(std::uint64_t at) const noexcept {
    const std::uint64_t found = failed.load();
    return found != 0 && at >= ~found;
}

FencePage FencePage::make() {
    FileDescriptor file(::memfd_create("tandem-fence", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file.is_open()) throw fence_error("memfd_create");
    if (::ftruncate(file.number(), static_cast<off_t>(fence_bytes)) != 0) throw fence_error("ftruncate");
    // Now, since a page that can't be had when it is first touched ends the process.
    if (::fallocate(file.number(), 0, 0, static_cast<off_t>(fence_bytes)) != 0) throw fence_error("fallocate");
    if (::fcntl(file.number(), F_ADD_SEALS, seals) != 0) throw fence_error("fcntl(F_ADD_SEALS)");
    return FencePage(std::move(file));
}

FencePage::FencePage(FileDescriptor file) : file_(std::move(file)) {
    check(file_.number());
    void* address = ::mmap(nullptr, fence_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.number(), 0);
    if (address == MAP_FAILED) throw fence_error("mmap");
    block_ = static_cast<FenceBlock*>(address);  // zeros, as the system gives them, are a counter at 0
}

bool FencePage::hold(std::uint64_t word) noexcept {
    try {
        const std::string path = fmt::format("/proc/self/fd/{}", file_.number());
        OwnDescriptor holder = OwnDescriptor::take([&] { return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)); });
        // For reading, which several processes may at once: a word that two have is no reason to fail.
        struct flock lock = lock_of(word, F_RDLCK);
        if (!holder.is_open() || ::fcntl(holder.number(), F_OFD_SETLK, &lock) != 0) return false;
        holder_ = std::move(holder);
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

bool FencePage::is_held(std::uint64_t word) const noexcept {
    struct flock lock = lock_of(word, F_WRLCK);
    return ::fcntl(file_.number(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

FencePage::~FencePage() {
    if (block_ != nullptr) ::munmap(block_, fence_bytes);
}

}  // namespace tandem
