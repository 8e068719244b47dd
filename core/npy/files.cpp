// Many files at once.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <system_error>

#include "core/transport/meter.hpp"
#include "core/transport/threads.hpp"
#include "tandem/npy.hpp"

namespace tandem::npy {
namespace {

// What is wrong with a file is said when it is opened.
std::uint64_t size_of(const std::filesystem::path& path) {
    std::error_code error;
    const std::uint64_t size = std::filesystem::file_size(path, error);
    return error ? 0 : size;
}

}  // namespace

std::vector<Array> load_all(const Device& device, std::span<const std::filesystem::path> paths, const LoadOptions& options) {
    const TransferLimits limits = transfer_limits(device);
    std::vector<std::uint64_t> sizes;
    std::vector<std::size_t> small, large;
    std::uint64_t total = 0;
    for (const std::filesystem::path& path : paths) {
        sizes.push_back(size_of(path));
        total += sizes.back();
        (sizes.back() <= limits.slot_bytes ? small : large).push_back(sizes.size() - 1);
    }
    Meter meter(options.transfer, total, fmt::format("{} files", paths.size()));
    std::vector<Array> arrays(paths.size());
    LoadOptions each = options;
    each.transfer = {.stop = options.transfer.stop};

    // A file of one slot keeps one reader busy; most of its time goes into opening it and waiting for the device.
    ThreadGroup group;
    std::atomic<std::size_t> taken{0};
    const auto load_some = [&] {
        for (std::size_t next = taken++; next < small.size() && !group.has_failed(); next = taken++) {
            const std::size_t index = small[next];
            meter.check();
            arrays[index] = load(device, paths[index], each);
            meter.add(sizes[index]);
            if (group.is_caller()) meter.report();
        }
    };
    group.run(static_cast<unsigned>(std::clamp<std::size_t>(small.size(), 1, limits.readers)), load_some,
              device.info().numa_node);

    // A larger one keeps them all busy by itself.
    for (const std::size_t index : large) {
        std::uint64_t done = 0;
        if (options.transfer.progress) {
            each.transfer.progress = [&](const Progress& progress) {
                meter.add(progress.done_bytes - done);
                done = progress.done_bytes;
                meter.report();
            };
        }
        arrays[index] = load(device, paths[index], each);
        meter.add(sizes[index] - std::min(done, sizes[index]));
    }
    meter.finish();
    return arrays;
}

}  // namespace tandem::npy
