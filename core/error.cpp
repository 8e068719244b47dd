#include "tandem/error.hpp"

namespace tandem {

std::string_view to_string(ErrorCode code) noexcept {
    switch (code) {
        case ErrorCode::invalid_argument:
            return "invalid_argument";
        case ErrorCode::out_of_range:
            return "out_of_range";
        case ErrorCode::out_of_memory:
            return "out_of_memory";
        case ErrorCode::unavailable:
            return "unavailable";
        case ErrorCode::unsupported:
            return "unsupported";
        case ErrorCode::build_failed:
            return "build_failed";
        case ErrorCode::device_lost:
            return "device_lost";
        case ErrorCode::bad_file:
            return "bad_file";
        case ErrorCode::io:
            return "io";
        case ErrorCode::cancelled:
            return "cancelled";
        case ErrorCode::timed_out:
            return "timed_out";
        case ErrorCode::internal:
            return "internal";
    }
    return "internal";
}

}  // namespace tandem
