#include "tandem/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "core/adoption.hpp"
#include "core/elementwise.hpp"
#include "core/npy/file.hpp"
#include "core/npy/header.hpp"
#include "core/output_file.hpp"
#include "core/printable.hpp"
#include "core/share/shareable.hpp"
#include "core/staging.hpp"
#include "core/transport/file_transfer.hpp"
#include "core/transport/region.hpp"
#include "tandem/error.hpp"
#include "tandem/ops.hpp"

namespace tandem::npy {

File File::open(const std::filesystem::path& path, bool strict, const MapOptions& mapping) {
    MappedFile file = MappedFile::open(path, mapping);
    const std::uint64_t file_bytes = file.size_bytes();
    std::uint64_t position = 0;
    ReadHeader read = read_header(file_bytes, path.native(), [&](std::span<std::byte> next) {
        file.read(position, next);
        position += next.size();
    });
    return {std::move(file), std::move(read.header), path.native(), 0, file_bytes, strict};
}

File::File(MappedFile mapping, Header header, std::string name, std::uint64_t start_bytes, std::uint64_t size_bytes, bool strict)
    : mapping_(std::move(mapping)),
      header_(std::move(header)),
      name_(std::move(name)),
      start_bytes_(start_bytes),
      size_bytes_(size_bytes) {
    check_data_present(header_, name_, size_bytes_);
    if (strict && trailing_bytes() != 0) {
        throw Error(ErrorCode::bad_file, fmt::format("{}: offset {}: end of file needed after the data, {} more bytes found",
                                                     printable(name_), size_bytes_ - trailing_bytes(), trailing_bytes()));
    }
}

std::span<const std::byte> File::bytes() const noexcept {
    if (!mapping_.is_mapped()) return {};
    return mapping_.bytes().subspan(data_offset_bytes(), header_.data_bytes);
}

std::uint64_t File::trailing_bytes() const noexcept {
    return size_bytes_ - header_.data_offset - header_.data_bytes;
}

ItemType item_type(const Header& header, std::string_view file_name, std::optional<DType> as) {
    const std::string name = printable(file_name);
    if (!header.fields.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: its items are structured, {}: load its fields instead", name, header.type.descr));
    }
    ItemType type = header.type;
    if (as && type.dtype != as) {
        const bool opaque = !type.dtype && type.subarray.empty() && type.descr.find('V') != std::string::npos;
        if (!opaque || type.item_bytes != size_bytes(*as)) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("{}: {} items can't be taken as {}", name, type.descr, to_string(*as)));
        }
        type.dtype = as;
    }
    return type;
}

ItemType item_type(const File& file, std::optional<DType> as) {
    return item_type(file.header(), file.name(), as);
}

Loaded loaded_as(const ItemType& type, const Header& header) {
    Shape item_shape = type.subarray;
    if (!type.dtype) {
        std::int64_t items = 1;
        for (const std::int64_t length : type.subarray)
            items *= length;
        item_shape.push_back(items != 0 ? static_cast<std::int64_t>(type.item_bytes) / items : 0);
    }
    Loaded loaded{type.dtype.value_or(uint8), header.shape, {}};
    loaded.strides_bytes = dense_strides(header.shape, header.type.item_bytes, header.fortran_order ? Order::fortran : Order::c);
    const Strides inner = dense_strides(item_shape, size_bytes(loaded.dtype));
    loaded.shape.insert(loaded.shape.end(), item_shape.begin(), item_shape.end());
    loaded.strides_bytes.insert(loaded.strides_bytes.end(), inner.begin(), inner.end());
    return loaded;
}

namespace {

Array array_on(const Buffer& buffer, const ItemType& type, const Header& header) {
    const Loaded loaded = loaded_as(type, header);
    return {buffer, loaded.dtype, loaded.shape, loaded.strides_bytes, 0};
}

// What makes the bytes of a dense array of `dtype` in `buffer` proper elements.
Conversion conversion_to(const Buffer& buffer, DType dtype, bool is_swapped) {
    if (improper_reason(dtype, is_swapped).empty()) return {};
    return {size_bytes(dtype), [&buffer, dtype, is_swapped](Queue& queue, std::size_t begin_bytes, std::size_t part_bytes) {
                const auto count = static_cast<std::int64_t>(part_bytes / size_bytes(dtype));
                make_proper(queue, Array(buffer, dtype, Shape{count}, begin_bytes), is_swapped);
            }};
}

}  // namespace

