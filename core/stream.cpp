#include "tandem/stream.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/npy/file.hpp"
#include "core/output_file.hpp"
#include "core/posix_file.hpp"
#include "core/raw.hpp"
#include "core/transport/journal.hpp"
#include "core/transport/pipeline.hpp"
#include "tandem/error.hpp"

namespace tandem {

StreamInput::StreamInput(const npy::File& file, std::optional<DType> as)
    : file_(file.mapping()), offset_bytes_(file.data_offset_bytes()) {
    const npy::Header& header = file.header();
    const npy::ItemType type = npy::item_type(file, as);
    if (!type.dtype || !type.subarray.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: {} items can't be streamed as elements", printable_path(file_.path()), header.type.descr));
    }
    dtype_ = *type.dtype;
    shape_ = header.shape;
    order_ = header.fortran_order ? Order::fortran : Order::c;
    is_swapped_ = type.swapped;
}

StreamInput StreamInput::raw(const MappedFile& file, DType dtype, const std::optional<Shape>& shape, std::uint64_t offset_bytes) {
    StreamInput input;
    input.shape_ = raw::shape_in_file(printable_path(file.path()), file.size_bytes(), dtype, shape, offset_bytes);
    input.file_ = file;
    input.offset_bytes_ = offset_bytes;
    input.dtype_ = dtype;
    return input;
}

StreamOutput StreamOutput::raw(std::filesystem::path path, DType dtype) {
    StreamOutput output(std::move(path), dtype);
    output.has_header_ = false;
    return output;
}

namespace {

// Waiting for the storage, twice a record, is little beside writing the largest.
constexpr std::size_t min_record_bytes = 4096, max_record_bytes = std::size_t{32} << 20U;

void check_inputs(std::span<const StreamInput> inputs) {
    if (inputs.empty()) throw Error(ErrorCode::invalid_argument, "stream: there is no input");
    const StreamInput& first = inputs[0];
    for (const StreamInput& input : inputs) {
        if (input.shape() == first.shape() && input.order() == first.order()) continue;
        const auto describe = [](const StreamInput& one) {
            return fmt::format("{} is {} in {} order", printable_path(one.file().path()), to_string(one.shape()),
                               one.order() == Order::c ? "C" : "Fortran");
        };
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("stream: {}, {}: shapes and orders must be equal", describe(first), describe(input)));
    }
}

// The host memory of a journal's record, out of all that a stream may take.
std::size_t record_bytes_of(std::size_t memory_bytes) {
    return std::clamp(memory_bytes / 8, min_record_bytes, max_record_bytes);
}

// How the inputs are cut into chunks. With a `has_record`, part of the memory is for that: `record_bytes_of`, or one unit.
Chunking chunking_of(std::span<const StreamInput> inputs, std::size_t output_item_bytes, const Device& device,
                     const StreamOptions& options, bool has_record = false) {
    const StreamInput& first = inputs[0];
    Chunking chunking;
    chunking.order = first.order();
    chunking.shape = first.shape();
    const std::int64_t count = element_count(first.shape(), 1);
    if (!options.by_rows || first.shape().empty()) chunking.shape = {count};
    chunking.axis = chunking.order == Order::c ? 0 : chunking.shape.size() - 1;
    const std::int64_t length = chunking.shape[chunking.axis];
    const std::int64_t row = length == 0 ? 0 : count / length;
    std::size_t item_bytes = output_item_bytes, largest = output_item_bytes;
    for (const StreamInput& input : inputs) {
        item_bytes += size_bytes(input.dtype());
        largest = std::max(largest, size_bytes(input.dtype()));
    }
    chunking.total_length = length;
    if (count == 0) return chunking;
    const std::size_t ring_bytes = transfer_ring_bytes(device);
    const std::size_t row_bytes = item_bytes * static_cast<std::size_t>(row);
    const std::int64_t unit = std::min(length, std::max<std::int64_t>(options.chunk_length, 1));
    const std::size_t unit_bytes = row_bytes * static_cast<std::size_t>(unit);
    const std::size_t needed = ring_bytes + Chunking::sets * unit_bytes;
    const std::size_t record_bytes = has_record ? std::max(record_bytes_of(options.memory_bytes), unit_bytes) : 0;
    if (options.memory_bytes < needed + record_bytes) {
        // The least memory that leaves so much beside an eighth of it.
        const std::size_t record =
            has_record ? std::max(std::clamp((needed - 1) / 7, min_record_bytes, max_record_bytes), unit_bytes) : 0;
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("stream: memory of {} bytes: {} needed for three chunks of {} {}, the transfer ring of {} bytes{}",
                        options.memory_bytes, needed + record, unit, options.by_rows ? "rows" : "elements", ring_bytes,
                        !has_record ? "" : fmt::format(" and a record of {} bytes", record)));
    }
    const std::size_t by_memory = (options.memory_bytes - record_bytes - ring_bytes) / (Chunking::sets * row_bytes);
    const std::size_t by_size = max_chunk_bytes / (largest * static_cast<std::size_t>(row));
    const auto fit =
        static_cast<std::int64_t>(std::min<std::uint64_t>(std::min(by_memory, by_size), static_cast<std::uint64_t>(length)));
    chunking.length = std::max(unit, fit / unit * unit);
    return chunking;
}

