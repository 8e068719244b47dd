#include "tools/unfinished.hpp"

#include <filesystem>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "core/posix_file.hpp"
#include "tools/text.hpp"

namespace tandem::command {
namespace {

std::string text_of(const std::filesystem::path& path) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) return {};
    std::optional<std::filesystem::path> journal;
    try {
        journal = interrupted_run(MappedFile::open(path, {.may_stay_unmapped = true}));
    } catch (const Error&) {
        return {};  // what reads or writes the file says what is wrong with it
    }
    if (!journal) return {};
    if (is_run_under_way(*journal)) {
        return fmt::format("another process is changing it in place, and has got through a part of it; its journal is {}",
                           printable_path(*journal));
    }
    if (std::filesystem::exists(*journal, ignored)) {
        return fmt::format(
            "an interrupted run has left it partly changed, and its journal, {}; the same command with --in-place --memory "
            "stream finishes that, and 'tandem forget' takes the file as it is",
            printable_path(*journal));
    }
    return fmt::format(
        "an interrupted run has left it partly changed, and its journal, {}, is gone; 'tandem forget' takes the file as "
        "it is",
        printable_path(*journal));
}

}  // namespace

std::string unfinished_text(const Input& input) {
    return input.is_stream ? std::string() : text_of(input.path);
}

void check_is_whole(const Input& input) {
    if (const std::string text = unfinished_text(input); !text.empty())
        throw Error(ErrorCode::bad_file, fmt::format("{}: {}", input.name, text));
}

void check_is_whole(const Output& output) {
    if (const std::string text = text_of(output.path); !text.empty())
        throw Error(ErrorCode::bad_file, fmt::format("{}: not replaced: {}", output.name, text));
}

}  // namespace tandem::command
