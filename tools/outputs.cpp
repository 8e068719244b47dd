#include "tools/outputs.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/npz/save.hpp"
#include "core/posix_file.hpp"
#include "core/printable.hpp"
#include "core/staging.hpp"
#include "core/transport/file_transfer.hpp"
#include "tools/process.hpp"
#include "tools/progress.hpp"
#include "tools/text.hpp"

namespace tandem::command {
namespace {

namespace fs = std::filesystem;

// Between two pieces an interrupt is noticed.
constexpr std::size_t piece_bytes = std::size_t{64} << 20U;

void append(const MappedFile& source, std::uint64_t start, std::uint64_t end, OutputFile& file) {
    std::vector<std::byte> piece;
    for (; start < end; start += piece.size()) {
        check_interrupt();
        piece.resize(std::min<std::uint64_t>(piece_bytes, end - start));
        source.read(start, piece);
        file.write(piece);
    }
}

std::filesystem::path checked_path(const Output& output) {
    if (output.member) npz::check_names(output.path, {{*output.member, Array()}});
    return output.path;
}

void finish(OutputFile& file) {
    check_interrupt();
    file.commit();
}

}  // namespace

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
    if (output.path.extension() == ".npz") {
        output.member = "arr_0";
        return output;
    }
    static constexpr std::string_view before_member = ".npz:";
    std::error_code ignored;
    if (const std::size_t at = text.find(before_member); at != std::string::npos && at > 0 && !fs::exists(text, ignored)) {
        output.path = text.substr(0, at + before_member.size() - 1);
        output.member = text.substr(at + before_member.size());
        if (fs::is_regular_file(output.path, ignored)) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("{}: there is {} already, and a new archive in its place would have no other member; -o {} "
                                    "replaces it",
                                    output.name, printable(output.path.filename().native()), printable(output.path.native())));
        }
        return output;
    }
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

OpenOutput::OpenOutput(Output output) : output_(std::move(output)), guard_(output_.path), file_(checked_path(output_)) {}

void OpenOutput::take_space_for(const Array& array) {
    file_.take_space(array.size_bytes());
}

void OpenOutput::save(const Array& array) {
    naming(output_.name, [&] {
        if (output_.member) {
            npz::write_archive(file_, {{*output_.member, array}}, false, [](std::uint64_t) { check_interrupt(); });
            guard_.set_done(output_.name);
            return;
        }
        const Array elements = dense(array, output_.is_raw ? DenseOrder::c : DenseOrder::any);
        if (!output_.is_raw) {
            const std::string header = npy::format_header(elements.dtype(), elements.shape(), !elements.is_dense(Order::c));
            file_.write(std::as_bytes(std::span(header)));
        }
        save_bytes(elements, file_, show_progress(fmt::format("writing {}", output_.name)));
        finish(file_);
        guard_.set_done(output_.name);
    });
}

bool OpenOutput::is_standard_output() const {
    struct stat ours {};
    struct stat standard {};
    return ::stat(output_.path.c_str(), &ours) == 0 && ::fstat(STDOUT_FILENO, &standard) == 0 && ours.st_dev == standard.st_dev &&
           ours.st_ino == standard.st_ino;
}

void save(const Array& array, const Output& output) {
    naming(output.name, [&] { OpenOutput(output).save(array); });
}

void check_is_same(const MappedFile& file) {
    struct stat opened {
    }, named{};
    if (::fstat(file.descriptor(), &opened) == 0 && ::stat(file.path().c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
        opened.st_ino == named.st_ino) {
        return;
    }
    throw Error(ErrorCode::io, fmt::format("{}: another file has taken its place meanwhile; that was left as it is",
                                           printable_path(file.path())));
}

void replace_region(const Region& region, const Array& items) {
    const MappedFile& original = region.file;
    const fs::path& path = original.path();
    WritingGuard guard(path);
    OutputFile file(path);
    append(original, 0, region.offset_bytes, file);
    save_bytes(items, file, show_progress(fmt::format("writing {}", printable(path.native()))));
    append(original, region.offset_bytes + region.size_bytes, original.size_bytes(), file);
    check_is_same(original);
    finish(file);
    guard.set_done(printable(path.native()));
}

}  // namespace tandem::command
