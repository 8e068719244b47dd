#include "core/expression/cache.hpp"

namespace tandem::expression {

std::shared_ptr<CachedExpression> Cache::find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : found->second;
}

std::shared_ptr<CachedExpression> Cache::keep(const std::string& key, const std::shared_ptr<CachedExpression>& entry) {
    const std::lock_guard lock(mutex_);
    if (entries_.size() >= max_entries) entries_.clear();
    return entries_.try_emplace(key, entry).first->second;
}

}  // namespace tandem::expression