Array load(const Device& device, const File& file, const LoadOptions& options) {
    const ItemType type = item_type(file, options.as);
    Header part = file.header();
    part.shape = shape_of_ranges(printable(file.name()), part.shape, options.ranges);
    const Order order = part.fortran_order ? Order::fortran : Order::c;
    const Region region(file.header().shape, order, type.item_bytes, options.ranges);
    const Buffer buffer = make_buffer(device, static_cast<std::size_t>(region.size_bytes()), options.kind, options.shareable);
    Array array = array_on(buffer, type, part);
    const Array bytes(buffer, uint8, {static_cast<std::int64_t>(buffer.size_bytes())});
    const Conversion conversion = conversion_to(buffer, array.dtype(), type.swapped);
    const std::uint64_t start = file.data_offset_bytes();
    if (region.is_one_run()) {
        load_bytes(file.mapping(), start + region.offset_bytes(), bytes, options.transfer, conversion);
    } else {
        RegionSource source(file.mapping(), start, region);
        load_bytes(source, bytes, options.transfer, conversion);
    }
    array.set_residency(ZeroCopy::no, fmt::format("{}, loaded from {}", array.residency(), printable(file.name())));
    return array;
}

Array load(const Device& device, const std::filesystem::path& path, const LoadOptions& options) {
    return load(device, File::open(path, false, {.may_stay_unmapped = true}), options);
}

Array map(const Device& device, const File& file, const AdoptOptions& options, std::optional<DType> as) {
    const ItemType type = item_type(file, as);
    const Header& header = file.header();
    if (header.data_bytes == 0) return array_on(Buffer(device, nullptr, 0, MemoryKind::adopted), type, header);
    if (const std::string reason = improper_reason(type.dtype.value_or(uint8), type.swapped); !reason.empty()) {
        return copy_improper(device, file.mapping(), options, reason,
                             [&] { return load(device, file, {.as = as, .kind = options.fallback}); });
    }
    Array array =
        array_on(adopt_file(device, file.mapping(), file.data_offset_bytes(), header.data_bytes, options), type, header);
    array.set_residency(array.zero_copy(), fmt::format("{}; {}", array.residency(), printable(file.name())));
    return array;
}

Array map(const Device& device, const std::filesystem::path& path, FileAccess access, const AdoptOptions& options,
          std::optional<DType> as) {
    return map(device, File::open(path, false, {.access = access}), options, as);
}

Array Records::field(std::string_view path) const {
    const Field found = find_field(header_, path);
    const Loaded loaded = loaded_as(found.type, header_);
    Array array(*buffer_, loaded.dtype, loaded.shape, loaded.strides_bytes, found.offset_bytes);
    array.set_residency(ZeroCopy::no, residency_);
    return array;
}

namespace {

// Every field with elements of its own, nested ones by their path.
void for_each_leaf(const std::vector<Field>& fields, const std::string& prefix,
                   const std::function<void(const std::string&, const Field&)>& visit) {
    for (const Field& field : fields) {
        const std::string path = prefix + field.name;
        if (field.fields.empty()) {
            visit(path, field);
        } else {
            for_each_leaf(field.fields, path + ".", visit);
        }
    }
}

}  // namespace

Records load_fields(const Device& device, const File& file, MemoryKind kind, const TransferOptions& transfer) {
    const Header& header = file.header();
    if (header.fields.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: its items have no fields, they are {}", printable(file.name()), header.type.descr));
    }
    auto buffer = std::make_shared<const Buffer>(device, static_cast<std::size_t>(header.data_bytes), kind);
    const Array bytes(*buffer, uint8, {static_cast<std::int64_t>(header.data_bytes)});
    load_bytes(file.mapping(), file.data_offset_bytes(), bytes, transfer);
    Records records(header, std::move(buffer), fmt::format("{}, loaded from {}", bytes.residency(), printable(file.name())));
    Queue queue(device);
    for_each_leaf(header.fields, "", [&](const std::string& name, const Field& field) {
        make_proper(queue, records.field(name), field.type.swapped);
    });
    queue.synchronize();
    return records;
}

Records load_fields(const Device& device, const std::filesystem::path& path, MemoryKind kind, const TransferOptions& transfer) {
    return load_fields(device, File::open(path), kind, transfer);
}

void save(const std::filesystem::path& path, const Array& array, std::size_t alignment, const TransferOptions& transfer) {
    const Array elements = dense(array, DenseOrder::any);
    const bool fortran_order = !elements.is_dense(Order::c);
    const std::string header = format_header(elements.dtype(), elements.shape(), fortran_order, alignment);
    OutputFile file(path, {.stop = transfer.stop});
    file.write(std::as_bytes(std::span(header)));
    save_bytes(elements, file, transfer);
    file.commit();
}

void save(Queue& queue, const Array& array, const std::filesystem::path& path, std::size_t alignment,
          const TransferOptions& transfer) {
    queue.synchronize();
    save(path, array, alignment, transfer);
}

}  // namespace tandem::npy
