#pragma once
// Files that an interrupted run in place has left partly changed.

#include <string>

#include "tools/inputs.hpp"
#include "tools/outputs.hpp"

namespace tandem::command {

/// What there is to say of the file at `input`, and what finishes it; empty where the file is whole.
std::string unfinished_text(const Input& input);

/// Refuses a file that is partly changed. Throws bad_file with what finishes it.
void check_is_whole(const Input& input);

/// Refuses to replace such a file: its journal would be left without it.
void check_is_whole(const Output& output);

}  // namespace tandem::command
