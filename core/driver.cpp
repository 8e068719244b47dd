#include "core/driver.hpp"

namespace tandem::driver {

std::string Queue::prefetch(Memory& memory, std::size_t /*offset_bytes*/, std::size_t /*size_bytes*/, Location /*where*/) {
    return memory.residency().zero_copy == ZeroCopy::yes ? "both sides use it in place" : "it does not move";
}

std::string Device::advise(Memory& memory, std::size_t /*offset_bytes*/, std::size_t /*size_bytes*/, MemoryAdvice /*advice*/) {
    return memory.residency().zero_copy == ZeroCopy::yes ? "both sides use it in place" : "the driver takes no advice on it";
}

}  // namespace tandem::driver
