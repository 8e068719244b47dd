#pragma once
// --memory stream: files of any size, chunk by chunk.

#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include "tools/compute.hpp"
#include "tools/outputs.hpp"

namespace tandem::command {

/// The elements that `input` names, to be streamed. Throws UsageError for what can't be: a pipe, which can be read only once and
/// has to be kept anyway, and a field of a structured file.
StreamInput open_chunked(const Input& input, const ComputeOptions& options, FileAccess access = FileAccess::read);

/// Writes to `output` what `function` makes of the inputs, which have one dtype; `what` is what is done in words,
/// which `summary` prints.
void stream_to(const Output& output, const std::vector<StreamInput>& inputs, const StreamFunction& function,
               const ComputeOptions& options, const Device& device, const std::string& what, const Summary& summary);

/// Has `function` change the elements of `input`, open to be written to, in the file itself; finishes a run that was interrupted.
void stream_over(const StreamInput& input, const std::string& operation, const StreamFunction& function,
                 const ComputeOptions& options, const Device& device, const std::string& what, Summary& summary);

}  // namespace tandem::command
