#include "core/share/known_memories.hpp"

#include <algorithm>
#include <functional>

#include "core/share/descriptor.hpp"

namespace tandem {

KnownMemories& KnownMemories::instance() {
    // Never destroyed: arrays in static storage are attached and let go of at any time.
    static auto* const table = new KnownMemories;
    return *table;
}

std::string KnownMemories::name_of(const std::shared_ptr<driver::Memory>& memory, const std::shared_ptr<DeviceState>& device) {
    const std::lock_guard lock(mutex_);
    if (memory->share_name.empty()) insert(random_id(), memory, device);
    return memory->share_name;
}

void KnownMemories::add(const std::string& name, const std::shared_ptr<driver::Memory>& memory,
                        const std::shared_ptr<DeviceState>& device) {
    const std::lock_guard lock(mutex_);
    insert(name, memory, device);
}

std::vector<std::shared_ptr<driver::Memory>> KnownMemories::find(const std::string& name,
                                                                 const std::shared_ptr<DeviceState>& device) {
    std::vector<std::shared_ptr<driver::Memory>> found;  // outlives the lock
    const std::lock_guard lock(mutex_);
    const auto [first, last] = entries_.equal_range(name);
    for (auto entry = first; entry != last; ++entry) {
        if (entry->second.device.lock() != device) continue;
        if (auto memory = entry->second.memory.lock()) found.push_back(std::move(memory));
    }
    return found;
}

std::size_t KnownMemories::size() {
    const std::lock_guard lock(mutex_);
    return entries_.size();
}

// With mutex_ held.
void KnownMemories::insert(const std::string& name, const std::shared_ptr<driver::Memory>& memory,
                           const std::shared_ptr<DeviceState>& device) {
    if (entries_.size() >= look_at_) {
        std::erase_if(entries_, [](const auto& entry) { return entry.second.memory.expired(); });
        look_at_ = std::max(first_look, 2 * entries_.size());
    }
    entries_.emplace(name, Entry{memory, device});
    memory->share_name = name;
    memory->shared_identity = std::hash<std::string>()(name) | 1U;
}

}  // namespace tandem
