#pragma once
// What kind of file it is, by its first bytes.

#include <cstddef>
#include <span>
#include <string_view>

namespace tandem::npy {

/// The kind of file that `start` begins, with its article: "a zip archive, perhaps .npz"; empty for an unknown one.
std::string_view file_kind(std::span<const std::byte> start) noexcept;

}  // namespace tandem::npy
