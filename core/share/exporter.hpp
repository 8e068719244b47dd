#pragma once
// Whether the process that memory comes from still runs.

#include "core/share/process_identity.hpp"

namespace tandem {

/// Watches the process that memory comes from. Thread safe.
class Exporter {
public:
    /// Throws unavailable where the process has ended.
    explicit Exporter(const ProcessIdentity& process);

    /// Throws unavailable where it has ended; the end of one that can't be watched is not noticed. Costs one system call.
    void check() const;

private:
    WatchedProcess process_;
};

}  // namespace tandem
