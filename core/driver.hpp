#pragma once
// The implementer's interface: what a backend provides. Nothing outside core/ and backends/ includes it.
//
// core/ checks every argument before it calls in here, so implementations trust theirs: sizes are not zero, ranges lie inside
// their memory and inside one window of it where that is promised, pointers are not null, and memory, queue and event belong to
// this device. Failures are thrown as tandem::Error, with the native call's and the native error's name in the message.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/blas_calls.hpp"
#include "core/driver_kernel.hpp"
#include "core/mapped_ranges.hpp"
#include "core/memory_uses.hpp"
#include "core/posix_file.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/reduce.hpp"
#include "tandem/buffer.hpp"
#include "tandem/device.hpp"
#include "tandem/placement.hpp"
#include "tandem/share.hpp"

namespace tandem {
class Exporter;
class HostRegion;
}  // namespace tandem

namespace tandem::driver {

class Device;
class Queue;

/// Memory that exists, for a device to adopt. core/ has looked at what it is: a device needs to look at nothing but this.
struct HostRange {
    std::byte* data = nullptr;
    std::size_t size_bytes = 0;
    bool is_writable = false;
    bool is_file = false;          ///< a file's mapping; whole pages belong to it
    bool is_private_file = false;  ///< written pages of it are the process's own
};

/// Memory that others can have too, as one side gives it out and the other takes it.
struct SharedRange {
    ShareMethod method = ShareMethod::host_memory;
    bool is_writable = true;
    std::size_t size_bytes = 0;
    std::size_t base_offset_bytes = 0;   ///< in the allocation that a handle names
    std::array<std::byte, 64> handle{};  ///< a CUipcMemHandle, for `ipc_handle`
    std::string device_uuid;             ///< of the device that the memory is in; empty: not known, or the host
};

/// A run of bytes that the device can work on.
///
/// Lifetime: shared; the last holder destroys it, which must not throw, and must not wait for the device where the driver leaves
/// a way around. core/ sees to it that no queued work refers to it any more. Holds its device.
class Memory {
public:
    Memory(std::size_t size_bytes, MemoryKind kind, Residency residency)
        : size_bytes_(size_bytes), kind_(kind), residency_(std::move(residency)) {}
    virtual ~Memory() = default;
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }
    [[nodiscard]] MemoryKind kind() const noexcept { return kind_; }

    /// Where the bytes are: what `Buffer::residency` says of them.
    [[nodiscard]] const Residency& residency() const noexcept { return residency_; }

    void set_residency(Residency residency) { residency_ = std::move(residency); }

    /// The bytes on the host, for as long as the memory lives and also while the device works on it; null where there is no such
    /// address. The default is null.
    [[nodiscard]] virtual std::byte* host_address() const noexcept { return nullptr; }

    /// The memory's address in the device's address space, or any stable number with the same alignment where the device does not
    /// tell: what alignment and overlap are judged by. Distinct memories never overlap in it, unless they truly share bytes.
    [[nodiscard]] virtual std::uint64_t address() const noexcept = 0;

    /// Bytes of one native allocation; memory larger than the device's largest allocation consists of several, each of this size
    /// but the last. An operand of `Queue::run` never crosses from one into the next; copies may. The default is one window.
    [[nodiscard]] virtual std::size_t window_bytes() const noexcept { return size_bytes_; }

    /// A host address for [offset_bytes, offset_bytes + size_bytes), valid until `unmap`, or null where the memory can't be seen
    /// from the host in place; core/ then copies. Called when no queued work uses the memory; may block. The default is null.
    virtual void* map(std::size_t /*offset_bytes*/, std::size_t /*size_bytes*/, Access /*access*/) { return nullptr; }
    /// Ends a mapping that `map` gave. Called once for each.
    virtual void unmap(void* /*address*/, Access /*access*/) {}

    /// The memory for others, and for `device_memory` the file descriptor beside it, which is the caller's. Throws unsupported
    /// with the reason in a few words: so does the default. Never called for memory with `pages`.
    virtual std::pair<SharedRange, FileDescriptor> share();

    // What core/ keeps with the memory.

    /// Which queues still work on it.
    MemoryUses uses;
    /// Which parts of it the host looks at.
    MappedRanges mapped;
    /// Of `share_name`, for who has no lock: equal for memories that are the same bytes at several addresses; 0 for what was
    /// never shared. Such memories begin at the same byte.
    std::atomic<std::uint64_t> shared_identity{0};
    /// False where the host may not write to it, so neither may the device.
    bool is_writable = true;
    /// Caller's memory that this memory stands in for, where the device could not adopt it: views for the host are views of that,
    /// brought up to date when they begin and brought back when they end.
    std::byte* mirrored = nullptr;
    /// The pages that the memory is, where they are shareable.
    std::shared_ptr<const HostRegion> pages;
    /// What core/share/known_memories knows it by, and sets; empty where it was never shared.
    std::string share_name;
    /// The process that the memory ends with; null where it ends with none.
    std::shared_ptr<const Exporter> exporter;
    /// Keeps the bytes alive that were adopted. Goes after everything that the implementation holds.
    std::shared_ptr<const void> owner;

private:
    std::size_t size_bytes_;
    MemoryKind kind_;
    Residency residency_;
};

