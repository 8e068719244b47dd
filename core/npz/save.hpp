#pragma once
// Writing archives.

#include <filesystem>
#include <functional>
#include <vector>

#include "core/output_file.hpp"
#include "tandem/npz.hpp"

namespace tandem::npz {

/// Throws invalid_argument where an archive at `path` can't have members of these names.
void check_names(const std::filesystem::path& path, const std::vector<Entry>& entries);

/// Called often, with how many bytes of an array have been written since; may throw to end the writing.
using BetweenPieces = std::function<void(std::uint64_t done_bytes)>;

/// What `save` does once the names are checked and the file is open. `between_pieces` may be empty.
void write_archive(OutputFile& file, const std::vector<Entry>& entries, bool compressed, const BetweenPieces& between_pieces);

}  // namespace tandem::npz
