#pragma once
// The one place that reads environment variables.

#include <filesystem>
#include <string>

namespace tandem::environment {

/// TANDEM_DEVICE, or empty.
std::string device();

/// Where compiled kernels are kept: $XDG_CACHE_HOME/tandem, or $HOME/.cache/tandem; empty where neither is set, which means no
/// cache. As the XDG specification has it, a relative XDG_CACHE_HOME is ignored.
std::filesystem::path cache_directory();

/// Where the user's sockets are: $XDG_RUNTIME_DIR; empty where that is not set, or relative.
std::filesystem::path runtime_directory();

}  // namespace tandem::environment
