#pragma once
// What stands in for a native queue while a graph is recorded.

#include <memory>
#include <variant>
#include <vector>

#include "core/driver.hpp"
#include "core/queue_state.hpp"

namespace tandem {

/// Keeps the calls that it is given, and hands them on to the native queue where that records too. Copies from and to the host,
/// and all that waits, are refused: invalid_argument.
class Recorder final : public driver::Queue {
public:
    explicit Recorder(driver::Queue& native) : native_(native), is_native_(native.begin_recording()) {}

    void write(driver::Memory& destination, std::size_t offset_bytes, const void* source, std::size_t size_bytes) override;
    void read(const driver::Memory& source, std::size_t offset_bytes, void* destination, std::size_t size_bytes) override;
    void copy(driver::Memory& destination, std::size_t destination_offset_bytes, const driver::Memory& source,
              std::size_t source_offset_bytes, std::size_t size_bytes) override;
    void run(const driver::Elementwise& call) override;
    void reduce(const driver::Reduce& call) override;
    bool copy_between(driver::Memory& destination, std::size_t destination_offset_bytes, const driver::Memory& source,
                      std::size_t source_offset_bytes, std::size_t size_bytes) override;
    void blas(const driver::BlasVector& call) override;
    void blas(const driver::BlasGemv& call) override;
    void blas(const driver::BlasGemm& call) override;
    void launch(const driver::Launch& launch) override;
    std::string prefetch(driver::Memory& memory, std::size_t offset_bytes, std::size_t size_bytes, Location where) override;
    std::unique_ptr<driver::Event> record() override;
    void wait_for(const driver::Event& event) override;
    void synchronize() override;

    /// Ends the native recording: null where there is none that can be used. Called once.
    std::unique_ptr<driver::Recording> end(bool is_wanted);

    struct Copy {
        driver::Memory* destination;
        std::size_t destination_offset_bytes;
        const driver::Memory* source;
        std::size_t source_offset_bytes;
        std::size_t size_bytes;
    };
    /// A launch with arguments and values of its own.
    struct Launch {
        driver::Launch launch;
        std::vector<driver::KernelArgument> arguments;
        std::vector<std::vector<std::byte>> values;
    };
    using Call = std::variant<Copy, driver::Elementwise, driver::Reduce, Launch>;
    [[nodiscard]] std::vector<Call>& calls() noexcept { return calls_; }

private:
    driver::Queue& native_;
    const bool is_native_;
    std::vector<Call> calls_;
};

/// What a Graph is to core/.
struct GraphState {
    std::shared_ptr<DeviceState> device;
    std::vector<std::shared_ptr<driver::Memory>> memory;
    std::vector<std::shared_ptr<const void>> things;  // kernels
    std::vector<Recorder::Call> calls;
    std::unique_ptr<driver::Recording> native;  // null: the calls are made one by one
};

}  // namespace tandem
