#pragma once
// What core/ checks of a header beyond its own text.

#include <cstdint>
#include <string_view>

#include <tandem/npy_header.hpp>

namespace tandem::npy {

/// Throws bad_file where a file of `file_bytes` ends before the data that `header` announces does.
void check_data_present(const Header& header, std::string_view file_name, std::uint64_t file_bytes);

}  // namespace tandem::npy
