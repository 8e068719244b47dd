#pragma once
// Files of any size, worked on chunk by chunk.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include <tandem/array.hpp>
#include <tandem/mapped_file.hpp>
#include <tandem/npy.hpp>
#include <tandem/queue.hpp>
#include <tandem/transfer.hpp>

namespace tandem {

/// The elements of a file, to be streamed. A value; it keeps the file open.
class StreamInput {
public:
    /// The array in a .npy file. `as` says what void items of its size are. Throws invalid_argument for a structured file, and
    /// for text and void items.
    StreamInput(const npy::File& file, std::optional<DType> as = {});
    StreamInput(const std::filesystem::path& path) : StreamInput(npy::File::open(path, false, {.may_stay_unmapped = true})) {}
    /// Elements of a raw file, as `raw::load` takes them.
    static StreamInput raw(const MappedFile& file, DType dtype, const std::optional<Shape>& shape = {},
                           std::uint64_t offset_bytes = 0);

    [[nodiscard]] DType dtype() const noexcept { return dtype_; }
    [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
    [[nodiscard]] Order order() const noexcept { return order_; }

    /// For core/ alone.
    [[nodiscard]] const MappedFile& file() const noexcept { return file_; }
    [[nodiscard]] std::uint64_t offset_bytes() const noexcept { return offset_bytes_; }
    [[nodiscard]] bool is_swapped() const noexcept { return is_swapped_; }

private:
    StreamInput() = default;

    MappedFile file_;
    std::uint64_t offset_bytes_ = 0;
    DType dtype_ = DType::uint8;
    Shape shape_;
    Order order_ = Order::c;
    bool is_swapped_ = false;
};

/// What becomes of the chunks' results.
class StreamOutput {
public:
    /// Nothing: the function keeps what it wants, as a reduction does.
    StreamOutput() = default;
    /// A new .npy file of the inputs' shape and order. It appears complete or not at all; an earlier one stays until then.
    StreamOutput(std::filesystem::path path, DType dtype) : path_(std::move(path)), dtype_(dtype) {}
    /// The same without a header.
    static StreamOutput raw(std::filesystem::path path, DType dtype);
    /// An array of the inputs' shape on the queue's device, dense in their order.
    StreamOutput(const Array& array) : array_(array), dtype_(array.dtype()) {}

    /// For core/ alone.
    [[nodiscard]] const std::optional<std::filesystem::path>& path() const noexcept { return path_; }
    [[nodiscard]] const std::optional<Array>& array() const noexcept { return array_; }
    [[nodiscard]] DType dtype() const noexcept { return dtype_; }
    [[nodiscard]] bool has_header() const noexcept { return has_header_; }

private:
    std::optional<std::filesystem::path> path_;
    std::optional<Array> array_;
    DType dtype_ = DType::uint8;
    bool has_header_ = true;
};

struct StreamOptions {
    /// Bytes that the stream may take of the device and of pinned host memory together: three chunks of each input and of the
    /// output, and the device's ring (`TransferLimits`). Chunks are no larger than 64 MiB each however much there is.
    std::size_t memory_bytes = std::size_t{1} << 30U;
    /// Chunks are whole rows, along the axis whose elements lie furthest apart (the first in C order, the last in Fortran order):
    /// arrays of the inputs' shape but for the length of that axis. Without, they are one-dimensional runs of elements.
    bool by_rows = false;
    /// Where chunks begin and end is a multiple of it, in rows or elements; 0: as fits.
    std::int64_t chunk_length = 0;
    TransferOptions transfer{};
};

/// Works on one chunk: queues what makes `output` of `inputs`, which are arrays of device memory, on `queue`. It may change the
/// inputs, and does not have to wait. `output` has no elements where the stream has no output.
using StreamFunction = std::function<void(Queue& queue, std::span<const Array> inputs, const Array& output)>;

/// Calls `function` on chunk after chunk of the inputs, in order, and puts its results into `output`. Reading, copying to the
/// device, computing, copying back and writing go on side by side, and memory stays within `options.memory_bytes`, however large
/// the files are. Waits. Bytes are native and bools 0 or 1, as `npy::load` makes them.
///
/// All inputs have one shape and one order; their dtypes may differ. Progress counts the bytes of inputs that have been worked
/// on. Throws invalid_argument where shapes or orders differ, or the memory is too little for one chunk, with what is needed;
/// what reading and writing throw; cancelled; what `function` throws. Nothing is left of the output then.
void stream(Queue& queue, std::span<const StreamInput> inputs, const StreamOutput& output, const StreamFunction& function,
            const StreamOptions& options = {});

/// Replaces a file's elements chunk by chunk, in the file itself: for files too large for a second one beside them. `function`
/// gets each chunk once as its input, which is also its output.
///
/// A run that is interrupted, by a signal or by the machine's end, leaves a journal beside the file (`journal_of`), in which lies
/// what the file may have in part. Calling this again, with the same `operation` on the same elements, finishes the run: no
/// element is worked on twice. Meanwhile the file is partly changed, and the journal says so. `operation` is any text that names
/// what is done. What is written is flushed to the storage before the journal is reused.
///
/// The input's file has to be opened with FileAccess::read_write. Throws as `stream`; io where another process is at it;
/// bad_file where the journal is of another operation, or of other elements, or the file is partly changed and the journal gone
/// (`forget_interrupted_run`).
/// A failure leaves the journal, unless nothing has been changed yet.
void stream_in_place(Queue& queue, const StreamInput& input, const std::string& operation, const StreamFunction& function,
                     const StreamOptions& options = {});

/// What a run in place on `file` keeps beside it, while it lasts or after it was interrupted: ".NAME.tandem-journal", of which
/// NAME is shortened where it would be too long for the filesystem.
std::filesystem::path journal_of(const std::filesystem::path& file);

/// The journal of the run in place that has left `file` partly changed, or is at it; nothing where there is no such run. The file
/// is known by a mark on itself, which goes along when it is renamed, linked or copied with its attributes; where its filesystem
/// keeps none, by the journal beside it, and so is a copy that was made together with the journal, where it holds what the run has
/// left. The mark may outlive the journal: the path that is returned is of no file then, and nothing tells which part of the file
/// is changed. Takes a few microseconds; where there is a journal, the time to read that. Throws io where it can't be read.
/// Native calls: fgetxattr ("user.tandem.journal"), open.
std::optional<std::filesystem::path> interrupted_run(const MappedFile& file);

/// Takes a file as it is, whatever an interrupted run has left of it: where its old contents were put back, or new ones written
/// to it. Its mark and its journal are gone afterwards. False where there was neither. Throws io where a process is at the run,
/// or the mark or the journal can't be removed; bad_file where the journal in its place is of another file, which may need it.
/// Native calls: flock, fremovexattr, unlink.
bool forget_interrupted_run(const MappedFile& file);

/// Whether some process is at the run of that journal now, as far as the filesystem's locks tell. Native call: flock.
bool is_run_under_way(const std::filesystem::path& journal);

}  // namespace tandem
