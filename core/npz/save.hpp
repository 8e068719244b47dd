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

/// What `save` does once the names are checked and the file is open. `between_pieces`, if any, is called often, and may throw to
/// end it.
void write_archive(OutputFile& file, const std::vector<Entry>& entries, bool compressed,
                   const std::function<void()>& between_pieces);

}  // namespace tandem::npz
