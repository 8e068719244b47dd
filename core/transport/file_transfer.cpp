#include "core/transport/file_transfer.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/device_state.hpp"
#include "core/driver.hpp"
#include "core/host_block.hpp"
#include "core/transport/loader.hpp"
#include "core/transport/meter.hpp"
#include "core/transport/saver.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

// What is converted at a time: much for a launch, little beside what is on its way.
constexpr std::size_t job_bytes = std::size_t{64} << 20U;

// Registering costs the same for each byte in windows of 32 to 128 MiB; larger ones keep the device waiting for the first.
constexpr std::uint64_t window_bytes = std::uint64_t{64} << 20U;

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

// Waits for what is on its way in the first `queues` load queues. A wait of some length is a quiet one.
void finish_loads(const Device& device, std::size_t size_bytes, std::size_t queues) {
    Transport& transport = device.state()->transport;
    std::vector<std::shared_ptr<driver::Event>> events;
    for (std::size_t which = 0; which < queues; ++which)
        events.push_back(transport.load_queue(which)->record());
    for (const auto& event : events)
        size_bytes < window_bytes ? event->wait() : wait_quietly(*event);
    for (std::size_t which = 0; which < queues; ++which)
        transport.load_queue(which)->reap();
}

// Fills the array's first bytes by copies that the device makes from the file's own pages, window by window; how many bytes that
// were. Windows are let go of when the array is full, since that would hold up the copies.
std::size_t load_by_windows(const MappedFile& file, std::uint64_t offset_bytes, const Array& array, Meter& meter,
                            Converter& converter, std::size_t item_bytes) {
    DeviceState& device = *array.device().state();
    if (file.access() != FileAccess::read || file.in_memory() || array.size_bytes() < window_bytes ||
        device.transport.limits().readers >= device.native->readers_worth_adopting() ||
        file.cached_bytes(offset_bytes, array.size_bytes()) < array.size_bytes()) {
        return 0;
    }
    const std::shared_ptr<QueueState> queue = device.transport.load_queue();
    std::vector<std::shared_ptr<driver::Memory>> windows;
    std::size_t done = 0;
    while (done < array.size_bytes()) {
        meter.check();
        const std::uint64_t first = offset_bytes + done;
        const std::uint64_t begin = first / page_bytes() * page_bytes();
        std::uint64_t end = std::min<std::uint64_t>(begin + window_bytes, offset_bytes + array.size_bytes());
        end -= (end - offset_bytes) % item_bytes;  // whole items are converted
        const driver::HostRange range{const_cast<std::byte*>(file.bytes().data()) + begin, end - begin, false, true, false};
        try {
            windows.push_back(device.native->adopt(range));
        } catch (const Error& error) {
            if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::out_of_memory) throw;
            break;  // readers do the rest
        }
        windows.back()->owner = std::make_shared<const MappedFile>(file);
        {
            QueueState::Submission submission(*queue, end - first);
            submission.use(windows.back());
            submission.use(array.memory());
            submission.native().copy(*array.memory(), array.offset_bytes() + done, *windows.back(), first - begin, end - first);
        }
        const std::size_t before = done;
        done = end - offset_bytes;
        converter.convert(before, done - before);
        meter.add(done - before);
        meter.report();
    }
    finish_loads(array.device(), done, 1);
    device.transport.let_go_later(std::move(windows));
    return done;
}

void load_from(Source& source, std::size_t begin_bytes, const Array& array, Meter& meter, Converter& converter,
               std::size_t item_bytes) {
    const std::size_t step = std::max<std::size_t>(1, job_bytes / item_bytes) * item_bytes;
    const bool visible = is_visible(array);
    std::size_t begun = begin_bytes;
    const auto next = [&]() -> std::optional<LoadJob> {
        if (begun == array.size_bytes()) return {};
        const std::size_t begin = begun, size = std::min(step, array.size_bytes() - begin);
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
    const std::size_t queues = run_loads(array.device(), next, array.size_bytes() - begin_bytes, meter);
    if (!visible) finish_loads(array.device(), array.size_bytes() - begin_bytes, queues);
}

}  // namespace

void load_bytes(Source& source, const Array& array, const TransferOptions& options, const Conversion& conversion) {
    Meter meter(options, array.size_bytes(), source.name());
    if (array.count() != 0) {
        array.memory()->uses.wait();
        Converter converter(array.device(), conversion);
        load_from(source, 0, array, meter, converter, conversion.item_bytes);
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
        std::size_t done = 0;
        if (!is_visible(array)) done = load_by_windows(file, offset_bytes, array, meter, converter, conversion.item_bytes);
        FileSource source(file, offset_bytes);
        load_from(source, done, array, meter, converter, conversion.item_bytes);
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
