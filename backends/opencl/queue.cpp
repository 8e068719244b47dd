#include "backends/opencl/queue.hpp"

#include <algorithm>
#include <array>

#include "backends/opencl/memory.hpp"
#include "backends/opencl/program.hpp"

namespace tandem::opencl {
namespace {

// A command of this size runs longer than a flush takes.
constexpr std::size_t flush_bytes = std::size_t{1} << 20U;
// Smaller ones are flushed together. A GPU's driver has its own ways of handing them over at once; for those that have not, the
// events that core/ records, which flush, come often enough.
constexpr unsigned cpu_flush_commands = 16;

}  // namespace

bool Event::is_done() const {
    cl_int state = CL_QUEUED;
    const cl_int status = api().clGetEventInfo(native(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, nullptr);
    return status != CL_SUCCESS || state <= CL_COMPLETE;  // a query that fails is for `wait` to report
}

void Event::wait() const {
    const cl_event event = native();
    cl_int status = api().clWaitForEvents(1, &event);
    if (status == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) {  // the event's state tells which error it was
        cl_int state = CL_COMPLETE;
        api().clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, nullptr);
        if (state < 0) status = state;
    }
    check(status, Stage::waiting, device_->spec(), "clWaitForEvents");
}

Queue::Queue(std::shared_ptr<Device> device)
    : device_(std::move(device)),
      queue_(device_->create_queue()),
      kernels_(device_->programs()),
      blas_(*device_),
      is_gpu_(device_->info().type != DeviceType::cpu) {}

void Queue::submitted(std::size_t size_bytes) {
    if (size_bytes < flush_bytes && (is_gpu_ || ++unflushed_ < cpu_flush_commands)) return;
    unflushed_ = 0;
    check(api().clFlush(queue_.get()), Stage::submission, device_->spec(), "clFlush");
}

cl_event* Queue::event_of(std::size_t size_bytes) {
    last_ = EventHandle();
    return size_bytes < flush_bytes ? nullptr : last_.put();
}

void Queue::finish(Acquisition& acquisition) {
    if (acquisition.release()) last_ = EventHandle();  // a point behind the release is what `record` has to give
}

void Queue::write(driver::Memory& destination, std::size_t offset_bytes, const void* source, std::size_t size_bytes) {
    const auto& memory = static_cast<Memory&>(destination);
    Acquisition acquisition(*device_, queue_.get(), {&memory});
    const auto* bytes = static_cast<const std::byte*>(source);
    for (std::size_t done = 0, part = 0; done < size_bytes; done += part) {
        const Memory::Place at = memory.place(offset_bytes + done);
        part = std::min(size_bytes - done, at.left_bytes);
        check(api().clEnqueueWriteBuffer(queue_.get(), at.window, CL_FALSE, at.offset_bytes, part, bytes + done, 0, nullptr,
                                         event_of(part)),
              Stage::submission, device_->spec(), "clEnqueueWriteBuffer of {} bytes", part);
        submitted(part);
    }
    finish(acquisition);
}

void Queue::read(const driver::Memory& source, std::size_t offset_bytes, void* destination, std::size_t size_bytes) {
    const auto& memory = static_cast<const Memory&>(source);
    Acquisition acquisition(*device_, queue_.get(), {&memory});
    auto* bytes = static_cast<std::byte*>(destination);
    for (std::size_t done = 0, part = 0; done < size_bytes; done += part) {
        const Memory::Place at = memory.place(offset_bytes + done);
        part = std::min(size_bytes - done, at.left_bytes);
        check(api().clEnqueueReadBuffer(queue_.get(), at.window, CL_FALSE, at.offset_bytes, part, bytes + done, 0, nullptr,
                                        event_of(part)),
              Stage::submission, device_->spec(), "clEnqueueReadBuffer of {} bytes", part);
        submitted(part);
    }
    finish(acquisition);
}

void Queue::copy(driver::Memory& destination, std::size_t destination_offset_bytes, const driver::Memory& source,
                 std::size_t source_offset_bytes, std::size_t size_bytes) {
    const auto& to = static_cast<Memory&>(destination);
    const auto& from = static_cast<const Memory&>(source);
    Acquisition acquisition(*device_, queue_.get(), {&to, &from});
    for (std::size_t done = 0, part = 0; done < size_bytes; done += part) {
        const Memory::Place target = to.place(destination_offset_bytes + done);
        const Memory::Place origin = from.place(source_offset_bytes + done);
        part = std::min({size_bytes - done, target.left_bytes, origin.left_bytes});
        check(api().clEnqueueCopyBuffer(queue_.get(), origin.window, target.window, origin.offset_bytes, target.offset_bytes,
                                        part, 0, nullptr, event_of(part)),
              Stage::submission, device_->spec(), "clEnqueueCopyBuffer of {} bytes", part);
        submitted(part);
    }
    finish(acquisition);
}

std::string Queue::prefetch(driver::Memory& memory, std::size_t offset_bytes, std::size_t size_bytes, Location where) {
    if (memory.residency().zero_copy == ZeroCopy::yes) return driver::Queue::prefetch(memory, offset_bytes, size_bytes, where);
    const auto& own = static_cast<Memory&>(memory);
    const cl_mem_migration_flags flags = where == Location::host ? CL_MIGRATE_MEM_OBJECT_HOST : 0;
    for (std::size_t done = 0; done < size_bytes;) {
        const Memory::Place at = own.place(offset_bytes + done);  // a cl_mem moves as a whole
        check(api().clEnqueueMigrateMemObjects(queue_.get(), 1, &at.window, flags, 0, nullptr, nullptr), Stage::submission,
              device_->spec(), "clEnqueueMigrateMemObjects");
        done += at.left_bytes;
    }
    last_ = EventHandle();
    submitted(size_bytes);
    return "clEnqueueMigrateMemObjects is a hint: whether the bytes move before they are used is up to the driver";
}

void Queue::run(const driver::Elementwise& call) {
    last_ = EventHandle();
    Acquisition acquisition(*device_, queue_.get(), call);
    submitted(kernels_.run(queue_.get(), call));
    finish(acquisition);
}

void Queue::reduce(const driver::Reduce& call) {
    last_ = EventHandle();
    Acquisition acquisition(*device_, queue_.get(), call, call.state);
    submitted(kernels_.reduce(queue_.get(), call));
    finish(acquisition);
}

void Queue::launch(const driver::Launch& launch) {
    last_ = EventHandle();
    static_cast<Program*>(launch.kernel)->launch(queue_.get(), launch);
    submitted(0);
}

// CLBlast's gemv multiplies a NaN in y by a beta of 0.
void Queue::set_zero(const driver::BlasGemv& call) {
    static constexpr std::array<std::byte, 16> zero{};
    if (zero_ == nullptr) {
        std::shared_ptr<driver::Memory> memory = device_->allocate(zero.size(), MemoryKind::device);
        write(*memory, 0, zero.data(), zero.size());
        zero_ = std::move(memory);
    }
    driver::Elementwise copy;
    copy.op = Op::copy;
    copy.dtype = kernel_dtype(Op::copy, call.dtype);
    copy.shape[0] = call.a.operation == blas::Operation::none ? call.rows : call.columns;
    copy.operands[0] = {
        call.y.memory, call.y.offset_bytes, {call.y.increment * static_cast<std::int64_t>(size_bytes(call.dtype))}};
    copy.operands[1] = {zero_.get(), 0, {0}};
    run(copy);
}

void Queue::blas(const driver::BlasVector& call) {
    last_ = EventHandle();
    submitted(blas_.run(queue_.get(), call));
}

void Queue::blas(const driver::BlasGemv& call) {
    last_ = EventHandle();
    if (call.beta == 0.0) set_zero(call);
    submitted(blas_.run(queue_.get(), call));
}

void Queue::blas(const driver::BlasGemm& call) {
    last_ = EventHandle();
    submitted(blas_.run(queue_.get(), call));
}

std::unique_ptr<driver::Event> Queue::record() {
    EventHandle event = std::move(last_);
    if (event.get() == nullptr) {
        check(api().clEnqueueMarkerWithWaitList(queue_.get(), 0, nullptr, event.put()), Stage::submission, device_->spec(),
              "clEnqueueMarkerWithWaitList");
    }
    unflushed_ = 0;
    check(api().clFlush(queue_.get()), Stage::submission, device_->spec(), "clFlush");
    return std::make_unique<Event>(device_, std::move(event));
}

void Queue::wait_for(const driver::Event& event) {
    const auto& other = static_cast<const Event&>(event);
    if (&other.device() != device_.get()) return other.wait();
    const cl_event native = other.native();
    last_ = EventHandle();
    check(api().clEnqueueBarrierWithWaitList(queue_.get(), 1, &native, nullptr), Stage::submission, device_->spec(),
          "clEnqueueBarrierWithWaitList");
}

void Queue::synchronize() {
    unflushed_ = 0;
    check(api().clFinish(queue_.get()), Stage::waiting, device_->spec(), "clFinish");
}

}  // namespace tandem::opencl
