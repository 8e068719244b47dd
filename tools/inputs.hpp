#pragma once
// How data is named on the command line: a .npy file, a member of an archive, a field of either, or a raw file and what it holds.

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include "tools/stream.hpp"

namespace CLI {
class App;
}

namespace tandem::command {

/// What a file that does not describe itself holds.
struct RawOptions {
    std::optional<DType> dtype;
    std::optional<Shape> shape;
    std::optional<std::uint64_t> offset_bytes;
};

/// Adds --dtype, --shape and --offset. `options` must outlive the parsing.
void add_raw_options(CLI::App& command, RawOptions& options);

/// One input as the user named it.
struct Input {
    std::string name;            ///< for messages: as given, "-" as /dev/stdin, on one line
    std::filesystem::path path;  ///< without member and field
    std::string field;           ///< of a structured .npy file; else empty. Until `identify` it has the member too
    bool is_raw = false;         ///< read by RawOptions, not by a header
    bool is_stream = false;  ///< a pipe, a socket, a terminal, or a file that was handed over partly read: it can be read once
    std::array<std::uint64_t, 2> identity{};        ///< of what `path` leads to: device and inode
    std::shared_ptr<Stream> stream;                 ///< what `identify` opened
    std::shared_ptr<const npz::Archive> archive{};  ///< the same, where the file is one
    std::optional<std::string> member{};            ///< of the archive

    /// Where the data can be opened: a stream's in memory.
    [[nodiscard]] std::filesystem::path source() const { return stream ? stream->file() : path; }
};

/// How a member or field of it is named, in a message that begins with the whole name: a file by the name's last part.
std::string short_name(const Input& input);

/// What `text` names: a file; where there is none of that name, FILE:MEMBER, FILE:FIELD or FILE:MEMBER:FIELD; "-" for standard
/// input. Nothing is opened or read. A file that is not there is no error yet: opening it tells.
Input find_input(const std::string& text);

/// Looks at the input's first bytes, for which it opens a stream: archives are opened, and their members found. With a --dtype,
/// whatever does not start as a .npy file does is raw; a .npy file's dtype is then what its untyped (void) items are.
void identify(Input& input, const RawOptions& options);

/// The input's first bytes: enough to tell every kind of file by, and none where it can't be read.
std::vector<std::byte> first_bytes(const Input& input);

/// The .npy file that `input`, no stream, names, in an archive too; an error about a file that is none says what it is, or how
/// raw files are named.
npy::File open_npy(const Input& input, bool strict);

/// The header of the .npy stream that `input` names; nothing behind it is read. Errors as `open_npy`, but that the data is not
/// missed yet.
npy::Header read_stream_header(const Input& input);

/// Refuses --shape and --offset where no input is raw: they would say nothing. Throws UsageError.
void check_raw_options(const RawOptions& options, std::initializer_list<const Input*> inputs);

/// Runs `work`; an Error whose message does not start with the input's name gets it in front.
void naming(const std::string& name, const std::function<void()>& work);
/// The same for work on what the input holds, which knows a stream only by the file that it is kept in.
void naming(const Input& input, const std::function<void()>& work);

/// `text` of what a stream holds, with the stream's name for that of the file that it is kept in.
std::string with_stream_named(std::string text, const Input& input);

/// The paths of all fields with elements of their own, nested ones with dots, as they'd be named: "'x', 'position.y'".
std::string field_list(const std::vector<npy::Field>& fields);

}  // namespace tandem::command