/// A point in a queue. May be asked from any thread.
class Event {
public:
    Event() = default;
    virtual ~Event() = default;
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    [[nodiscard]] virtual bool is_done() const = 0;
    /// Blocks until everything queued before the point is done. Throws what that work failed with.
    virtual void wait() const = 0;
};

/// One operand of a call: where its first element is, and its strides in bytes.
struct Operand {
    Memory* memory = nullptr;
    std::size_t offset_bytes = 0;
    std::array<std::int64_t, max_kernel_dimensions> strides_bytes{};
};

/// Operands of one shape and the order in which kernels walk them. Dimensions run outermost first and are merged as far as they
/// go, so dense operands arrive with one dimension and `contiguous` set. Any byte offset is possible, aligned or not. No
/// dimension is zero.
struct Walk {
    DType dtype = DType::uint8;  ///< already `kernel_dtype(op, ...)`
    int dimensions = 1;
    bool contiguous = false;
    std::array<std::int64_t, max_kernel_dimensions> shape{};
    int operand_count = 2;
    std::array<Operand, max_operands> operands{};

    [[nodiscard]] std::int64_t count() const noexcept {
        std::int64_t elements = 1;
        for (int d = 0; d < dimensions; ++d)
            elements *= shape[static_cast<std::size_t>(d)];
        return elements;
    }
};

/// An elementwise operation: operand 0 is the output, the others are the inputs.
struct Elementwise : Walk {
    Op op = Op::copy;
};

/// A reduction of one operand into `state`, laid out as kernels/reduce.hpp says, in one window and aligned to 64 bytes.
struct Reduce : Walk {
    ReduceOp op = ReduceOp::sum;
    Memory* state = nullptr;
    bool is_first = false;      ///< the state holds nothing yet
    unsigned max_partials = 1;  ///< there is room for
};

/// Work between two events: whichever comes first. The default is a few microseconds' traffic, or launches that take as long.
struct EventInterval {
    std::size_t bytes = std::size_t{1} << 20U;
    unsigned operations = 128;

    /// Some microseconds' traffic of a GPU's memory. An event costs the host 0.1 us an operation at 128 of them (NVIDIA's drivers
    /// on an H200).
    static EventInterval on_gpu() noexcept { return {std::size_t{16} << 20U, 512}; }
};

/// An in-order stream of work. Submitting calls come from one thread at a time, except `record`, which may come from any.
/// Nothing here waits unless it says so. Destroyed when its work is done.
class Queue {
public:
    Queue() = default;
    virtual ~Queue() = default;
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;

    /// Copies from host memory, which stays valid and unchanged until the queue has passed this point.
    virtual void write(Memory& destination, std::size_t offset_bytes, const void* source, std::size_t size_bytes) = 0;
    /// Copies to host memory, which holds the bytes once the queue has passed this point.
    virtual void read(const Memory& source, std::size_t offset_bytes, void* destination, std::size_t size_bytes) = 0;
    /// Copies within the device; the two ranges don't overlap.
    virtual void copy(Memory& destination, std::size_t destination_offset_bytes, const Memory& source,
                      std::size_t source_offset_bytes, std::size_t size_bytes) = 0;
    /// Copies between two devices of this backend, of which this queue's is one, without a way through the host's memory that
    /// core/ would know. False, having done nothing, where there is no such way: the default.
    virtual bool copy_between(Memory& /*destination*/, std::size_t /*destination_offset_bytes*/, const Memory& /*source*/,
                              std::size_t /*source_offset_bytes*/, std::size_t /*size_bytes*/) {
        return false;
    }
    /// Runs a kernel of kernels/.
    virtual void run(const Elementwise& call) = 0;
    /// Takes elements into a reduction's state.
    virtual void reduce(const Reduce& call) = 0;
    /// Runs a kernel that `Device::compile` of this device has given. The kernel lives until it is done; argument values are
    /// copied before this returns. Throws invalid_argument or out_of_memory where the driver refuses the launch. The default:
    /// unsupported.
    virtual void launch(const Launch& launch);

    /// From here on work is recorded and not done, until `end_recording`. False where the driver has no such thing: the default.
    virtual bool begin_recording() { return false; }
    /// Null where the driver has found the work not fit for it, and in place of an error where `is_wanted` is false.
    virtual std::unique_ptr<Recording> end_recording(bool /*is_wanted*/) { return nullptr; }
    /// Submits what a queue of this device has recorded, in which everything lives until it is done.
    virtual void replay(Recording& /*recording*/) {}

