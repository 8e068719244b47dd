#pragma once
// Writing archives.

#include <filesystem>
#include <functional>
#include <vector>

#include "tandem/npz.hpp"

namespace tandem::npz {

/// What `save` does. `between_pieces`, if any, is called often, and may throw to end it.
void write_archive(const std::filesystem::path& path, const std::vector<Entry>& entries, bool compressed,
                   const std::function<void()>& between_pieces);

}  // namespace tandem::npz
