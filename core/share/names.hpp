#pragma once
// The folder of published names: who has a name, and what is left of those who don't live any more.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/share/own_descriptor.hpp"

namespace tandem {

/// The folder for sockets that `given` means: itself, or where it is empty, the user's own.
/// Throws unavailable where there is none. With `make` the user's own is made where it is missing; io where others may write to
/// it.
std::filesystem::path names_folder(const std::filesystem::path& given, bool make);

/// A name that this process has: as long as it lives, no other publisher gets it.
class NameLock {
public:
    /// Throws unavailable where a live process has the name; io. Removes the socket that a dead one has left.
    NameLock(const std::filesystem::path& folder, std::string_view name);
    /// Removes the socket and the lock.
    ~NameLock();
    NameLock(const NameLock&) = delete;
    NameLock& operator=(const NameLock&) = delete;

    [[nodiscard]] const std::filesystem::path& socket_path() const noexcept { return socket_path_; }
    /// Lets both files be: they are another process's.
    void forget() noexcept { file_.reset(); }

private:
    std::filesystem::path socket_path_;
    std::filesystem::path lock_path_;
    OwnDescriptor file_;
};

/// Where `name` listens.
std::filesystem::path socket_path(const std::filesystem::path& folder, std::string_view name);

/// The names for which there are sockets in the folder, in alphabetical order; those of dead processes are removed, where they
/// may be. Throws io.
std::vector<std::string> live_names(const std::filesystem::path& folder);

}  // namespace tandem
