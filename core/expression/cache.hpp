#pragma once
// The expressions that a device has met, and their kernels.

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace tandem::driver {
class Device;
class Kernel;
}  // namespace tandem::driver

namespace tandem::expression {

struct Program;

/// One expression for one set of dtypes. Kernels are made when a call with their layout comes first, and stay as long as this.
struct CachedExpression {
    std::shared_ptr<const Program> program;
    std::mutex mutex;                                        ///< for `kernels`
    std::array<std::shared_ptr<driver::Kernel>, 4> kernels;  ///< by Layout
};

/// Thread safe.
class Cache {
public:
    /// Enough for every expression of a program that does not make texts up as it runs. Beyond it all are dropped; queued work
    /// keeps its kernels.
    static constexpr std::size_t max_entries = 1024;

    /// What is kept under `key`, or null.
    std::shared_ptr<CachedExpression> find(const std::string& key);
    /// Keeps `entry` under `key`; gives what another thread has put there first, if one has.
    std::shared_ptr<CachedExpression> keep(const std::string& key, const std::shared_ptr<CachedExpression>& entry);

private:
    std::mutex mutex_;
    std::unordered_map<std::string, std::shared_ptr<CachedExpression>> entries_;
};

}  // namespace tandem::expression
