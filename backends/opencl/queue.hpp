#pragma once
// OpenCL command queues and events.

#include <memory>

#include "backends/opencl/api.hpp"
#include "backends/opencl/blas.hpp"
#include "backends/opencl/device.hpp"
#include "backends/opencl/kernel.hpp"
#include "core/driver.hpp"

namespace tandem::opencl {

/// A marker's event, or a transfer's. Keeps its device open.
class Event final : public driver::Event {
public:
    Event(std::shared_ptr<Device> device, EventHandle event) : device_(std::move(device)), event_(std::move(event)) {}

    /// Native calls: clGetEventInfo.
    [[nodiscard]] bool is_done() const override;
    /// Native calls: clWaitForEvents.
    void wait() const override;

    [[nodiscard]] const Device& device() const noexcept { return *device_; }
    [[nodiscard]] cl_event native() const noexcept { return event_.get(); }

private:
    std::shared_ptr<Device> device_;
    EventHandle event_;
};

/// An in-order command queue. Commands that cross a window's end are split there.
///
/// Graphs are replayed call by call. cl_khr_command_buffer is provisional (0.9); the one driver at hand that offers it, PoCL 3.1,
/// runs recorded kernels with the arguments that they have at the end of the recording, and no faster.
///
/// OpenCL lets a driver keep commands back until a flush, so there is one after `record`, after each command that is large enough
/// to hide its cost, and after every few small ones.
class Queue final : public driver::Queue {
public:
    explicit Queue(std::shared_ptr<Device> device);

    void write(driver::Memory& destination, std::size_t offset_bytes, const void* source, std::size_t size_bytes) override;
    void read(const driver::Memory& source, std::size_t offset_bytes, void* destination, std::size_t size_bytes) override;
    void copy(driver::Memory& destination, std::size_t destination_offset_bytes, const driver::Memory& source,
              std::size_t source_offset_bytes, std::size_t size_bytes) override;
    void run(const driver::Elementwise& call) override;
    void reduce(const driver::Reduce& call) override;
    /// Native calls: clSetKernelArg, clEnqueueNDRangeKernel.
    void launch(const driver::Launch& launch) override;
    void blas(const driver::BlasVector& call) override;
    void blas(const driver::BlasGemv& call) override;
    void blas(const driver::BlasGemm& call) override;
    /// Native call: clEnqueueMigrateMemObjects.
    std::string prefetch(driver::Memory& memory, std::size_t offset_bytes, std::size_t size_bytes, Location where) override;

    std::unique_ptr<driver::Event> record() override;
    [[nodiscard]] driver::EventInterval event_interval() const noexcept override {
        return is_gpu_ ? driver::EventInterval::on_gpu() : driver::EventInterval();
    }
    /// An event of another device belongs to another context, which no wait list may mix: on such a one this call itself waits.
    void wait_for(const driver::Event& event) override;
    void synchronize() override;

private:
    void submitted(std::size_t size_bytes);
    void set_zero(const driver::BlasGemv& call);
    // The place for a transfer's own event, where that is worth having: `record` then needs no marker behind it.
    cl_event* event_of(std::size_t size_bytes);
    // Behind a command on memory of another driver.
    void finish(Acquisition& acquisition);

    std::shared_ptr<Device> device_;
    QueueHandle queue_;
    Kernels kernels_;
    Blas blas_;
    std::shared_ptr<driver::Memory> zero_;  // an element of zeros, once gemv has asked for it
    const bool is_gpu_;
    unsigned unflushed_ = 0;
    EventHandle last_;  // of the last command, where that was a large transfer
};

}  // namespace tandem::opencl
