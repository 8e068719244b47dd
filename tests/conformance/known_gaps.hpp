#pragma once
// What a backend can't do, and why. A test named here must fail there: one that passes has outgrown its line, and the run fails.
// "any" stands for every backend. Names go without commas, which separate them in a filter.

#include <array>

namespace tandem::test {

struct KnownGap {
    const char* backend;
    const char* kind;
    const char* test_case;
    const char* reason;
};

inline constexpr std::array<KnownGap, 1> known_gaps{{
    {"any", "adopted", "more memory than there is gives out_of_memory and the device goes on",
     "adopted memory exists, and is not the library's to allocate"},
}};

}  // namespace tandem::test
