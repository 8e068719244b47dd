#include "core/transport/pipeline.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/adoption.hpp"
#include "core/device_state.hpp"
#include "core/transport/loader.hpp"
#include "core/transport/saver.hpp"
#include "tandem/error.hpp"
#include "tandem/ops.hpp"

namespace tandem {
namespace {

// The arrays of one chunk, and the points in the three queues after which others may use them.
struct Set {
    std::vector<Array> inputs;
    Array output;
    std::atomic<std::size_t> inputs_left{0};  // of the chunk that is being loaded
    // The latest chunk that was, or is on its way in a queue: chunks come and go out of order by one or two.
    std::int64_t loaded_chunk = -1;
    std::int64_t worked_chunk = -1;
    std::int64_t read_chunk = -1;
    std::vector<std::shared_ptr<driver::Event>> loaded;  // in the load queues; none where the host has put the bytes in place
    std::shared_ptr<driver::Event> worked;               // in the caller's queue
    std::shared_ptr<driver::Event> saved;                // in the save queue; null as `loaded`
};

std::thread start_thread(std::function<void()> work) {
    try {
        return std::thread(std::move(work));
    } catch (const std::system_error& error) {
        throw Error(ErrorCode::out_of_memory, fmt::format("stream: a thread can't be started: {}", error.code().message()),
                    error.code().value());
    }
}

class Pipeline {
public:
    Pipeline(Queue& queue, const std::vector<ChunkInput>& inputs, const Chunking& chunking, const ChunkOutput& output,
             const TransferOptions& options)
        : queue_(queue),
          device_(queue.device()),
          inputs_(inputs),
          chunking_(chunking),
          output_(output),
          visible_(device_.info().shares_host_memory),
          chunks_((chunking.total_length - chunking.begin + chunking.length - 1) / chunking.length) {
        // The caller's function is told of progress by the caller's thread alone.
        side_options_.stop = options.stop;
        const std::size_t used = std::min<std::size_t>(Chunking::sets, static_cast<std::size_t>(chunks_));
        for (std::size_t i = 0; i < used; ++i) {
            Set& set = sets_[i];
            for (const ChunkInput& input : inputs)
                set.inputs.push_back(make(input.dtype));
            if (output.is_input) {
                set.output = set.inputs[0];
            } else if (output.sink != nullptr) {
                set.output = make(output.dtype);
            }
        }
    }

    void run(const StreamFunction& function, Meter& meter) {
        name_ = meter.name();
        std::thread loader = start_thread([this] { attempt([this] { load(); }); });
        std::thread saver;
        if (output_.sink != nullptr) {
            try {
                saver = start_thread([this] { attempt([this] { save(); }); });
            } catch (...) {
                fail(std::current_exception());
            }
        }
        attempt([&] { work(function, meter); });
        // While the last chunks are saved.
        if (saver.joinable()) attempt([&] { report_until_saved(meter); });
        loader.join();
        if (saver.joinable()) saver.join();
        if (failure_ != nullptr) std::rethrow_exception(failure_);
        queue_.synchronize();
    }

private:
    Array make(DType dtype) const {
        Shape shape = chunking_.shape;
        shape[chunking_.axis] = std::min(chunking_.length, chunking_.total_length - chunking_.begin);
        return empty(device_, dtype, shape, MemoryKind::device, chunking_.order);
    }

    Set& set_of(std::int64_t chunk) { return sets_[static_cast<std::size_t>(chunk) % Chunking::sets]; }
    [[nodiscard]] std::int64_t begin_of(std::int64_t chunk) const { return chunking_.begin + chunk * chunking_.length; }
    [[nodiscard]] std::int64_t length_of(std::int64_t chunk) const {
        return std::min(chunking_.length, chunking_.total_length - begin_of(chunk));
    }
    // The part of a set's array that the chunk fills: the last one may be shorter.
    [[nodiscard]] Array part(const Array& array, std::int64_t chunk) const {
        return array.slice(chunking_.axis, 0, length_of(chunk));
    }
    [[nodiscard]] std::size_t row_bytes(const Array& array) const {
        return array.size_bytes() / static_cast<std::size_t>(array.shape()[chunking_.axis]);
    }

