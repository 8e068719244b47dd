#pragma once
// What a descriptor of shared memory holds.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/driver.hpp"
#include "core/posix_file.hpp"
#include "core/share/process_identity.hpp"
#include "tandem/share.hpp"

namespace tandem {

struct ShareDescriptor::State {
    driver::SharedRange range;
    MemoryKind kind = MemoryKind::device;
    DType dtype = DType::uint8;
    Shape shape{0};
    Strides strides_bytes{1};
    std::size_t offset_bytes = 0;  ///< in the range
    ProcessIdentity exporter;
    std::string memory_id;
    FileDescriptor file{};  ///< not open for a handle, and where there are no bytes
};

/// Throws `code` where the elements of an array reach out of `size_bytes` bytes: "bytes -8 to 24 needed, 0 to 16 found". `what`
/// names the array. For other strides than dimensions that is invalid_argument, unless `code` is bad_file. Throws as
/// `element_count` does for the shape.
void check_inside(ErrorCode code, std::string_view what, DType dtype, const Shape& shape, const Strides& strides_bytes,
                  std::size_t offset_bytes, std::size_t size_bytes);

/// `text` without dashes and in lower case where it is 32 hexadecimal digits then; else empty.
std::string normal_uuid(std::string_view text);

/// 16 random bytes as hexadecimal digits. Throws io. Native call: getrandom.
std::string random_id();

}  // namespace tandem
