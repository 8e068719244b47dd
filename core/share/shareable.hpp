#pragma once
// Buffers that may be asked for as shareable.

#include "tandem/share.hpp"

namespace tandem {

/// `shareable_buffer` or a plain one.
Buffer make_buffer(const Device& device, std::size_t size_bytes, MemoryKind kind, bool is_shareable);

}  // namespace tandem
