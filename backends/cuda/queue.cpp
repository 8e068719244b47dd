#include "backends/cuda/queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backends/cuda/device.hpp"
#include "backends/cuda/program.hpp"

namespace tandem::cuda {

EventPool::~EventPool() {
    const Current current(context_, std::nothrow);
    if (!current.is_ready()) return;
    for (const CUevent event : events_)
        context_.api().cuEventDestroy(event);
}

CUevent EventPool::take() {
    {
        const std::scoped_lock lock(mutex_);
        if (!events_.empty()) {
            const CUevent event = events_.back();
            events_.pop_back();
            return event;
        }
    }
    CUevent event = nullptr;
    context_.check(context_.api().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    return event;
}

void EventPool::put(CUevent event) noexcept {
    try {
        const std::scoped_lock lock(mutex_);
        events_.push_back(event);
    } catch (...) {  // no memory for the list
        const Current current(context_, std::nothrow);
        if (current.is_ready()) context_.api().cuEventDestroy(event);
    }
}

Event::Event(std::shared_ptr<Device> device, CUstream stream) : device_(std::move(device)), native_(device_->events().take()) {
    const CUresult result = device_->context().api().cuEventRecord(native_, stream);
    if (result != CUDA_SUCCESS) {
        device_->events().put(native_);
        device_->context().fail(result, "cuEventRecord");
    }
}

Event::~Event() {
    device_->events().put(native_);
}

bool Event::is_done() const {
    const Current current(device_->context());
    return device_->context().api().cuEventQuery(native_) != CUDA_ERROR_NOT_READY;
}

void Event::wait() const {
    const Current current(device_->context());
    device_->context().check(device_->context().api().cuEventSynchronize(native_), "cuEventSynchronize");
}

Queue::Queue(std::shared_ptr<Device> device) : device_(std::move(device)), context_(device_->context()) {
    const Current current(context_);
    context_.check(context_.api().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    blas_ = std::make_unique<Blas>(*device_, stream_);
}

Queue::~Queue() {
    blas_.reset();
    const Current current(context_, std::nothrow);
    if (current.is_ready()) context_.api().cuStreamDestroy(stream_);
}

void Queue::copy_bytes(CUdeviceptr to, CUdeviceptr from, std::size_t size_bytes) {
    const CUresult result = context_.api().cuMemcpyAsync(to, from, size_bytes, stream_);
    if (result != CUDA_SUCCESS) context_.fail(result, fmt::format("cuMemcpyAsync of {} bytes", size_bytes));
}

void Queue::write(driver::Memory& destination, std::size_t offset_bytes, const void* source, std::size_t size_bytes) {
    const Current current(context_);
    const auto& to = static_cast<const Memory&>(destination);
    const auto* host = static_cast<const std::byte*>(source);
    const Registrations::Frozen registrations;
    for (std::size_t done = 0, part = 0; done < size_bytes; done += part) {
        part = std::min({size_bytes - done, to.run_bytes(offset_bytes + done), registrations.run_bytes(host + done)});
        copy_bytes(to.address() + offset_bytes + done, reinterpret_cast<CUdeviceptr>(host + done), part);
    }
}

void Queue::read(const driver::Memory& source, std::size_t offset_bytes, void* destination, std::size_t size_bytes) {
    const Current current(context_);
    const auto& from = static_cast<const Memory&>(source);
    auto* host = static_cast<std::byte*>(destination);
    const Registrations::Frozen registrations;
    for (std::size_t done = 0, part = 0; done < size_bytes; done += part) {
        part = std::min({size_bytes - done, from.run_bytes(offset_bytes + done), registrations.run_bytes(host + done)});
        copy_bytes(reinterpret_cast<CUdeviceptr>(host + done), from.address() + offset_bytes + done, part);
    }
}

void Queue::copy(driver::Memory& destination, std::size_t destination_offset_bytes, const driver::Memory& source,
                 std::size_t source_offset_bytes, std::size_t size_bytes) {
    const Current current(context_);
    const auto& to = static_cast<const Memory&>(destination);
    const auto& from = static_cast<const Memory&>(source);
    for (std::size_t done = 0, part = 0; done < size_bytes; done += part) {
        part = std::min(
            {size_bytes - done, to.run_bytes(destination_offset_bytes + done), from.run_bytes(source_offset_bytes + done)});
        copy_bytes(to.address() + destination_offset_bytes + done, from.address() + source_offset_bytes + done, part);
    }
}

bool Queue::copy_between(driver::Memory& destination, std::size_t destination_offset_bytes, const driver::Memory& source,
                         std::size_t source_offset_bytes, std::size_t size_bytes) {
    const Api& api = context_.api();
    if (api.cuMemcpyPeerAsync == nullptr) return false;
    const auto& to = static_cast<const Memory&>(destination);
    const auto& from = static_cast<const Memory&>(source);
    to.device()->link_to(*from.device());
    const Current current(context_);
    for (std::size_t done = 0, part = 0; done < size_bytes; done += part) {
        part = std::min(
            {size_bytes - done, to.run_bytes(destination_offset_bytes + done), from.run_bytes(source_offset_bytes + done)});
        const CUresult result =
            api.cuMemcpyPeerAsync(to.address() + destination_offset_bytes + done, to.device()->context().native(),
                                  from.address() + source_offset_bytes + done, from.device()->context().native(), part, stream_);
        if (result != CUDA_SUCCESS) context_.fail(result, fmt::format("cuMemcpyPeerAsync of {} bytes", part));
    }
    return true;
}

std::string Queue::prefetch(driver::Memory& memory, std::size_t offset_bytes, std::size_t size_bytes, Location where) {
    const Api& api = context_.api();
    if (memory.kind() != MemoryKind::shared) return driver::Queue::prefetch(memory, offset_bytes, size_bytes, where);
    if (api.cuMemPrefetchAsync_v2 == nullptr) return "the driver is older than cuMemPrefetchAsync_v2";
    const Current current(context_);
    const CUresult result =
        api.cuMemPrefetchAsync_v2(memory.address() + offset_bytes, size_bytes, device_->location(where), 0, stream_);
    if (result != CUDA_SUCCESS) context_.fail(result, fmt::format("cuMemPrefetchAsync of {} bytes", size_bytes));
    return {};
}

void Queue::run(const driver::Elementwise& call) {
    const Current current(context_);
    device_->kernels().launch(stream_, call);
}

void Queue::reduce(const driver::Reduce& call) {
    const Current current(context_);
    device_->kernels().launch(stream_, call);
}

void Queue::launch(const driver::Launch& launch) {
    const Current current(context_);
    static_cast<const Program*>(launch.kernel)->launch(stream_, launch);
}

bool Queue::begin_recording() {
    const Current current(context_);
    // Relaxed: modules are loaded with the first use of what is in them, and memory is allocated meanwhile, on other streams.
    context_.check(context_.api().cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture");
    return true;
}

std::unique_ptr<driver::Recording> Queue::end_recording(bool is_wanted) {
    const Current current(context_);
    CUgraph graph = nullptr;
    const CUresult result = context_.api().cuStreamEndCapture(stream_, &graph);
    if (!is_wanted) {
        if (graph != nullptr) context_.api().cuGraphDestroy(graph);
        return nullptr;
    }
    context_.check(result, "cuStreamEndCapture");
    return std::make_unique<Recording>(device_, graph);
}

void Queue::replay(driver::Recording& recording) {
    const Current current(context_);
    context_.check(context_.api().cuGraphLaunch(static_cast<const Recording&>(recording).native(), stream_), "cuGraphLaunch");
}

void Queue::blas(const driver::BlasVector& call) {
    const Current current(context_);
    blas_->run(call);
}

void Queue::blas(const driver::BlasGemv& call) {
    const Current current(context_);
    blas_->run(call);
}

void Queue::blas(const driver::BlasGemm& call) {
    const Current current(context_);
    blas_->run(call);
}

std::unique_ptr<driver::Event> Queue::record() {
    const Current current(context_);
    return std::make_unique<Event>(device_, stream_);
}

void Queue::wait_for(const driver::Event& event) {
    const Current current(context_);
    context_.check(context_.api().cuStreamWaitEvent(stream_, static_cast<const Event&>(event).native(), 0), "cuStreamWaitEvent");
}

void Queue::synchronize() {
    const Current current(context_);
    context_.check(context_.api().cuStreamSynchronize(stream_), "cuStreamSynchronize");
}

}  // namespace tandem::cuda