std::uint64_t bytes_of(std::span<const StreamInput> inputs) {
    std::uint64_t bytes = 0;
    for (const StreamInput& input : inputs)
        bytes += static_cast<std::uint64_t>(element_count(input.shape(), size_bytes(input.dtype()))) * size_bytes(input.dtype());
    return bytes;
}

std::vector<ChunkInput> chunk_inputs(std::span<const StreamInput> inputs) {
    std::vector<ChunkInput> chunk_inputs;
    for (const StreamInput& input : inputs)
        chunk_inputs.push_back(
            {std::make_shared<FileSource>(input.file(), input.offset_bytes()), input.dtype(), input.is_swapped()});
    return chunk_inputs;
}

}  // namespace

void stream(Queue& queue, std::span<const StreamInput> inputs, const StreamOutput& output, const StreamFunction& function,
            const StreamOptions& options) {
    check_inputs(inputs);
    const StreamInput& first = inputs[0];
    const bool to_file = output.path().has_value();
    const Chunking chunking = chunking_of(inputs, to_file ? size_bytes(output.dtype()) : 0, queue.device(), options);
    Meter meter(options.transfer, bytes_of(inputs), printable_path(to_file ? *output.path() : first.file().path()));
    if (const std::optional<Array>& array = output.array()) {
        if (!(array->device() == queue.device()) || array->shape() != first.shape() || !array->is_dense(first.order())) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("stream: the output has to be an array of shape {} on {}, dense in the inputs' order",
                                    to_string(first.shape()), queue.device().spec()));
        }
        const bool fortran = first.order() == Order::fortran;
        const bool is_as_chunked = chunking.shape.size() == array->shape().size();
        const Array whole = is_as_chunked ? *array : fortran ? array->transpose().reshape({-1}) : array->reshape({-1});
        run_pipeline(queue, chunk_inputs(inputs), chunking, {.array = whole}, function, options.transfer, meter);
    } else if (!to_file) {
        run_pipeline(queue, chunk_inputs(inputs), chunking, {}, function, options.transfer, meter);
    } else {
        OutputFile file(*output.path(), {.stop = options.transfer.stop});
        if (output.has_header()) {
            const std::string header = npy::format_header(output.dtype(), first.shape(), first.order() == Order::fortran);
            file.write(std::as_bytes(std::span(header)));
        }
        const auto count = static_cast<std::uint64_t>(element_count(first.shape(), size_bytes(output.dtype())));
        const std::uint64_t start = file.reserve(count * size_bytes(output.dtype()));
        run_pipeline(queue, chunk_inputs(inputs), chunking, {.sink = &file, .sink_offset_bytes = start, .dtype = output.dtype()},
                     function, options.transfer, meter);
        meter.finish();  // what the caller throws there comes before the file does
        file.commit();
        return;
    }
    meter.finish();
}

void stream_in_place(Queue& queue, const StreamInput& input, const std::string& operation, const StreamFunction& function,
                     const StreamOptions& options) {
    const MappedFile& file = input.file();
    if (file.access() != FileAccess::read_write) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: stream in place: the file is not open to be written to", printable_path(file.path())));
    }
    const std::span<const StreamInput> inputs(&input, 1);
    const std::uint64_t total = bytes_of(inputs);
    Meter meter(options.transfer, total, printable_path(file.path()));
    if (total != 0) {
        Chunking chunking = chunking_of(inputs, 0, queue.device(), options, true);
        const std::uint64_t row_bytes = total / static_cast<std::uint64_t>(chunking.total_length);
        const auto unit = static_cast<std::uint64_t>(std::clamp<std::int64_t>(options.chunk_length, 1, chunking.total_length));
        Journal journal(file, {fmt::format("{} {}", operation, to_string(input.dtype())), input.offset_bytes(), total,
                               row_bytes * unit, record_bytes_of(options.memory_bytes)});
        chunking.begin = static_cast<std::int64_t>(journal.done_bytes() / row_bytes);
        meter.add(journal.done_bytes());
        run_pipeline(queue, chunk_inputs(inputs), chunking,
                     {.sink = &journal, .sink_offset_bytes = journal.done_bytes(), .dtype = input.dtype(), .is_input = true},
                     function, options.transfer, meter);
        meter.finish();  // what the caller throws there leaves a run to be finished
        journal.finish();
        return;
    }
    meter.finish();
}

}  // namespace tandem
