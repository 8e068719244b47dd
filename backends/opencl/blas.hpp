#pragma once
// Linear algebra through CLBlast, opened at run time.

#include <array>
#include <optional>
#include <string>

#include "backends/opencl/api.hpp"
#include "core/driver.hpp"

namespace tandem::opencl {

class Device;

/// CLBlast's C interface, of version 1.5 or newer: declared here, so that building takes no CLBlast. Element counts, offsets and
/// increments are in elements. Events may be null. Thread safe.
namespace clblast {

using Status = int;
enum Layout : int { column_major = 102 };
enum Transpose : int { no = 111, yes = 112, conjugate = 113 };
using QueueAt = cl_command_queue*;
using EventAt = cl_event*;

// As CLBlast takes a scalar: complex ones as OpenCL's vectors, by value.
template <class Value>
struct Functions {
    Status (*axpy)(std::size_t, Value, cl_mem, std::size_t, std::size_t, cl_mem, std::size_t, std::size_t, QueueAt, EventAt);
    Status (*scal)(std::size_t, Value, cl_mem, std::size_t, std::size_t, QueueAt, EventAt);
    Status (*dot)(std::size_t, cl_mem, std::size_t, cl_mem, std::size_t, std::size_t, cl_mem, std::size_t, std::size_t, QueueAt,
                  EventAt);
    decltype(dot) dotc;
    Status (*nrm2)(std::size_t, cl_mem, std::size_t, cl_mem, std::size_t, std::size_t, QueueAt, EventAt);
    decltype(nrm2) asum;
    Status (*gemv)(Layout, Transpose, std::size_t, std::size_t, Value, cl_mem, std::size_t, std::size_t, cl_mem, std::size_t,
                   std::size_t, Value, cl_mem, std::size_t, std::size_t, QueueAt, EventAt);
    Status (*gemm)(Layout, Transpose, Transpose, std::size_t, std::size_t, std::size_t, Value, cl_mem, std::size_t, std::size_t,
                   cl_mem, std::size_t, std::size_t, Value, cl_mem, std::size_t, std::size_t, QueueAt, EventAt);
    Status (*gemm_strided_batched)(Layout, Transpose, Transpose, std::size_t, std::size_t, std::size_t, Value, cl_mem,
                                   std::size_t, std::size_t, std::size_t, cl_mem, std::size_t, std::size_t, std::size_t, Value,
                                   cl_mem, std::size_t, std::size_t, std::size_t, std::size_t, QueueAt, EventAt);
};

struct Library {
    SharedLibrary library{"libclblast.so.1"};
    Functions<cl_half> h{};  // the gemm family alone
    Functions<cl_float> s{};
    Functions<cl_double> d{};
    Functions<cl_float2> c{};
    Functions<cl_double2> z{};

    /// Opens it on the first call. Throws unavailable: "libclblast.so.1 not found".
    static const Library& get();

private:
    Library();
};

}  // namespace clblast

/// Linear algebra in one queue. One thread at a time.
///
/// CLBlast compiles a routine's kernels for a type when it is first called in a context, and keeps them in memory alone, with the
/// context, until the process ends.
class Blas {
public:
    explicit Blas(Device& device) : device_(device) {}

    /// Enqueues `call`; returns the bytes that it works on. Throws unavailable without CLBlast; unsupported for what its 32-bit
    /// offsets don't reach, and for half precision where the device has none.
    std::size_t run(cl_command_queue queue, const driver::BlasVector& call);
    std::size_t run(cl_command_queue queue, const driver::BlasGemv& call);
    std::size_t run(cl_command_queue queue, const driver::BlasGemm& call);

private:
    // A window and a place in it, in elements.
    struct Elements {
        cl_mem window;
        std::size_t offset;
    };
    enum class Routine : std::uint8_t { axpy, scal, dot, nrm2, asum, gemv, gemm, gemm_strided_batched };
    struct IamaxKernels {
        KernelHandle parts, whole;
    };

    [[nodiscard]] Elements elements(const driver::Memory* memory, std::size_t offset_bytes, DType dtype,
                                    std::int64_t extent) const;
    cl_mem scratch();
    template <class Value>
    void run_vector(const clblast::Functions<Value>& functions, cl_command_queue queue, const driver::BlasVector& call);
    template <class Value>
    void run_gemv(const clblast::Functions<Value>& functions, cl_command_queue queue, const driver::BlasGemv& call);
    template <class Value>
    void run_gemm(const clblast::Functions<Value>& functions, cl_command_queue queue, const driver::BlasGemm& call);
    void check_half();
    void run_iamax(cl_command_queue queue, const driver::BlasVector& call);
    void check_status(clblast::Status status, Routine routine, DType dtype);

    Device& device_;
    MemoryHandle scratch_;  // for one command after the other of the queue
    std::array<IamaxKernels, dtype_count> iamax_;
    std::optional<bool> has_half_;
};

/// "CLBlast (libclblast.so.1)". Throws unavailable.
std::string blas_library();

}  // namespace tandem::opencl
