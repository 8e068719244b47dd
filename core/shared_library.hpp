#pragma once
// A vendor library opened at run time.

#include <string>

namespace tandem {

/// An open shared library; stays open until the process ends, since drivers don't survive being unloaded. Thread safe.
/// Native calls: dlopen, dlsym.
class SharedLibrary {
public:
    /// Throws unavailable: "libcuda.so.1 not found", or the loader's own words where the file is there but can't be loaded.
    explicit SharedLibrary(const char* file_name);

    /// The function called `name`, or null where the library is older than it.
    template <class Function>
    [[nodiscard]] Function find(const char* name) const noexcept {
        return reinterpret_cast<Function>(symbol(name));
    }

    /// The same, but throws unavailable naming library and function: a driver too old to be used.
    template <class Function>
    [[nodiscard]] Function get(const char* name) const {
        return reinterpret_cast<Function>(required_symbol(name));
    }

private:
    [[nodiscard]] void* symbol(const char* name) const noexcept;
    [[nodiscard]] void* required_symbol(const char* name) const;

    void* handle_;
    std::string file_name_;
};

}  // namespace tandem