    /// Linear algebra, in one window for each operand. Throws unavailable where the vendor's library is not there. The default
    /// throws unsupported.
    virtual void blas(const BlasVector& call);
    virtual void blas(const BlasGemv& call);
    virtual void blas(const BlasGemm& call);

    /// Moves pages of `shared` memory to where they are going to be used. Returns why nothing came of it; empty where it was
    /// submitted. The default: nothing to move.
    virtual std::string prefetch(Memory& memory, std::size_t offset_bytes, std::size_t size_bytes, Location where);

    /// A point after everything submitted so far.
    virtual std::unique_ptr<Event> record() = 0;
    /// How much work an event's cost is nothing beside.
    [[nodiscard]] virtual EventInterval event_interval() const noexcept { return {}; }
    /// Work submitted from here on starts after `event`, which may be any event of this backend.
    virtual void wait_for(const Event& event) = 0;
    /// Blocks until everything submitted is done. Throws what it failed with.
    virtual void synchronize() = 0;
};

/// One open device. Thread safe.
class Device : public std::enable_shared_from_this<Device> {
public:
    Device() = default;
    virtual ~Device() = default;
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    [[nodiscard]] virtual const DeviceInfo& info() const noexcept = 0;
    /// Memory of any kind but `adopted`. Throws out_of_memory, holding nothing; unsupported for a kind that this device lacks.
    virtual std::shared_ptr<Memory> allocate(std::size_t size_bytes, MemoryKind kind) = 0;
    /// Memory that is `range`, in place; the bytes stay valid as long as it lives. Throws unsupported with the reason in a few
    /// words, where the device can't work on them in place; out_of_memory, holding nothing.
    virtual std::shared_ptr<Memory> adopt(const HostRange& range) = 0;
    /// `device` memory that `Memory::share` gives out. Throws out_of_memory, holding nothing; unsupported with the reason in a
    /// few words: so does the default, and core/ then takes pages of the host where the device works on them in place.
    virtual std::shared_ptr<Memory> allocate_shareable(std::size_t size_bytes);
    /// Memory that is what `range` tells, of `device_memory` by `file`, which stays the caller's, or an `ipc_handle`. Its sizes
    /// come from another process: throws bad_file where they are not what the driver tells. Throws unsupported with the reason in
    /// a few words: so does the default; unavailable where the device that the memory is in is not there; out_of_memory, holding
    /// nothing.
    virtual std::shared_ptr<Memory> attach(const SharedRange& range, int file);
    /// Memory that is `size_bytes` at a device address of this process. Throws invalid_argument for memory that is not this
    /// device's, out_of_range where less is allocated there, unsupported with the reason in a few words: so does the default.
    virtual std::shared_ptr<Memory> adopt_device_memory(std::uint64_t address, std::size_t size_bytes);
    /// How many threads that read a cached file are needed to beat the device's own copies from the file's pages, adopted window
    /// by window, with the readers there are beside them: with fewer, core/ loads files so. 0: never. The default.
    [[nodiscard]] virtual unsigned readers_worth_adopting() const noexcept { return 0; }
    /// Tells the driver how `shared` memory is going to be used. Returns why nothing came of it; empty where it was taken. The
    /// default: no advice is taken.
    virtual std::string advise(Memory& memory, std::size_t offset_bytes, std::size_t size_bytes, MemoryAdvice advice);
    virtual std::shared_ptr<Queue> make_queue() = 0;
    /// A caller's own kernel; its image comes from the cache on disk where it is there. Throws build_failed with the compiler's
    /// log; invalid_argument where the request holds nothing for this device, or no kernel of that name; unavailable where the
    /// compiler's library is not there. The default: unsupported.
    virtual std::shared_ptr<Kernel> compile(const CompileRequest& request);
    /// What `Queue::blas` works with, in words. Throws as that does.
    virtual std::string blas_library();
    /// Bytes of device memory that the call needs beside its matrices. The default is 0.
    [[nodiscard]] virtual std::size_t blas_scratch_bytes(const BlasGemm& call) const noexcept;
};

/// A family of devices behind one vendor interface. One object for the whole process, made on first use; thread safe.
class Backend {
public:
    Backend() = default;
    virtual ~Backend() = default;
    Backend(const Backend&) = delete;
    Backend& operator=(const Backend&) = delete;

    /// Every device there is, best first; `index` and `spec` are left to core/. Where there is none, throws unavailable with the
    /// reason in a few words ("libcuda.so.1 not found", "0 devices").
    virtual std::vector<DeviceInfo> devices() = 0;
    /// Opens what `devices()` listed at `index`, with that `info`.
    virtual std::shared_ptr<Device> open(const DeviceInfo& info) = 0;
};

/// What a backend folder exports; backends/CMakeLists.txt writes the table of them.
struct Registration {
    const char* name;           ///< "cuda"
    Backend& (*backend)();      ///< null where the build left it out
    const char* absent_reason;  ///< then why: "built without the CUDA toolkit"
};
std::span<const Registration> registrations() noexcept;

}  // namespace tandem::driver
