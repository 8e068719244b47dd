#pragma once
// What leaves the command: text, files, and how it ends.

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <tandem/tandem.hpp>

#include "core/output_file.hpp"
#include "tools/loading.hpp"
#include "tools/process.hpp"

namespace tandem::command {

/// The command line can't mean anything: exit status 2.
class UsageError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Writes `text` to standard output, whole. Throws io.
void print(std::string_view text);

/// Writes `text` and a newline to standard error, where it's worth trying but not worth failing.
void print_error(const std::string& text) noexcept;

/// Where results go.
struct Output {
    std::string name;  ///< for messages: "-" is /dev/stdout
    std::filesystem::path path;
    bool is_raw = false;                  ///< elements alone, in C order; else .npy
    std::optional<std::string> member{};  ///< of an archive, which `path` is then
};

/// What --help says of -o.
inline constexpr const char* output_help =
    "File to write: .npy, or raw for OUT.raw and OUT.bin, or an archive of one member for OUT.npz (arr_0, as NumPy calls it) and "
    "OUT.npz:MEMBER; - for standard output. It replaces a file of its name as a whole; OUT.npz:MEMBER refuses to";

/// What `text` names. OUT.npy is a .npy file, OUT.raw and OUT.bin are raw, OUT.npz and OUT.npz:MEMBER archives; any other name is
/// what the inputs are: raw where all of them are, else .npy. Throws invalid_argument for OUT.npz:MEMBER where there is OUT.npz:
/// its other members would be lost. A file that has the name OUT.npz:MEMBER is that file.
Output find_output(const std::string& text, std::initializer_list<const Input*> inputs);

/// Waits until what was written to the file at `path`, through mappings too, is on its storage. Throws io.
void flush_to_storage(const std::filesystem::path& path);

/// An output that is open before the work is done whose result it gets: what can't be written shows before that changes anything.
/// While one lives, an interrupt waits for `check_interrupt` (process.hpp). The file appears complete or not at all.
class OpenOutput {
public:
    /// Throws as OutputFile; invalid_argument for a member's name that can't be.
    explicit OpenOutput(Output output);

    /// Takes the disk space that `array` needs. Throws io.
    void take_space_for(const Array& array);
    /// Writes `array`, and waits. Call once.
    void save(const Array& array);
    /// Whether it is what `print` writes to.
    [[nodiscard]] bool is_standard_output() const;

private:
    Output output_;
    WritingGuard guard_;
    OutputFile file_;
};

/// Writes `array` to `output`; it appears complete or not at all. Waits.
void save(const Array& array, const Output& output);

/// Throws io where the file's name is another file's by now: what was found out about the one must not be done to the other.
void check_is_same(const MappedFile& file);

/// Replaces the bytes that `region` spans in its file by those of `items`, a dense array of bytes; what stands before
/// and behind them stays. The new file appears complete or not at all. Waits.
void replace_region(const Region& region, const Array& items);

}  // namespace tandem::command
