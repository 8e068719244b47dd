#include "tools/inputs.hpp"

#include <array>
#include <charconv>
#include <fstream>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "core/printable.hpp"
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

bool starts_as_npy(const fs::path& path) {
    static constexpr std::string_view magic = "\x93NUMPY";
    std::array<char, magic.size()> start{};
    std::ifstream file(path, std::ios::binary);
    return file.read(start.data(), start.size()) && std::string_view(start.data(), start.size()) == magic;
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

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", name, why));
}

// The dtype to compute with for items of `type`, or an error that says what to do instead.
DType number_type(const Input& input, const npy::ItemType& type, const std::vector<npy::Field>& fields,
                  std::optional<DType> stated) {
    if (!fields.empty()) {
        const std::string outer = input.field.empty() ? std::string() : input.field + ".";
        refuse(input.name, fmt::format("its items are structured, with the fields {}; name one as {}:{}FIELD", field_list(fields),
                                       printable(input.path.filename().native()), printable(outer)));
    }
    if (!type.dtype) {
        if (type.descr.find('V') == std::string::npos) {
            refuse(input.name, fmt::format("its items are text ({}), not numbers", in_quotes(type.descr)));
        }
        if (!stated) {
            refuse(input.name,
                   fmt::format("its items have no type ({}); say what they are, as in --dtype bfloat16", in_quotes(type.descr)));
        }
        if (type.item_bytes != size_bytes(*stated) || !type.subarray.empty()) {
            refuse(input.name, fmt::format("its items ({}) can't be taken as {}", in_quotes(type.descr), to_string(*stated)));
        }
        return *stated;
    }
    if (!type.unit.empty() && !stated) {
        refuse(input.name, fmt::format("its items are dates or durations ({}); --dtype int64 computes with their counts",
                                       in_quotes(type.descr)));
    }
    if (stated && *stated != *type.dtype) {
        refuse(input.name, fmt::format("its items are {}, not {} as --dtype says", to_string(*type.dtype), to_string(*stated)));
    }
    return *type.dtype;
}

void check_field_source(const Input& input) {
    if (input.is_stream) refuse(input.name, "a field can be read from a regular file alone, not from a pipe");
}

// Refuses bytes behind those that the options ask for; too few are found when loading.
void check_raw_strict(const Input& input, const RawOptions& options, std::uint64_t file_bytes) {
    if (!options.shape || options.offset_bytes.value_or(0) > file_bytes) return;
    const std::size_t item_bytes = size_bytes(*options.dtype);
    const std::uint64_t needed = static_cast<std::uint64_t>(element_count(*options.shape, item_bytes)) * item_bytes;
    const std::uint64_t end = options.offset_bytes.value_or(0) + needed;
    if (end < file_bytes) {
        throw Error(ErrorCode::bad_file, fmt::format("{}: offset {}: end of file needed after the data, {} more bytes found",
                                                     input.name, end, file_bytes - end));
    }
}

Array load_field(const Device& device, const Input& input, const RawOptions& options, bool strict) {
    check_field_source(input);
    const npy::File file = open_npy(input, strict);
    const npy::Field field = npy::find_field(file.header(), input.field);
    const DType dtype = number_type(input, field.type, field.fields, options.dtype);
    Array array = npy::load_fields(device, input.path).field(input.field);
    // Untyped items come as bytes along a last dimension, which as one element each it has to give up.
    return field.type.dtype ? array : array.view_as(dtype).at(array.dimensions() - 1, 0);
}

}  // namespace

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

Input find_input(const std::string& text, const RawOptions& options) {
    if (text.empty()) throw UsageError("the name of an input is empty");
    Input input;
    input.path = text == "-" ? "/dev/stdin" : text;
    input.name = printable(input.path.native());
    if (!is_there(input.path)) split_field(input);
    std::error_code ignored;
    const fs::file_status status = fs::status(input.path, ignored);
    input.is_stream = fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
    input.is_raw = options.dtype && input.field.empty() && (input.is_stream || !starts_as_npy(input.path));
    return input;
}

void check_raw_options(const RawOptions& options, std::initializer_list<const Input*> inputs) {
    if (!options.shape && !options.offset_bytes) return;
    for (const Input* input : inputs) {
        if (input->is_raw) return;
    }
    throw UsageError(
        fmt::format("--{} is for raw files, and {} is a .npy file", options.shape ? "shape" : "offset", (*inputs.begin())->name));
}

Array load(const Device& device, const Input& input, const RawOptions& options, bool strict) {
    Array array;
    naming(input.name, [&] {
        if (!input.field.empty()) {
            array = load_field(device, input, options, strict);
        } else if (input.is_raw) {
            if (strict && !input.is_stream) check_raw_strict(input, options, MappedFile::open(input.path).size_bytes());
            array = raw::load(device, input.path, *options.dtype, options.shape, options.offset_bytes.value_or(0));
        } else {
            const npy::File file = open_npy(input, strict);
            number_type(input, file.header().type, file.header().fields, options.dtype);
            array = npy::load(device, file, options.dtype);
        }
    });
    return array;
}

Region find_region(const Input& input, const RawOptions& options, bool strict) {
    Region region;
    naming(input.name, [&] {
        if (input.is_raw) {
            region.file = MappedFile::open(input.path);
            const std::uint64_t file_bytes = region.file.size_bytes();
            if (strict) check_raw_strict(input, options, file_bytes);
            region.dtype = *options.dtype;
            region.item_bytes = region.element_bytes = size_bytes(region.dtype);
            region.offset_bytes = options.offset_bytes.value_or(0);
            region.size_bytes =
                options.shape ? static_cast<std::uint64_t>(element_count(*options.shape, region.item_bytes)) * region.item_bytes
                              : file_bytes - std::min(file_bytes, region.offset_bytes);
            if (region.size_bytes % region.item_bytes != 0) {
                throw Error(ErrorCode::bad_file,
                            fmt::format("{}: offset {}: a multiple of {} bytes needed for {}, {} found", input.name,
                                        region.offset_bytes, region.item_bytes, to_string(region.dtype), region.size_bytes));
            }
            return;
        }
        if (!input.field.empty()) check_field_source(input);
        const npy::File file = open_npy(input, strict);
        const npy::Header& header = file.header();
        region.file = file.mapping();
        region.offset_bytes = header.data_offset;
        region.size_bytes = header.data_bytes;
        region.item_bytes = region.element_bytes = header.type.item_bytes;
        npy::ItemType type = header.type;
        std::vector<npy::Field> fields = header.fields;
        if (!input.field.empty()) {
            const npy::Field field = npy::find_field(header, input.field);
            type = field.type;
            fields = field.fields;
            region.element_offset_bytes = field.offset_bytes;
            region.element_bytes = type.item_bytes;
        }
        region.dtype = number_type(input, type, fields, options.dtype);
        region.swapped = type.swapped;
    });
    return region;
}

npy::File open_npy(const Input& input, bool strict) {
    try {
        return npy::File::open(input.path, strict);
    } catch (const Error& error) {
        const bool may_be_raw = error.code() == ErrorCode::bad_file && input.path.extension() != ".npy";
        if (!may_be_raw || input.is_stream || starts_as_npy(input.path)) throw;
        throw Error(error.code(), fmt::format("{}; a raw file needs --dtype", error.what()), error.native_code());
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
