#pragma once
// Building the kernels of kernels/ for one device, and launching them.

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "backends/opencl/api.hpp"
#include "core/disk_cache.hpp"
#include "core/driver.hpp"

namespace tandem::opencl {

/// How work is spread over a kind of device; the one place to tune it (the figures are in kernel.cpp).
struct Tuning {
    bool is_unaligned;              ///< the device reads and writes any type at any address
    std::size_t pack_bytes;         ///< bytes that one access moves, at most 16 lanes
    unsigned group_items;           ///< work items in a group
    unsigned packs_per_item;        ///< packs that an item handles, group_items apart; 0: chosen for each call, by the two below
    std::size_t min_item_bytes;     ///< an item gets at least this much, so that starting it does not show
    std::size_t max_item_bytes;     ///< and at most this much, so that no thread idles at the end
    unsigned elements_per_item;     ///< neighbouring elements that an item of a strided kernel handles
    std::uint64_t streaming_bytes;  ///< outputs from this size on bypass the cache, where the compiler can; 0 is never
    unsigned compute_units;
};

/// The programs of one device, one for each operation and type, built when first used. Thread safe.
class Programs {
public:
    Programs(const DeviceInfo& info, cl_context context, cl_device_id device, std::string build_identity);

    /// Valid as long as this is. From the cache on disk where it is there and the driver takes it, else from source. Throws
    /// build_failed with the compiler's log. Native calls: clCreateProgramWithBinary, clCreateProgramWithSource, clBuildProgram.
    cl_program get(Op op, DType dtype);
    cl_program get(ReduceOp op, DType dtype);
    cl_program get_iamax(DType dtype);

    struct Recipe {
        std::string name;  // for messages: "add float32"
        std::string source;
        std::string options;
        std::span<const std::byte> spirv{};  // in place of the source
    };
    /// A program of its own; else as `get`. `is_from_cache` tells which it was.
    [[nodiscard]] ProgramHandle build(const Recipe& recipe, bool* is_from_cache = nullptr) const;

    [[nodiscard]] const std::string& spec() const noexcept { return spec_; }
    [[nodiscard]] const Tuning& tuning() const noexcept { return tuning_; }

private:
    [[nodiscard]] std::string options(DType dtype, int operands) const;
    cl_program get(ProgramHandle& program, const Recipe& recipe);
    [[nodiscard]] ProgramHandle create(const Recipe& recipe) const;
    ProgramHandle load(const std::string& key, const std::string& options) const;
    void save(const std::string& key, cl_program program) const;

    std::string spec_;
    cl_context context_;
    cl_device_id device_;
    std::string build_identity_;
    Tuning tuning_;
    DiskCache cache_;
    std::mutex mutex_;
    std::array<std::array<ProgramHandle, dtype_count>, op_count> programs_;
    std::array<std::array<ProgramHandle, dtype_count>, reduce_op_count> reduce_programs_;
    std::array<ProgramHandle, dtype_count> iamax_programs_;
};

/// Groups of kernels/iamax.cl, whose scratch memory holds two numbers of 8 bytes for each.
inline constexpr std::size_t iamax_groups = 256;

/// The argument struct of no kernel is larger.
inline constexpr std::size_t max_argument_bytes = 256;

/// The kernels of one queue: arguments are a kernel's state, so queues that share kernels would need a lock. One thread at a
/// time.
class Kernels {
public:
    explicit Kernels(Programs& programs) : programs_(programs) {}

    /// Enqueues `call`; returns the bytes of its output. Native calls: clSetKernelArg, clEnqueueNDRangeKernel.
    std::size_t run(cl_command_queue queue, const driver::Elementwise& call);
    /// Enqueues `call`, one or two kernels; returns the bytes of its elements.
    std::size_t reduce(cl_command_queue queue, const driver::Reduce& call);

private:
    struct Kernel {
        KernelHandle handle;
        std::array<std::uint64_t, max_operands> bound{};  ///< ids of the windows that its arguments refer to; 0 is none
        std::size_t set_bytes = 0;                        ///< of `set`, the argument struct as it was last set; 0 is none
        std::array<std::byte, max_argument_bytes> set{};
    };
    static constexpr std::size_t variants = 7;  // packs of five widths, strided by two alignments; some are not there
    using Set = std::array<Kernel, variants>;
    static constexpr std::size_t reduce_variants =
        4;  // packs, strided by two alignments, and what brings partial results together
    using ReduceSet = std::array<Kernel, reduce_variants>;
    struct Launch;

    std::size_t run_packs(const Launch& launch, const driver::Elementwise& call, Set& kernels);
    std::size_t run_strided(const Launch& launch, const driver::Elementwise& call, Set& kernels);
    std::uint64_t reduce_packs(const Launch& launch, const driver::Reduce& call, const PackPlan& plan, ReduceSet& kernels);
    std::uint64_t reduce_strided(const Launch& launch, const driver::Reduce& call, ReduceSet& kernels);
    void enqueue(const Launch& launch, Kernel& kernel, const void* arguments, std::size_t arguments_bytes, std::uint64_t groups);
    void create(cl_program program, const char* name, Kernel& kernel) const;

    Programs& programs_;
    std::array<std::array<std::unique_ptr<Set>, dtype_count>, op_count> sets_;
    std::array<std::array<std::unique_ptr<ReduceSet>, dtype_count>, reduce_op_count> reduce_sets_;
};

}  // namespace tandem::opencl
