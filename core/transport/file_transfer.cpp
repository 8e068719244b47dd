#include "core/transport/file_transfer.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/device_state.hpp"
#include "core/driver.hpp"
#include "core/thread_pool.hpp"
#include "core/transport/loader.hpp"
#include "core/transport/meter.hpp"
#include "core/transport/saver.hpp"
#include "core/transport/window_loader.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

// What is converted at a time: much for a launch, little beside what is on its way.
constexpr std::size_t job_bytes = std::size_t{64} << 20U;

// What windows are worth their registration for.
constexpr std::size_t min_windows_bytes = std::size_t{64} << 20U;

// Runs the conversion behind the copies, on a queue of its own.
class Converter {
public:
    Converter(const Device& device, const Conversion& conversion) : device_(device), conversion_(conversion) {}

    void convert(std::size_t begin_bytes, std::size_t size_bytes) {
        if (!conversion_.convert) return;
        const std::lock_guard lock(mutex_);
        if (!queue_) queue_.emplace(device_);
        for (const auto& event : device_.state()->transport.record_loads())
            queue_->state().wait_for(*event);
        conversion_.convert(*queue_, begin_bytes, size_bytes);
    }
    void finish() {
        if (queue_) queue_->synchronize();
    }

private:
    const Device& device_;
    const Conversion& conversion_;
    std::mutex mutex_;
    std::optional<Queue> queue_;
};

// What stands in for a file's mapping is not to be filled through that mapping.
bool is_visible(const Array& array) {
    return array.memory()->mirrored == nullptr &&
           (array.device().info().shares_host_memory || array.memory()->host_address() != nullptr);
}

// Whether the device is better off copying the file's own pages than waiting for this machine's few processors to read them.
bool are_windows_better(const MappedFile& file, std::uint64_t offset_bytes, const Array& array) {
    DeviceState& device = *array.device().state();
    return !is_visible(array) && file.access() == FileAccess::read && !file.in_memory() && file.is_mapped() &&
           array.size_bytes() >= min_windows_bytes &&
           device.transport.limits().readers < device.native->readers_worth_adopting() &&
           file.cached_bytes(offset_bytes, array.size_bytes()) == array.size_bytes();
}

// Fills a part of the array with the same part of the source.
void load_from(Source& source, const LoadPart& part, const Array& array, Meter& meter, Converter& converter,
               std::size_t item_bytes) {
    if (part.begin_bytes == part.end_bytes) return;
    const std::size_t step = std::max<std::size_t>(1, job_bytes / item_bytes) * item_bytes;
    const bool visible = is_visible(array);
    std::size_t begun = part.begin_bytes;
    const auto next = [&]() -> std::optional<LoadJob> {
        if (begun == part.end_bytes) return {};
        const std::size_t begin = begun, size = std::min(step, part.end_bytes - begin);
        begun += size;
        LoadJob job{&source, begin, array.memory(), array.offset_bytes() + begin, size};
        std::shared_ptr<HostView> view;
        if (visible) {
            view = std::make_shared<HostView>(array.device(), array.memory(), job.offset_bytes, size, Access::write);
            job.host = view->data();
        }
        job.done = [&converter, view, begin, size] {
            if (view != nullptr) view->unmap();
            converter.convert(begin, size);
        };
        return job;
    };
    const std::size_t size_bytes = part.end_bytes - part.begin_bytes;
    const std::size_t queues = run_loads(array.device(), next, size_bytes, meter);
    if (!visible) finish_loads(array.device(), size_bytes, queues);
}

}  // namespace

void load_bytes(Source& source, const Array& array, const TransferOptions& options, const Conversion& conversion) {
    Meter meter(options, array.size_bytes(), source.name());
    if (array.count() != 0) {
        array.memory()->uses.wait();
        Converter converter(array.device(), conversion);
        load_from(source, {0, array.size_bytes()}, array, meter, converter, conversion.item_bytes);
        converter.finish();
    }
    meter.finish();
}

void load_bytes(const MappedFile& file, std::uint64_t offset_bytes, const Array& array, const TransferOptions& options,
                const Conversion& conversion) {
    Meter meter(options, array.size_bytes(), printable_path(file.path()));
    if (array.count() != 0) {
        array.memory()->uses.wait();
        Converter converter(array.device(), conversion);
        LoadPart left{0, array.size_bytes()};
        if (are_windows_better(file, offset_bytes, array)) {
            const WindowLoad load{file, offset_bytes, array, conversion.item_bytes,
                                  [&](std::size_t begin, std::size_t size) { converter.convert(begin, size); }};
            // The caller keeps one processor busy.
            const unsigned readers = std::min(array.device().state()->transport.limits().readers, available_processors());
            left = load_by_windows(load, std::max(readers, 1U) - 1, meter);
        }
        FileSource source(file, offset_bytes);
        load_from(source, left, array, meter, converter, conversion.item_bytes);
        converter.finish();
    }
    meter.finish();
}

void save_bytes(const Array& array, Sink& sink, std::uint64_t offset_bytes, const TransferOptions& options) {
    Meter meter(options, array.size_bytes(), sink.name());
    if (array.count() != 0) {
        array.memory()->uses.wait();
        SaveJob job{&sink, offset_bytes, array.memory(), array.offset_bytes(), array.size_bytes()};
        std::optional<HostView> view;
        if (is_visible(array)) {
            view.emplace(array.device(), array.memory(), array.offset_bytes(), array.size_bytes(), Access::read);
            job.host = view->data();
        }
        bool is_given = false;
        const auto next = [&]() -> std::optional<SaveJob> {
            if (std::exchange(is_given, true)) return {};
            return job;
        };
        run_saves(array.device(), next, sink.is_sequential(), meter);
        if (view) view->unmap();
    }
    meter.finish();
}

void save_bytes(const Array& array, OutputFile& file, const TransferOptions& options) {
    try {
        save_bytes(array, file, file.reserve(array.size_bytes()), options);
    } catch (...) {
        file.abandon();
        throw;
    }
}

}  // namespace tandem
