#pragma once
// Streams and events of a CUDA device.

#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/api.hpp"
#include "backends/cuda/blas.hpp"
#include "core/driver.hpp"

namespace tandem::cuda {

class Device;

/// Events that are used again, since making one costs several times what recording it does. Thread safe.
/// Native calls: cuEventCreate(CU_EVENT_DISABLE_TIMING), cuEventDestroy.
class EventPool {
public:
    explicit EventPool(const Context& context) : context_(context) {}
    ~EventPool();
    EventPool(const EventPool&) = delete;
    EventPool& operator=(const EventPool&) = delete;

    /// The context is current.
    CUevent take();
    /// Takes back an event, pending or not: who waits for it already is not affected by its next recording.
    void put(CUevent event) noexcept;

private:
    const Context& context_;
    std::mutex mutex_;
    std::vector<CUevent> events_;
};

/// Native calls: cuEventQuery, cuEventSynchronize.
class Event final : public driver::Event {
public:
    /// Records the event on `stream`; the context is current.
    Event(std::shared_ptr<Device> device, CUstream stream);
    ~Event() override;

    [[nodiscard]] bool is_done() const override;
    void wait() const override;

    [[nodiscard]] CUevent native() const noexcept { return native_; }

private:
    std::shared_ptr<Device> device_;
    CUevent native_;
};

/// A non-blocking stream, which does not order itself with the default one.
///
/// Copies between the device and pageable host memory go through the driver's staging buffers: `write` then returns when the last
/// bytes have been staged, and `read` only when they have arrived, which the driver leaves no way around. Native calls:
/// cuMemcpyAsync, which tells the sides by the addresses, cuLaunchKernel, cuEventRecord, cuStreamWaitEvent,
/// cuStreamSynchronize.
class Queue final : public driver::Queue {
public:
    explicit Queue(std::shared_ptr<Device> device);
    ~Queue() override;

    void write(driver::Memory& destination, std::size_t offset_bytes, const void* source, std::size_t size_bytes) override;
    void read(const driver::Memory& source, std::size_t offset_bytes, void* destination, std::size_t size_bytes) override;
    void copy(driver::Memory& destination, std::size_t destination_offset_bytes, const driver::Memory& source,
              std::size_t source_offset_bytes, std::size_t size_bytes) override;
    /// Native call: cuMemcpyPeerAsync.
    bool copy_between(driver::Memory& destination, std::size_t destination_offset_bytes, const driver::Memory& source,
                      std::size_t source_offset_bytes, std::size_t size_bytes) override;
    void run(const driver::Elementwise& call) override;
    void reduce(const driver::Reduce& call) override;
    void launch(const driver::Launch& launch) override;
    /// Native calls: cuStreamBeginCapture, cuStreamEndCapture.
    bool begin_recording() override;
    std::unique_ptr<driver::Recording> end_recording(bool is_wanted) override;
    void replay(driver::Recording& recording) override;
    void blas(const driver::BlasVector& call) override;
    void blas(const driver::BlasGemv& call) override;
    void blas(const driver::BlasGemm& call) override;
    /// Native call: cuMemPrefetchAsync.
    std::string prefetch(driver::Memory& memory, std::size_t offset_bytes, std::size_t size_bytes, Location where) override;
    std::unique_ptr<driver::Event> record() override;
    [[nodiscard]] driver::EventInterval event_interval() const noexcept override { return driver::EventInterval::on_gpu(); }
    void wait_for(const driver::Event& event) override;
    void synchronize() override;

private:
    void copy_bytes(CUdeviceptr to, CUdeviceptr from, std::size_t size_bytes);

    std::shared_ptr<Device> device_;
    const Context& context_;
    CUstream stream_ = nullptr;
    std::unique_ptr<Blas> blas_;  ///< goes before the stream does
};

}  // namespace tandem::cuda
