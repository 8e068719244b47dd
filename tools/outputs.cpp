#include "tools/outputs.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "core/file_transfer.hpp"
#include "core/output_file.hpp"
#include "core/posix_file.hpp"
#include "core/printable.hpp"
#include "core/staging.hpp"
#include "tools/text.hpp"

namespace tandem::command {
namespace {

namespace fs = std::filesystem;

// Between two pieces an interrupt is noticed.
constexpr std::size_t piece_bytes = std::size_t{64} << 20U;

volatile std::sig_atomic_t file_is_open = 0;
volatile std::sig_atomic_t interrupted_by = 0;

void end_by(int signal_number) {
    std::signal(signal_number, SIG_DFL);
    std::raise(signal_number);
}

// What `on_bus_error` writes: made before, since there nothing can be.
std::string& bus_error_message() {
    static std::string message;
    return message;
}

extern "C" void on_bus_error(int /*signal_number*/) {
    // Several threads may come here at once; the first one speaks, and ends them all.
    static std::atomic_flag is_told = ATOMIC_FLAG_INIT;
    while (is_told.test_and_set())
        ::pause();
    const std::string& message = bus_error_message();
    static_cast<void>(::write(STDERR_FILENO, message.data(), message.size()) < 0);
    ::_exit(1);
}

extern "C" void on_interrupt(int signal_number) {
    if (file_is_open != 0) {
        interrupted_by = signal_number;
    } else {
        end_by(signal_number);
    }
}

// While one lives, an interrupt waits until what it protects is cleaned up. Pipes and terminals have nothing to clean up, and
// writing to them may take for ever: they are not protected.
class WritingGuard {
public:
    explicit WritingGuard(const fs::path& path) {
        std::error_code ignored;
        const fs::file_status status = fs::status(path, ignored);
        file_is_open = !fs::exists(status) || fs::is_regular_file(status) ? 1 : 0;
    }
    WritingGuard(const WritingGuard&) = delete;
    WritingGuard& operator=(const WritingGuard&) = delete;
    ~WritingGuard() {
        file_is_open = 0;
        if (interrupted_by != 0) end_by(interrupted_by);
    }
    static void check() {
        if (interrupted_by != 0) throw Error(ErrorCode::io, "interrupted");
    }
};

// Appends a dense array's bytes as they lie in memory.
void append(const Array& array, OutputFile& file) {
    if (array.count() == 0) return;
    const Array flat = (array.is_dense(Order::c) ? array : array.transpose()).reshape({-1});
    const auto step = static_cast<std::int64_t>(std::max<std::size_t>(1, piece_bytes / size_bytes(flat.dtype())));
    for (std::int64_t start = 0; start < flat.count(); start += step) {
        WritingGuard::check();
        save_bytes(flat.slice(0, start, start + std::min(step, flat.count() - start)), file);
    }
}

void append(const MappedFile& source, std::uint64_t start, std::uint64_t end, OutputFile& file) {
    std::vector<std::byte> piece;
    for (; start < end; start += piece.size()) {
        WritingGuard::check();
        piece.resize(std::min<std::uint64_t>(piece_bytes, end - start));
        source.read(start, piece);
        file.write(piece);
    }
}

void finish(OutputFile& file) {
    WritingGuard::check();
    file.commit();
}

}  // namespace

void prepare_process() {
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        // Opened the wrong way round, so that using it still fails.
        if (::fcntl(descriptor, F_GETFD) < 0) ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);
    for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
        struct sigaction action {};
        // Whoever started this process with a signal ignored wants it to stay so.
        if (::sigaction(signal_number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) continue;
        action = {};
        action.sa_handler = on_interrupt;
        action.sa_flags = SA_RESTART;
        ::sigemptyset(&action.sa_mask);
        ::sigaction(signal_number, &action, nullptr);
    }
}

void guard_mapped_files(const std::string& job) {
    bus_error_message() = fmt::format(
        "tandem: {}: SIGBUS: a file became shorter while it was used in place, or its storage failed\n", one_line(job));
    std::signal(SIGBUS, on_bus_error);
}

void print(std::string_view text) {
    while (!text.empty()) {
        const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
        if (count >= 0) {
            text.remove_prefix(static_cast<std::size_t>(count));
            continue;
        }
        const int error = errno;
        if (error == EAGAIN) {
            pollfd ready{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
            ::poll(&ready, 1, -1);
        } else if (error != EINTR) {
            throw Error(ErrorCode::io, fmt::format("standard output: write: {}", std::generic_category().message(error)), error);
        }
    }
}

void print_error(const std::string& text) noexcept {
    std::string_view rest = text;
    ssize_t count = 0;
    while (!rest.empty() && (count = ::write(STDERR_FILENO, rest.data(), rest.size())) > 0)
        rest.remove_prefix(static_cast<std::size_t>(count));
    static_cast<void>(::write(STDERR_FILENO, "\n", 1) == 1);
}

Output find_output(const std::string& text, std::initializer_list<const Input*> inputs) {
    if (text.empty()) throw UsageError("the output's name is empty");
    Output output;
    output.path = text == "-" ? "/dev/stdout" : text;
    output.name = printable(output.path.native());
    const fs::path extension = output.path.extension();
    const bool inputs_are_raw = std::all_of(inputs.begin(), inputs.end(), [](const Input* input) { return input->is_raw; });
    output.is_raw = extension == ".raw" || extension == ".bin" || (extension != ".npy" && inputs_are_raw);
    return output;
}

void flush_to_storage(const fs::path& path) {
    const FileDescriptor file = open_file(path, O_RDONLY);
    while (::fsync(file.number()) != 0) {
        if (errno != EINTR) throw io_error(path, "fsync", errno);
    }
}

void save(const Array& array, const Output& output) {
    naming(output.name, [&] {
        const Array elements = dense(array, output.is_raw ? DenseOrder::c : DenseOrder::any);
        const WritingGuard guard(output.path);
        OutputFile file(output.path);
        if (!output.is_raw) {
            const std::string header = npy::format_header(elements.dtype(), elements.shape(), !elements.is_dense(Order::c));
            file.write(std::as_bytes(std::span(header)));
        }
        append(elements, file);
        finish(file);
    });
}

void replace_region(const Region& region, const Array& items) {
    const MappedFile& original = region.file;
    const fs::path& path = original.path();
    const WritingGuard guard(path);
    OutputFile file(path);
    append(original, 0, region.offset_bytes, file);
    append(items, file);
    append(original, region.offset_bytes + region.size_bytes, original.size_bytes(), file);
    finish(file);
}

}  // namespace tandem::command
