#pragma once
// How far a job has come, for who is watching.

#include <string>

#include <tandem/transfer.hpp>

namespace tandem::command {

/// Options for a transfer that shows a bar on standard error, where that is a terminal and once the transfer has taken a second;
/// the bar is gone when it ends. `what` stands before it: "reading a.npy". An interrupt that a `WritingGuard` holds back ends the
/// transfer.
TransferOptions show_progress(const std::string& what);

}  // namespace tandem::command
