#include "core/shared_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string_view>

#include "tandem/error.hpp"

namespace tandem {

SharedLibrary::SharedLibrary(const char* file_name) : handle_(dlopen(file_name, RTLD_NOW | RTLD_LOCAL)), file_name_(file_name) {
    if (handle_ != nullptr) return;
    const char* detail = dlerror();
    const std::string_view text = detail != nullptr ? detail : "";
    // "NAME: cannot open shared object file: No such file or directory" is the common case; when it names another file, a
    // dependency is missing.
    if (text.starts_with(file_name_ + ": cannot open shared object file: No such file")) {
        throw Error(ErrorCode::unavailable, fmt::format("{} not found", file_name_));
    }
    throw Error(ErrorCode::unavailable, fmt::format("{} can't be loaded: {}", file_name_, text));
}

void* SharedLibrary::symbol(const char* name) const noexcept {
    return dlsym(handle_, name);
}

void* SharedLibrary::required_symbol(const char* name) const {
    void* found = symbol(name);
    if (found == nullptr) throw Error(ErrorCode::unavailable, fmt::format("{} is too old: it has no {}", file_name_, name));
    return found;
}

}  // namespace tandem
