#pragma once
// What core/ checks of a header beyond its own text.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include <tandem/npy_header.hpp>

namespace tandem::npy {

/// Throws bad_file where a file of `file_bytes` ends before the data that `header` announces does.
void check_data_present(const Header& header, std::string_view file_name, std::uint64_t file_bytes);

/// A header, and the bytes that were read for it: at least its own, from the first on.
struct ReadHeader {
    Header header;
    std::vector<std::byte> start;
};

/// The header of a .npy file of `file_bytes`, of which `read_next` gives the next bytes. Throws as `header_bytes` and
/// `parse_header`.
ReadHeader read_header(std::uint64_t file_bytes, std::string_view file_name,
                       const std::function<void(std::span<std::byte>)>& read_next);

}  // namespace tandem::npy
