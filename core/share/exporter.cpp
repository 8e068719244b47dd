#include "core/share/exporter.hpp"

#include <fmt/format.h>

#include "tandem/error.hpp"

namespace tandem {

Exporter::Exporter(const ProcessIdentity& process) : process_(process) {
    check();
}

void Exporter::check() const {
    if (!process_.has_ended()) return;
    throw Error(ErrorCode::unavailable,
                fmt::format("process {}, which shares the memory by a CUDA IPC handle, has ended, and the memory with it",
                            process_.process().pid));
}

}  // namespace tandem