    void fail(std::exception_ptr failure) noexcept {
        {
            const std::lock_guard lock(mutex_);
            if (failure_ == nullptr) failure_ = std::move(failure);
        }
        changed_.notify_all();
    }
    template <class Work>
    void attempt(Work work) noexcept {
        try {
            work();
        } catch (...) {
            fail(std::current_exception());
        }
    }
    // Waits until `condition`, which is asked with the mutex held; false where something has failed.
    template <class Condition>
    bool wait_until(Condition condition) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return failure_ != nullptr || condition(); });
        return failure_ == nullptr;
    }
    // Changes what others wait for.
    template <class Change>
    void change(Change change) {
        {
            const std::lock_guard lock(mutex_);
            change();
        }
        changed_.notify_all();
    }

    void load() {
        std::int64_t chunk = 0;
        std::size_t index = 0;
        const auto next = [&]() -> std::optional<LoadJob> {
            if (chunk == chunks_) return {};
            Set& set = set_of(chunk);
            if (index == 0) {
                const std::int64_t previous = chunk - static_cast<std::int64_t>(Chunking::sets);
                // Where the chunk's array is saved from, it may be filled again only then.
                if (!wait_until(
                        [&] { return previous < 0 || (output_.is_input ? set.read_chunk : set.worked_chunk) == previous; }))
                    return {};
                if (!visible_ && previous >= 0)
                    device_.state()->transport.delay_loads(output_.is_input ? *set.saved : *set.worked);
                set.inputs_left = inputs_.size();
            }
            const Array& array = set.inputs[index];
            LoadJob job{inputs_[index].source.get(), static_cast<std::uint64_t>(begin_of(chunk)) * row_bytes(array),
                        array.memory(), array.offset_bytes(), row_bytes(array) * static_cast<std::size_t>(length_of(chunk))};
            std::shared_ptr<HostView> view;
            if (visible_) {
                view = std::make_shared<HostView>(device_, job.memory, job.offset_bytes, job.size_bytes, Access::write);
                job.host = view->data();
            }
            job.done = [this, view, &set, loaded = chunk] {
                if (view != nullptr) view->unmap();
                // Recorded by who comes last, so that the other inputs' copies lie before the points too.
                if (set.inputs_left.fetch_sub(1) != 1) return;
                std::vector<std::shared_ptr<driver::Event>> events;
                if (!visible_) events = device_.state()->transport.record_loads();
                change([&] {
                    set.loaded = std::move(events);
                    set.loaded_chunk = loaded;
                });
            };
            if (++index == inputs_.size()) {
                index = 0;
                ++chunk;
            }
            return job;
        };
        std::uint64_t total = 0;
        for (const Array& array : sets_[0].inputs)
            total += row_bytes(array) * static_cast<std::uint64_t>(chunking_.total_length - chunking_.begin);
        Meter meter(side_options_, total, name_);
        run_loads(device_, next, total, meter);
    }

    void work(const StreamFunction& function, Meter& meter) {
        for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
            Set& set = set_of(chunk);
            const std::int64_t previous = chunk - static_cast<std::int64_t>(Chunking::sets);
            const auto is_ready = [&] {
                return set.loaded_chunk == chunk && (output_.sink == nullptr || previous < 0 || set.read_chunk == previous);
            };
            if (!wait_until(is_ready)) return;
            meter.check();
            for (const auto& event : set.loaded)
                queue_.state().wait_for(*event);
            if (set.saved != nullptr) queue_.state().wait_for(*set.saved);
            std::vector<Array> inputs;
            std::uint64_t bytes = 0;
            for (std::size_t i = 0; i < inputs_.size(); ++i) {
                inputs.push_back(part(set.inputs[i], chunk));
                make_proper(queue_, inputs[i], inputs_[i].is_swapped);
                bytes += inputs[i].size_bytes();
            }
            Array output;
            if (output_.array) {
                output = output_.array->slice(chunking_.axis, begin_of(chunk), begin_of(chunk) + length_of(chunk));
            } else if (output_.sink != nullptr) {
                output = output_.is_input ? inputs[0] : part(set.output, chunk);
            }
            function(queue_, inputs, output);
            if (output_.is_input && inputs_[0].is_swapped) byteswap(queue_, output, output);
            const std::shared_ptr<driver::Event> event = queue_.state().record();
            change([&] {
                set.worked = event;
                set.worked_chunk = chunk;
            });
            meter.add(bytes);
            meter.report();
        }
    }

    void save() {
        std::int64_t chunk = 0;
        const auto next = [&]() -> std::optional<SaveJob> {
            if (chunk == chunks_) return {};
            Set& set = set_of(chunk);
            if (!wait_until([&] { return set.worked_chunk == chunk; })) return {};
            const Array& array = set.output;
            SaveJob job{output_.sink,
                        output_.sink_offset_bytes + static_cast<std::uint64_t>(chunk * chunking_.length) * row_bytes(array),
                        array.memory(), array.offset_bytes(), row_bytes(array) * static_cast<std::size_t>(length_of(chunk))};
            std::shared_ptr<HostView> view;
            if (visible_) {
                view = std::make_shared<HostView>(device_, job.memory, job.offset_bytes, job.size_bytes, Access::read);
                job.host = view->data();
            } else {
                device_.state()->transport.save_queue()->wait_for(*set.worked);
            }
            job.read = [this, view, &set, read = chunk] {
                if (view != nullptr) view->unmap();
                std::shared_ptr<driver::Event> event = visible_ ? nullptr : device_.state()->transport.save_queue()->record();
                change([&] {
                    set.saved = std::move(event);
                    set.read_chunk = read;
                });
            };
            ++chunk;
            return job;
        };
        Meter meter(side_options_,
                    row_bytes(sets_[0].output) * static_cast<std::uint64_t>(chunking_.total_length - chunking_.begin), name_);
        run_saves(device_, next, output_.sink->is_sequential(), meter);
        change([&] { is_saved_ = true; });
    }

    void report_until_saved(Meter& meter) {
        std::unique_lock lock(mutex_);
        while (failure_ == nullptr && !is_saved_) {
            changed_.wait_for(lock, std::chrono::milliseconds(50));
            lock.unlock();
            meter.report();
            lock.lock();
        }
    }

    Queue& queue_;
    const Device device_;
    const std::vector<ChunkInput>& inputs_;
    const Chunking& chunking_;
    const ChunkOutput& output_;
    TransferOptions side_options_;
    std::string name_;  // for messages
    const bool visible_;
    const std::int64_t chunks_;
    std::array<Set, Chunking::sets> sets_;

    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_saved_ = false;
    std::exception_ptr failure_;
};

}  // namespace

std::size_t transfer_ring_bytes(const Device& device) {
    const std::shared_ptr<Ring> ring = device.state()->transport.ring();
    return ring->count() * (ring->slot_bytes() + Ring::slack_bytes);
}

void run_pipeline(Queue& queue, const std::vector<ChunkInput>& inputs, const Chunking& chunking, const ChunkOutput& output,
                  const StreamFunction& function, const TransferOptions& options, Meter& meter) {
    if (chunking.begin >= chunking.total_length || element_count(chunking.shape, 1) == 0) return;
    Pipeline(queue, inputs, chunking, output, options).run(function, meter);
}

}  // namespace tandem
