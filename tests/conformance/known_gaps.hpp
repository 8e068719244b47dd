#pragma once
// What a backend can't do, and why. A test named here must fail there: one that passes has outgrown its line, and the run fails.

#include <array>

namespace tandem::test {

struct KnownGap {
    const char* backend;
    const char* kind;
    const char* test_case;
    const char* reason;
};

inline constexpr std::array<KnownGap, 0> known_gaps{};

}  // namespace tandem::test
