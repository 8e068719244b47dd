#pragma once
// Archives as inputs: FILE:MEMBER, and FILE:MEMBER:FIELD.

#include "tools/inputs.hpp"

namespace tandem::command {

/// Whether `input`, whose stream is open, is an archive, by its first bytes; without those of a ZIP file by its name, .npz, where
/// it does not start as a .npy file does.
bool is_archive(const Input& input);

/// Opens the archive, for which a stream is read to its end, and finds the member in `input.field`: what names a member is one,
/// and else what is in front of a colon; a field follows. Throws out_of_range naming the members there are.
void open_archive(Input& input);

/// What `double x.npz` and the like are told: that one of its members has to be named.
[[noreturn]] void refuse_whole_archive(const Input& input);

}  // namespace tandem::command
