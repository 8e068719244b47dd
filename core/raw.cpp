#include "tandem/raw.hpp"

#include <fmt/format.h>

#include "core/adoption.hpp"
#include "core/file_transfer.hpp"
#include "core/output_file.hpp"
#include "core/posix_file.hpp"
#include "core/raw.hpp"
#include "core/staging.hpp"
#include "tandem/error.hpp"

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
                MemoryKind kind) {
    Array array = empty(device, dtype, shape, kind);
    load_bytes(file, offset_bytes, array);
    make_proper(array, false);
    array.set_residency(ZeroCopy::no, fmt::format("{}, loaded from {}", array.residency(), printable_path(file.path())));
    return array;
}

}  // namespace

Array load(const Device& device, const std::filesystem::path& path, DType dtype, const std::optional<Shape>& shape,
           std::uint64_t offset_bytes, MemoryKind kind) {
    const MappedFile file = MappedFile::open(path);
    return load_from(device, file, dtype, shape_of(file, dtype, shape, offset_bytes), offset_bytes, kind);
}

Array map(const Device& device, const std::filesystem::path& path, DType dtype, const std::optional<Shape>& shape,
          std::uint64_t offset_bytes, FileAccess access, const AdoptOptions& options) {
    const MappedFile file = MappedFile::open(path, access);
    const Shape found = shape_of(file, dtype, shape, offset_bytes);
    if (const std::string reason = improper_reason(dtype, false); !reason.empty()) {
        return copy_improper(device, file, options, reason,
                             [&] { return load_from(device, file, dtype, found, offset_bytes, options.fallback); });
    }
    const std::uint64_t bytes = static_cast<std::uint64_t>(element_count(found, size_bytes(dtype))) * size_bytes(dtype);
    Array array(adopt_file(device, file, offset_bytes, bytes, options), dtype, found);
    array.set_residency(array.zero_copy(), fmt::format("{}; {}", array.residency(), printable_path(path)));
    return array;
}

void save(const std::filesystem::path& path, const Array& array) {
    const Array elements = dense(array, DenseOrder::c);
    OutputFile file(path);
    save_bytes(elements, file);
    file.commit();
}

}  // namespace tandem::raw
