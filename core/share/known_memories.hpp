#pragma once
// Shared memory that this process has, by the name that all processes know it by.

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/device_state.hpp"

namespace tandem {

/// Finds memory that is here already, so that who attaches it again gets the same. Keeps nothing alive. Thread safe.
class KnownMemories {
public:
    /// The one table of the process.
    static KnownMemories& instance();

    /// The name of `memory`, which is of `device`; a new one where it has none.
    std::string name_of(const std::shared_ptr<driver::Memory>& memory, const std::shared_ptr<DeviceState>& device);
    /// Gives `memory`, which has no name yet, that of memory that it shares its bytes with.
    void add(const std::string& name, const std::shared_ptr<driver::Memory>& memory, const std::shared_ptr<DeviceState>& device);
    /// All memory of that name on `device`.
    std::vector<std::shared_ptr<driver::Memory>> find(const std::string& name, const std::shared_ptr<DeviceState>& device);

    /// Entries, those of memory that is gone among them.
    [[nodiscard]] std::size_t size();

    /// So many entries are kept before any is looked at.
    static constexpr std::size_t first_look = 64;

private:
    struct Entry {
        std::weak_ptr<driver::Memory> memory;
        std::weak_ptr<DeviceState> device;
    };
    // Costs as much as a look at a few entries, on average: those of memory that is gone are looked for when there may be as many
    // as others.
    void insert(const std::string& name, const std::shared_ptr<driver::Memory>& memory,
                const std::shared_ptr<DeviceState>& device);

    std::mutex mutex_;
    std::multimap<std::string, Entry> entries_;
    std::size_t look_at_ = first_look;  // as many entries
};

}  // namespace tandem
