#pragma once
// How data is named on the command line: a .npy file, a field of one, or a raw file and what it holds.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <tandem/tandem.hpp>

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
    std::filesystem::path path;  ///< without the field
    std::string field;           ///< of a structured .npy file; else empty
    bool is_raw = false;         ///< read by RawOptions, not by a header
    bool is_stream = false;      ///< no regular file (a pipe, a terminal): it can be read once
};

/// What `text` names: a file; where there is none of that name, FILE:FIELD; "-" for standard input. With a --dtype, whatever does
/// not start as a .npy file does is raw; a .npy file's dtype is then what its untyped (void) items are. A file that is not there
/// is no error yet: opening it tells.
Input find_input(const std::string& text, const RawOptions& options);

/// The .npy file that `input` names; an error about a file that is none says how raw files are named.
npy::File open_npy(const Input& input, bool strict);

/// Refuses --shape and --offset where no input is raw: they would say nothing. Throws UsageError.
void check_raw_options(const RawOptions& options, std::initializer_list<const Input*> inputs);

/// The elements that `input` names, for computing with them, in the device's memory. With `strict`, bytes behind the data are
/// refused. Structured, text and untyped items and dates are errors that say how to go on.
Array load(const Device& device, const Input& input, const RawOptions& options, bool strict);

/// The part of a file that holds one input's elements.
struct Region {
    MappedFile file;
    std::uint64_t offset_bytes = 0;  ///< of the first item
    std::uint64_t size_bytes = 0;    ///< of all items
    std::size_t item_bytes = 1;
    std::size_t element_offset_bytes = 0;  ///< of the elements in an item; not 0 for fields alone
    std::size_t element_bytes = 1;         ///< of the elements in an item
    DType dtype = DType::uint8;
    bool swapped = false;  ///< the file's byte order is not this machine's
};

/// Where the elements lie that `load` would give, from the header alone; the same checks and errors.
Region find_region(const Input& input, const RawOptions& options, bool strict);

/// Runs `work`; an Error whose message does not start with the input's name gets it in front.
void naming(const std::string& name, const std::function<void()>& work);

/// The paths of all fields with elements of their own, nested ones with dots, as they'd be named: "'x', 'position.y'".
std::string field_list(const std::vector<npy::Field>& fields);

}  // namespace tandem::command
