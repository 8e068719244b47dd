#include "tandem/placement.hpp"

namespace tandem {

std::string_view to_string(MemoryKind kind) noexcept {
    switch (kind) {
        case MemoryKind::device:
            return "device";
        case MemoryKind::pinned:
            return "pinned";
        case MemoryKind::shared:
            return "shared";
        case MemoryKind::adopted:
            return "adopted";
    }
    return "?";
}

std::string_view to_string(ZeroCopy zero_copy) noexcept {
    switch (zero_copy) {
        case ZeroCopy::no:
            return "no";
        case ZeroCopy::yes:
            return "yes";
        case ZeroCopy::driver_decides:
            return "driver decides";
    }
    return "?";
}

}  // namespace tandem
