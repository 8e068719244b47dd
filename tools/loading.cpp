#include "tools/loading.hpp"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "core/adoption.hpp"
#include "core/posix_file.hpp"
#include "core/printable.hpp"
#include "core/raw.hpp"
#include "tools/archives.hpp"
#include "tools/progress.hpp"

namespace tandem::command {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", name, why));
}

// The dtype to compute with for items of `type`, or an error that says what to do instead.
DType number_type(const Input& input, const npy::ItemType& type, const std::vector<npy::Field>& fields,
                  std::optional<DType> stated) {
    if (!fields.empty()) {
        const std::string outer = input.field.empty() ? std::string() : input.field + ".";
        refuse(input.name,
               fmt::format("its items are structured, with the fields {}; name one as {}:{}{}FIELD", field_list(fields),
                           short_name(input), input.member ? printable(*input.member) + ":" : "", printable(outer)));
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
        refuse(input.name,
               fmt::format("its items are dates or durations ({}); --dtype int64 takes them as plain integers, NaT as "
                           "the smallest",
                           in_quotes(type.descr)));
    }
    if (stated && *stated != *type.dtype) {
        refuse(input.name, fmt::format("its items are {}, not {} as --dtype says", to_string(*type.dtype), to_string(*stated)));
    }
    return *type.dtype;
}

// The type of the elements that `input` names, of a file or of a field.
npy::ItemType element_type(const Input& input, const npy::Header& header, const RawOptions& options) {
    npy::Field item;
    if (input.field.empty()) {
        item.type = header.type;
        item.fields = header.fields;
    } else {
        item = npy::find_field(header, input.field);
    }
    item.type.dtype = number_type(input, item.type, item.fields, options.dtype);
    return item.type;
}

std::uint64_t raw_offset(const RawOptions& options) {
    return options.offset_bytes.value_or(0);
}

// The bytes that --shape asks for.
std::optional<std::uint64_t> raw_bytes(const RawOptions& options) {
    if (!options.shape) return std::nullopt;
    const std::size_t item_bytes = size_bytes(*options.dtype);
    return static_cast<std::uint64_t>(element_count(*options.shape, item_bytes)) * item_bytes;
}

// Where the data of `needed` bytes ends; what no file can hold stays more than that.
std::uint64_t raw_end(const RawOptions& options, std::uint64_t needed) {
    static constexpr std::uint64_t longest = std::uint64_t{1} << 62U;
    return std::min(raw_offset(options), longest) + std::min(needed, longest);
}

// Refuses bytes behind the data; too few are found when loading.
void check_raw_strict(const Input& input, const RawOptions& options, std::uint64_t file_bytes) {
    const std::uint64_t offset = raw_offset(options);
    const std::optional<std::uint64_t> needed = raw_bytes(options);
    if (!needed || offset > file_bytes || *needed >= file_bytes - offset) return;
    throw Error(ErrorCode::bad_file, fmt::format("{}: offset {}: end of file needed after the data, {} more bytes found",
                                                 input.name, offset + *needed, file_bytes - offset - *needed));
}

// Keeps a stream's bytes up to `end`. Whether more follow is only known by reading on.
void keep_data(const Input& input, std::uint64_t end, bool strict) {
    if (input.stream->keep(end) < end || !strict || input.stream->skip(end + 1) <= end) return;
    throw Error(ErrorCode::bad_file,
                fmt::format("{}: offset {}: end of stream needed after the data, more found", input.name, end));
}

void keep_raw(const Input& input, const RawOptions& options, bool strict) {
    const std::optional<std::uint64_t> needed = raw_bytes(options);
    input.stream->skip(raw_offset(options));
    if (needed) {
        keep_data(input, raw_end(options, *needed), strict);
    } else {
        input.stream->keep_all();
    }
}

