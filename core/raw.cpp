#include "tandem/raw.hpp"

#include <fmt/format.h>

#include "core/adoption.hpp"
#include "core/output_file.hpp"
#include "core/posix_file.hpp"
#include "core/raw.hpp"
#include "core/staging.hpp"
#include "core/transport/file_transfer.hpp"
#include "core/transport/region.hpp"
#include "tandem/error.hpp"
#include "tandem/share.hpp"

namespace tandem::raw {

Shape shape_in_file(const std::string& name, std::uint64_t file_bytes, DType dtype, const std::optional<Shape>& shape,
                    std::uint64_t offset_bytes) {
    if (offset_bytes > file_bytes) {
        throw Error(ErrorCode::bad_file,
                    fmt::format("{}: data at offset {} needed, {} bytes found", name, offset_bytes, file_bytes));
    }
    const std::uint64_t available = file_bytes - offset_bytes;
    const std::size_t item_bytes = size_bytes(dtype);
    if (shape) {
        const auto needed = static_cast<std::uint64_t>(element_count(*shape, item_bytes)) * item_bytes;
        if (needed > available) {
            throw Error(ErrorCode::bad_file, fmt::format("{}: offset {}: {} bytes needed for shape {} of {}, {} found", name,
                                                         offset_bytes, needed, to_string(*shape), to_string(dtype), available));
        }
    } else if (available % item_bytes != 0) {
        throw Error(ErrorCode::bad_file, fmt::format("{}: offset {}: a multiple of {} bytes needed for {}, {} found", name,
                                                     offset_bytes, item_bytes, to_string(dtype), available));
    }
    return shape.value_or(Shape{static_cast<std::int64_t>(available / item_bytes)});
}

namespace {

Shape shape_of(const MappedFile& file, DType dtype, const std::optional<Shape>& shape, std::uint64_t offset_bytes) {
    return shape_in_file(printable_path(file.path()), file.size_bytes(), dtype, shape, offset_bytes);
}

Array load_from(const Device& device, const MappedFile& file, DType dtype, const Shape& shape, std::uint64_t offset_bytes,
                const LoadOptions& options) {
    if (options.as) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: a raw file's elements are {}, and can't be taken as {}", printable_path(file.path()),
                                to_string(dtype), to_string(*options.as)));
    }
    const Shape part = shape_of_ranges(printable_path(file.path()), shape, options.ranges);
    Array array =
        options.shareable ? empty_shareable(device, dtype, part, options.kind) : empty(device, dtype, part, options.kind);
    const Region region(shape, Order::c, size_bytes(dtype), options.ranges);
    Conversion conversion;
    if (!improper_reason(dtype, false).empty()) {
        const Array flat = array.reshape({-1});
        const auto item_bytes = static_cast<std::int64_t>(size_bytes(dtype));
        conversion = {size_bytes(dtype), [flat, item_bytes](Queue& queue, std::size_t begin_bytes, std::size_t part_bytes) {
                          const std::int64_t begin = static_cast<std::int64_t>(begin_bytes) / item_bytes;
                          make_proper(queue, flat.slice(0, begin, begin + static_cast<std::int64_t>(part_bytes) / item_bytes),
                                      false);
                      }};
    }
    if (region.is_one_run()) {
        load_bytes(file, offset_bytes + region.offset_bytes(), array, options.transfer, conversion);
    } else {
        RegionSource source(file, offset_bytes, region);
        load_bytes(source, array, options.transfer, conversion);
    }
    array.set_residency(ZeroCopy::no, fmt::format("{}, loaded from {}", array.residency(), printable_path(file.path())));
    return array;
}

}  // namespace

Array load(const Device& device, const MappedFile& file, DType dtype, const std::optional<Shape>& shape,
           std::uint64_t offset_bytes, const LoadOptions& options) {
    return load_from(device, file, dtype, shape_of(file, dtype, shape, offset_bytes), offset_bytes, options);
}

Array load(const Device& device, const std::filesystem::path& path, DType dtype, const std::optional<Shape>& shape,
           std::uint64_t offset_bytes, const LoadOptions& options) {
    return load(device, MappedFile::open(path, {.may_stay_unmapped = true}), dtype, shape, offset_bytes, options);
}

Array map(const Device& device, const std::filesystem::path& path, DType dtype, const std::optional<Shape>& shape,
          std::uint64_t offset_bytes, FileAccess access, const AdoptOptions& options) {
    const MappedFile file = MappedFile::open(path, access);
    const Shape found = shape_of(file, dtype, shape, offset_bytes);
    if (const std::string reason = improper_reason(dtype, false); !reason.empty()) {
        return copy_improper(device, file, options, reason,
                             [&] { return load_from(device, file, dtype, found, offset_bytes, {.kind = options.fallback}); });
    }
    const std::uint64_t bytes = static_cast<std::uint64_t>(element_count(found, size_bytes(dtype))) * size_bytes(dtype);
    Array array(adopt_file(device, file, offset_bytes, bytes, options), dtype, found);
    array.set_residency(array.zero_copy(), fmt::format("{}; {}", array.residency(), printable_path(path)));
    return array;
}

void save(const std::filesystem::path& path, const Array& array, const TransferOptions& transfer) {
    const Array elements = dense(array, DenseOrder::c);
    OutputFile file(path, {.stop = transfer.stop});
    save_bytes(elements, file, transfer);
    file.commit();
}

}  // namespace tandem::raw
