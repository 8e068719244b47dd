#pragma once
// Typed expressions on the host: the host backend's kernels, and what is the same for all elements on any device.

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/expression/program.hpp"
#include "core/expression/source.hpp"
#include "tandem/host_function.hpp"

namespace tandem::expression {

/// A number that a call gives, as the bytes of its dtype.
struct ScalarBytes {
    std::array<std::byte, 16> bytes{};
};

/// The program's uniforms, two words each, as kernels take them. `scalars` has the bytes of each operand that is no array. Throws
/// invalid_argument, with the column, for a number that does not fit the type that it becomes.
std::vector<std::uint64_t> evaluate_uniforms(std::string_view operation, const Program& program,
                                             std::span<const ScalarBytes> scalars);

/// Elements that are worked on together, one operation after the other: few enough that all their values stay in a core's own
/// caches.
inline constexpr std::int64_t block_elements = 1024;

/// The program as a kernel for the host backend, which takes what source.hpp says of kernels and is called with
/// elements as its items.
HostFunction host_function(std::shared_ptr<const Program> program, Layout layout);

}  // namespace tandem::expression