void check_raw_extent(const std::string& name, const RawOptions& options, std::uint64_t file_bytes) {
    (void)raw::shape_in_file(name, file_bytes, *options.dtype, options.shape, raw_offset(options));
}

// Standard input and its kind, where it is a file: whoever reads on finds what follows the data.
void leave_rest(const Input& input, std::uint64_t end) {
    const std::optional<int> descriptor = named_descriptor(input.path);
    if (descriptor && !input.stream) ::lseek(*descriptor, static_cast<off_t>(end), SEEK_SET);
}

// One field of the records in the file itself, where the device can; shape and strides are those of `npy::Records`.
Array map_field(const Device& device, const npy::File& file, const npy::Field& field, DType dtype) {
    const npy::Header& header = file.header();
    Shape shape = header.shape;
    Strides strides = dense_strides(shape, header.type.item_bytes, header.fortran_order ? Order::fortran : Order::c);
    const Strides inner = dense_strides(field.type.subarray, size_bytes(dtype));
    shape.insert(shape.end(), field.type.subarray.begin(), field.type.subarray.end());
    strides.insert(strides.end(), inner.begin(), inner.end());
    const auto offset = static_cast<std::size_t>(file.data_offset_bytes()) + field.offset_bytes;
    Array array(adopt_bytes(device, file.mapping()), dtype, shape, strides, offset);
    array.set_residency(array.zero_copy(), fmt::format("{}; {}", array.residency(), printable(file.name())));
    return array;
}

Array load_field(const Device& device, const Input& input, const npy::File& file, DType dtype, MemoryKind kind) {
    const npy::Field field = npy::find_field(file.header(), input.field);
    std::string why_copied;
    if (kind == MemoryKind::adopted) {
        why_copied = improper_reason(dtype, field.type.swapped);
        if (why_copied.empty()) return map_field(device, file, field, dtype);
        kind = MemoryKind::device;
    }
    Array array = npy::load_fields(device, file, kind).field(input.field);
    // Untyped items come as bytes along a last dimension, which as one element each it has to give up.
    if (!field.type.dtype) array = array.view_as(dtype).at(array.dimensions() - 1, 0);
    if (!why_copied.empty()) array.set_residency(ZeroCopy::no, fmt::format("{}: {}", array.residency(), why_copied));
    return array;
}

// Fields lie among others: what is shared is their elements alone.
Array shareable_copy(const Array& array) {
    const Order order = array.is_dense(Order::c) || !array.is_dense(Order::fortran) ? Order::c : Order::fortran;
    Array made = empty_shareable(array.device(), array.dtype(), array.shape(), array.kind(), order);
    Queue queue(array.device());
    copy(queue, array, made);
    queue.synchronize();
    return made;
}

Array load_npy(const Device& device, const Input& input, const RawOptions& options, bool strict, MemoryKind kind,
               bool shareable) {
    if (input.archive && !input.member) refuse_whole_archive(input);
    if (input.stream && !input.archive) {
        const npy::Header header = read_stream_header(input);
        element_type(input, header, options);
        keep_data(input, header.data_offset + header.data_bytes, strict);
    }
    const npy::File file = open_npy(input, strict);
    const npy::ItemType type = element_type(input, file.header(), options);
    Array array = !input.field.empty() && shareable ? shareable_copy(load_field(device, input, file, *type.dtype, kind))
                  : !input.field.empty()            ? load_field(device, input, file, *type.dtype, kind)
                  : kind == MemoryKind::adopted     ? npy::map(device, file, {}, options.dtype)
                                                    : npy::load(device, file,
                                                                {.as = options.dtype,
                                                                 .kind = kind,
                                                                 .transfer = show_progress("reading " + input.name),
                                                                 .shareable = shareable});
    if (!input.archive) leave_rest(input, file.header().data_offset + file.header().data_bytes);
    return array;
}

