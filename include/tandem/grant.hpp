#pragma once
// Requests that the system may refuse.

#include <string>

namespace tandem {

/// What came of a request to the system.
struct Grant {
    bool requested = false;
    bool granted = false;
    /// Why a request was not granted, with the native call and its error; else empty. For example
    /// "mlock of 8388608 bytes: Cannot allocate memory; RLIMIT_MEMLOCK is 65536 bytes".
    std::string reason;
};

}  // namespace tandem
