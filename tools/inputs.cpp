#include "tools/inputs.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "core/npy/magic.hpp"
#include "core/posix_file.hpp"
#include "core/printable.hpp"
#include "tools/archives.hpp"
#include "tools/outputs.hpp"

namespace tandem::command {
namespace {

namespace fs = std::filesystem;

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
    Number number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return number;
}

// "3,4", "(3, 4)", "3," and "()".
std::optional<Shape> parse_shape(std::string text) {
    std::erase(text, ' ');
    const bool in_parentheses = text.size() >= 2 && text.front() == '(' && text.back() == ')';
    if (in_parentheses) text = text.substr(1, text.size() - 2);
    if (text.empty()) return in_parentheses ? std::optional<Shape>(Shape{}) : std::nullopt;
    if (text.back() == ',') text.pop_back();
    Shape shape;
    for (std::string_view rest = text;;) {
        const std::size_t comma = rest.find(',');
        const auto length = parse_number<std::int64_t>(rest.substr(0, comma));
        if (!length || *length < 0) return std::nullopt;
        shape.push_back(*length);
        if (comma == std::string_view::npos) return shape;
        rest.remove_prefix(comma + 1);
    }
}

// Enough to tell every kind of file by, and less than any .npy header.
constexpr std::size_t telling_bytes = 24;

bool starts_as_npy(const Input& input) {
    static constexpr std::string_view magic = "\x93NUMPY";
    const auto fits = [](std::span<const std::byte> start, std::size_t size_bytes) {
        return start.size() >= size_bytes && std::memcmp(start.data(), magic.data(), size_bytes) == 0;
    };
    if (!input.stream) return fits(first_bytes(input), magic.size());
    // Byte by byte: of a raw stream no more than its data may be taken.
    for (std::size_t size_bytes = 1; size_bytes <= magic.size(); ++size_bytes) {
        if (!fits(input.stream->start(size_bytes), size_bytes)) return false;
    }
    return true;
}

bool is_there(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

// Splits FILE:FIELD at the last colon that leaves a file which is there; a field's name may have colons too.
void split_field(Input& input) {
    const std::string text = input.path.native();
    for (std::size_t colon = text.rfind(':'); colon != std::string::npos && colon > 0; colon = text.rfind(':', colon - 1)) {
        if (is_there(text.substr(0, colon))) {
            input.path = text.substr(0, colon);
            input.field = text.substr(colon + 1);
            return;
        }
    }
}

// An error of reading a header, with how to go on where the file is no .npy file at all.
[[noreturn]] void explain(const Error& error, const Input& input) {
    std::string hint;
    if (error.code() == ErrorCode::bad_file && !input.archive && !starts_as_npy(input)) {
        const std::string_view kind = npy::file_kind(first_bytes(input));
        if (kind.empty() && input.path.extension() != ".npy") hint = "; a raw file needs --dtype";
    }
    throw Error(error.code(), error.what() + hint, error.native_code());
}

}  // namespace

std::vector<std::byte> first_bytes(const Input& input) {
    if (input.stream) return input.stream->start(telling_bytes);
    std::vector<std::byte> start(telling_bytes);
    try {
        const FileDescriptor file = open_file(input.path, O_RDONLY);
        start.resize(read_fully_at(file.number(), 0, start, input.path));
    } catch (const Error&) {
        start.clear();  // whoever needs the file says what is wrong with it
    }
    return start;
}

void add_raw_options(CLI::App& command, RawOptions& options) {
    auto* dtype = command
                      .add_option_function<std::string>(
                          "--dtype",
                          [&options](const std::string& text) {
                              options.dtype = parse_dtype(text);
                              if (!options.dtype)
                                  throw UsageError(fmt::format("--dtype {}: there is no such type", in_quotes(text)));
                          },
                          "What a raw file holds, or what a .npy file's untyped items are: float32, f4, bfloat16, ...")
                      ->type_name("D");
    command
        .add_option_function<std::string>(
            "--shape",
            [&options](const std::string& text) {
                options.shape = parse_shape(text);
                if (!options.shape) throw UsageError(fmt::format("--shape {}: lengths such as 3,4 are needed", in_quotes(text)));
            },
            "Shape of a raw file; without it, one dimension up to the end")
        ->type_name("N,M")
        ->needs(dtype);
    command
        .add_option_function<std::string>(
            "--offset",
            [&options](const std::string& text) {
                options.offset_bytes = parse_number<std::uint64_t>(text);
                if (!options.offset_bytes)
                    throw UsageError(fmt::format("--offset {}: a number of bytes is needed", in_quotes(text)));
            },
            "Where in a raw file the data starts")
        ->type_name("BYTES")
        ->needs(dtype);
}

std::string with_stream_named(std::string text, const Input& input) {
    if (!input.stream) return text;
    const std::string file = input.stream->file();
    const std::string name = printable(input.path.native());
    for (std::size_t at = text.find(file); at != std::string::npos; at = text.find(file, at + name.size()))
        text.replace(at, file.size(), name);
    return text;
}

std::string short_name(const Input& input) {
    return input.is_stream ? input.name : printable(input.path.filename().native());
}

Input find_input(const std::string& text) {
    if (text.empty()) throw UsageError("the name of an input is empty");
    Input input;
    input.path = text == "-" ? "/dev/stdin" : text;
    input.name = printable(input.path.native());
    if (!is_there(input.path)) split_field(input);
    struct stat status {};
    const std::optional<int> descriptor = named_descriptor(input.path);
    if ((descriptor ? ::fstat(*descriptor, &status) : ::stat(input.path.c_str(), &status)) != 0) return input;
    const bool is_partly_read = descriptor && S_ISREG(status.st_mode) && ::lseek(*descriptor, 0, SEEK_CUR) > 0;
    input.is_stream = S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || S_ISCHR(status.st_mode) || is_partly_read;
    input.identity = {status.st_dev, status.st_ino};
    return input;
}

void identify(Input& input, const RawOptions& options) {
    naming(input, [&] {
        if (input.is_stream) input.stream = std::make_shared<Stream>(input.path);
        input.is_raw = options.dtype && input.field.empty() && !starts_as_npy(input);
        if (!input.is_raw && is_archive(input)) open_archive(input);
    });
}

void check_raw_options(const RawOptions& options, std::initializer_list<const Input*> inputs) {
    if (!options.shape && !options.offset_bytes) return;
    for (const Input* input : inputs) {
        if (input->is_raw) return;
    }
    throw UsageError(
        fmt::format("--{} is for raw files, and {} is a .npy file", options.shape ? "shape" : "offset", (*inputs.begin())->name));
}

npy::File open_npy(const Input& input, bool strict) {
    try {
        if (input.archive) return input.archive->member(*input.member, strict);
        return npy::File::open(input.source(), strict, {.may_stay_unmapped = true});
    } catch (const Error& error) {
        explain(error, input);
    }
}

npy::Header read_stream_header(const Input& input) {
    try {
        std::vector<std::byte> start = input.stream->start(telling_bytes);
        const std::string name = input.path.string();
        start = input.stream->start(npy::header_bytes(start, name));
        return npy::parse_header(start, name);
    } catch (const Error& error) {
        explain(error, input);
    }
}

void naming(const std::string& name, const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& error) {
        const std::string_view message = error.what();
        // A field's name is not part of what the library calls its file.
        const std::string_view file = std::string_view(name).substr(0, message.find(':'));
        if (!file.empty() && message.starts_with(file)) throw;
        throw Error(error.code(), fmt::format("{}: {}", name, message), error.native_code());
    }
}

void naming(const Input& input, const std::function<void()>& work) {
    naming(input.name, [&] {
        try {
            work();
        } catch (const Error& error) {
            if (!input.stream) throw;
            throw Error(error.code(), with_stream_named(error.what(), input), error.native_code());
        }
    });
}

std::string field_list(const std::vector<npy::Field>& fields) {
    static constexpr std::size_t enough = 300;  // characters; more would hide the message around it
    std::string list;
    const auto add = [&list](const auto& self, const std::vector<npy::Field>& level, const std::string& prefix) -> void {
        for (const npy::Field& field : level) {
            if (list.size() > enough) break;
            const std::string path = prefix + field.name;
            if (!field.fields.empty() && field.type.subarray.empty()) {
                self(self, field.fields, path + ".");
            } else {
                list += (list.empty() ? "" : ", ") + in_quotes(path);
            }
        }
    };
    add(add, fields, "");
    return list.size() > enough ? list + ", ..." : list;
}

}  // namespace tandem::command