Array load_raw(const Device& device, const Input& input, const RawOptions& options, bool strict, MemoryKind kind,
               bool shareable) {
    if (input.stream) {
        keep_raw(input, options, strict);
    } else if (strict) {
        check_raw_strict(input, options, MappedFile::open(input.path).size_bytes());
    }
    Array array = kind == MemoryKind::adopted
                      ? raw::map(device, input.source(), *options.dtype, options.shape, raw_offset(options))
                      : raw::load(device, input.source(), *options.dtype, options.shape, raw_offset(options),
                                  {.kind = kind, .transfer = show_progress("reading " + input.name), .shareable = shareable});
    leave_rest(input, raw_offset(options) + array.size_bytes());
    return array;
}

Region find_raw_region(const Input& input, const RawOptions& options, bool strict) {
    Region region;
    region.file = MappedFile::open(input.path, {.may_stay_unmapped = true});
    const std::uint64_t file_bytes = region.file.size_bytes();
    if (strict) check_raw_strict(input, options, file_bytes);
    region.dtype = *options.dtype;
    region.item_bytes = region.element_bytes = size_bytes(region.dtype);
    region.offset_bytes = raw_offset(options);
    region.size_bytes = file_bytes - std::min(file_bytes, region.offset_bytes);
    check_raw_extent(input.name, options, file_bytes);
    if (const auto needed = raw_bytes(options)) region.size_bytes = *needed;
    return region;
}

Array load_either(const Device& device, const Input& input, const RawOptions& options, bool strict, MemoryKind kind,
                  bool shareable) {
    Array array;
    naming(input, [&] {
        array = input.is_raw ? load_raw(device, input, options, strict, kind, shareable)
                             : load_npy(device, input, options, strict, kind, shareable);
        if (!input.stream) return;
        const std::string where = with_stream_named(array.residency(), input);
        array.set_residency(ZeroCopy::no, kind == MemoryKind::adopted ? "read from a stream into memory; " + where : where);
    });
    return array;
}

}  // namespace

Array load(const Device& device, const Input& input, const RawOptions& options, bool strict, MemoryKind kind) {
    return load_either(device, input, options, strict, kind, false);
}

Array load_shareable(const Device& device, const Input& input, const RawOptions& options, bool strict, MemoryKind kind) {
    return load_either(device, input, options, strict, kind, true);
}

Region find_region(const Input& input, const RawOptions& options, bool strict) {
    Region region;
    naming(input, [&] {
        if (input.is_raw) {
            region = find_raw_region(input, options, strict);
            return;
        }
        const npy::File file = open_npy(input, strict);
        const npy::Header& header = file.header();
        const npy::ItemType type = element_type(input, header, options);
        region.file = file.mapping();
        region.offset_bytes = header.data_offset;
        region.size_bytes = header.data_bytes;
        region.item_bytes = header.type.item_bytes;
        region.element_bytes = type.item_bytes;
        if (!input.field.empty()) region.element_offset_bytes = npy::find_field(header, input.field).offset_bytes;
        region.dtype = *type.dtype;
        region.swapped = type.swapped;
        region.is_time = !type.unit.empty();
    });
    return region;
}

std::uint64_t count_trailing_bytes(const Input& input, const RawOptions& options) {
    if (!input.archive) return find_region(input, options, false).trailing_bytes();
    const npy::Header header = input.archive->read_header(*input.member);
    return input.archive->find(*input.member).size_bytes - header.data_offset - header.data_bytes;
}

RawExtent measure_raw_stream(const Input& input, const RawOptions& options, std::uint64_t further_bytes) {
    const std::optional<std::uint64_t> needed = raw_bytes(options);
    RawExtent extent;
    extent.found_bytes = needed ? input.stream->skip(raw_end(options, *needed) + further_bytes) : input.stream->skip_all();
    check_raw_extent(input.name, options, extent.found_bytes);
    extent.data_bytes = needed.value_or(extent.found_bytes - raw_offset(options));
    return extent;
}

}  // namespace tandem::command
