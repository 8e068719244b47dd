#include "tandem/raw.hpp"

#include <fmt/format.h>

#include "core/file_transfer.hpp"
#include "core/output_file.hpp"
#include "core/posix_file.hpp"
#include "core/staging.hpp"
#include "tandem/error.hpp"

namespace tandem::raw {

Array load(const Device& device, const std::filesystem::path& path, DType dtype, const std::optional<Shape>& shape,
           std::uint64_t offset_bytes) {
    const MappedFile file = MappedFile::open(path);
    const std::string name = printable_path(path);
    if (offset_bytes > file.size_bytes()) {
        throw Error(ErrorCode::bad_file,
                    fmt::format("{}: data at offset {} needed, {} bytes found", name, offset_bytes, file.size_bytes()));
    }
    const std::uint64_t available = file.size_bytes() - offset_bytes;
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
    Array array = empty(device, dtype, shape.value_or(Shape{static_cast<std::int64_t>(available / item_bytes)}));
    load_bytes(file, offset_bytes, array);
    array.set_residency(fmt::format("{}, loaded from {}", array.residency(), name));
    return array;
}

void save(const std::filesystem::path& path, const Array& array) {
    const Array elements = dense(array, DenseOrder::c);
    OutputFile file(path);
    save_bytes(elements, file);
    file.commit();
}

}  // namespace tandem::raw
