#include "core/environment.hpp"

#include <cstdlib>

namespace tandem::environment {
namespace {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? std::string(value) : std::string();
}

}  // namespace

std::string device() {
    return variable("TANDEM_DEVICE");
}

std::filesystem::path cache_directory() {
    const std::filesystem::path base = variable("XDG_CACHE_HOME");
    if (base.is_absolute()) return base / "tandem";
    const std::filesystem::path home = variable("HOME");
    return home.is_absolute() ? home / ".cache" / "tandem" : std::filesystem::path();
}

std::filesystem::path runtime_directory() {
    std::filesystem::path folder = variable("XDG_RUNTIME_DIR");
    return folder.is_absolute() ? folder : std::filesystem::path();
}

}  // namespace tandem::environment
