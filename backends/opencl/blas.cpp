#include "backends/opencl/blas.hpp"

#include <algorithm>
#include <atomic>
#include <limits>

#include "backends/opencl/device.hpp"
#include "backends/opencl/memory.hpp"
#include "core/at_exit.hpp"
#include "tandem/error.hpp"

namespace tandem::opencl {
namespace clblast {
namespace {

// The names of the routines of one type: CLBlastSaxpy, CLBlastScnrm2.
template <class Value>
void fill(const SharedLibrary& library, Functions<Value>& functions, const std::string& letter) {
    const auto get = [&](auto& function, const std::string& routine) {
        function = library.get<std::remove_reference_t<decltype(function)>>(("CLBlast" + routine).c_str());
    };
    get(functions.gemm, letter + "gemm");
    get(functions.gemm_strided_batched, letter + "gemmStridedBatched");
    if constexpr (!std::is_same_v<Value, cl_half>) {
        const bool is_complex = letter == "C" || letter == "Z";
        const std::string to_real = letter == "C" ? "Sc" : letter == "Z" ? "Dz" : letter;
        get(functions.axpy, letter + "axpy");
        get(functions.scal, letter + "scal");
        get(functions.dot, letter + (is_complex ? "dotu" : "dot"));
        get(functions.dotc, letter + (is_complex ? "dotc" : "dot"));
        get(functions.nrm2, to_real + "nrm2");
        get(functions.asum, to_real + "asum");
        get(functions.gemv, letter + "gemv");
    }
}

Transpose transpose_of(blas::Operation operation) noexcept {
    switch (operation) {
        case blas::Operation::none:
            return no;
        case blas::Operation::transpose:
            return yes;
        case blas::Operation::conjugate_transpose:
            return conjugate;
    }
    return no;
}

// What is not an OpenCL status of its own.
const char* name_of(Status status) noexcept {
    switch (status) {
        case -1024:
            return "NotImplemented";
        case -2050:
            return "InsufficientMemoryTemp";
        case -2048:
            return "InvalidOverrideKernel";
        case -2047:
            return "MissingOverrideParameter";
        case -2046:
            return "InvalidLocalMemUsage";
        case -2045:
            return "NoHalfPrecision";
        case -2044:
            return "NoDoublePrecision";
        case -2041:
            return "DatabaseError";
        case -2039:
            return "UnexpectedError";
        default:
            return status > -1024 && status <= -1007 ? "an argument that it finds invalid" : "UnknownError";
    }
}

ErrorCode code_of(Status status) noexcept {
    switch (status) {
        case -1024:
        case -2041:
        case -2044:
        case -2045:
        case -2046:
            return ErrorCode::unsupported;
        case -2050:
            return ErrorCode::out_of_memory;
        default:
            return ErrorCode::internal;
    }
}

}  // namespace

Library::Library() {
    fill(library, h, "H");
    fill(library, s, "S");
    fill(library, d, "D");
    fill(library, c, "C");
    fill(library, z, "Z");
}

const Library& Library::get() {
    // Never destroyed: queues in static storage may still use it. A failed attempt is repeated by the next call.
    static const Library* const library = new Library;
    return *library;
}

}  // namespace clblast

namespace {

using driver::BlasGemm;
using driver::BlasGemv;
using driver::BlasVector;
using driver::BlasVectorOp;

template <class Value>
Value value_of(std::complex<double> scalar) noexcept {
    const double real = scalar.real(), imaginary = scalar.imag();
    if constexpr (std::is_same_v<Value, cl_half>) return Float16(static_cast<float>(real)).bits;
    if constexpr (std::is_same_v<Value, cl_float>) return static_cast<float>(real);
    if constexpr (std::is_same_v<Value, cl_double>) return real;
    if constexpr (std::is_same_v<Value, cl_float2>) return {{static_cast<float>(real), static_cast<float>(imaginary)}};
    if constexpr (std::is_same_v<Value, cl_double2>) return {{real, imaginary}};
}

// Elements of a column-major matrix from its first to its last.
std::int64_t extent(std::int64_t rows, std::int64_t columns, std::int64_t leading_dimension) noexcept {
    return (columns - 1) * leading_dimension + rows;
}

// As Blas::Routine has them.
constexpr std::array routine_names{"axpy", "scal", "dot", "nrm2", "asum", "gemv", "gemm", "gemmStridedBatched"};

constexpr std::size_t scratch_bytes = iamax_groups * 2 * sizeof(std::uint64_t);

}  // namespace

Blas::Elements Blas::elements(const driver::Memory* memory, std::size_t offset_bytes, DType dtype, std::int64_t extent) const {
    const Memory::Place place = static_cast<const Memory*>(memory)->place(offset_bytes);
    const std::size_t offset = place.offset_bytes / size_bytes(dtype);
    constexpr auto limit = static_cast<std::size_t>(std::numeric_limits<cl_int>::max());
    if (offset + static_cast<std::size_t>(extent) > limit) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("{}: {} elements of {} at {} bytes of an allocation: CLBlast counts to {} there", device_.spec(),
                                extent, to_string(dtype), place.offset_bytes, limit));
    }
    return {place.window, offset};
}

cl_mem Blas::scratch() {
    if (scratch_.get() == nullptr) {
        cl_int status = CL_SUCCESS;
        scratch_ = MemoryHandle(api().clCreateBuffer(device_.context(), CL_MEM_READ_WRITE, scratch_bytes, nullptr, &status));
        check(status, Stage::allocation, device_.spec(), "clCreateBuffer of {} bytes", scratch_bytes);
    }
    return scratch_.get();
}

void Blas::check_status(clblast::Status status, Routine routine, DType dtype) {
    // Whatever a routine's first call has set up, its compiler's too, must not go before the work is done.
    static std::array<std::array<std::atomic<bool>, dtype_count>, routine_names.size()> have_run{};
    std::atomic<bool>& has_run = have_run[static_cast<std::size_t>(routine)][static_cast<std::size_t>(dtype)];
    if (!has_run.load(std::memory_order_relaxed) && !has_run.exchange(true)) finish_work_at_exit();
    if (status == 0) return;
    const std::string what =
        fmt::format("CLBlast's {} of {}", routine_names[static_cast<std::size_t>(routine)], to_string(dtype));
    if (status > -1000) fail(status, Stage::submission, device_.spec(), what);
    throw Error(clblast::code_of(status), fmt::format("{}: {}: {} ({})", device_.spec(), what, clblast::name_of(status), status),
                status);
}

template <class Value>
void Blas::run_vector(const clblast::Functions<Value>& functions, cl_command_queue queue, const BlasVector& call) {
    const auto vector = [&](const driver::BlasOperand& operand) {
        return elements(operand.memory, operand.offset_bytes, call.dtype, (call.count - 1) * operand.increment + 1);
    };
    const auto count = static_cast<std::size_t>(call.count);
    const auto x_step = static_cast<std::size_t>(call.x.increment), y_step = static_cast<std::size_t>(call.y.increment);
    const Elements x = vector(call.x);
    switch (call.op) {
        case BlasVectorOp::axpy: {
            const Elements y = vector(call.y);
            return check_status(functions.axpy(count, value_of<Value>(call.alpha), x.window, x.offset, x_step, y.window, y.offset,
                                               y_step, &queue, nullptr),
                                Routine::axpy, call.dtype);
        }
        case BlasVectorOp::scal:
            return check_status(functions.scal(count, value_of<Value>(call.alpha), x.window, x.offset, x_step, &queue, nullptr),
                                Routine::scal, call.dtype);
        case BlasVectorOp::dot:
        case BlasVectorOp::dotc: {
            const Elements y = vector(call.y);
            const Elements result = elements(call.result.memory, call.result.offset_bytes, call.dtype, 1);
            const auto function = call.op == BlasVectorOp::dot ? functions.dot : functions.dotc;
            return check_status(function(count, result.window, result.offset, x.window, x.offset, x_step, y.window, y.offset,
                                         y_step, &queue, nullptr),
                                Routine::dot, call.dtype);
        }
        default:
            break;
    }
    // Of complex vectors these two write the real part of a complex number, for which the result has no room.
    const bool is_norm = call.op == BlasVectorOp::nrm2;
    check_status((is_norm ? functions.nrm2 : functions.asum)(count, scratch(), 0, x.window, x.offset, x_step, &queue, nullptr),
                 is_norm ? Routine::nrm2 : Routine::asum, call.dtype);
    const Memory::Place result = static_cast<const Memory*>(call.result.memory)->place(call.result.offset_bytes);
    check(api().clEnqueueCopyBuffer(queue, scratch(), result.window, 0, result.offset_bytes, component_bytes(call.dtype), 0,
                                    nullptr, nullptr),
          Stage::submission, device_.spec(), "clEnqueueCopyBuffer of {} bytes", component_bytes(call.dtype));
}

void Blas::run_iamax(cl_command_queue queue, const BlasVector& call) {
    const Api& cl = api();
    Programs& programs = device_.programs();
    IamaxKernels& kernels = iamax_[static_cast<std::size_t>(call.dtype)];
    if (kernels.whole.get() == nullptr) {
        const cl_program program = programs.get_iamax(call.dtype);
        cl_int status = CL_SUCCESS;
        kernels.parts = KernelHandle(cl.clCreateKernel(program, "iamax_parts", &status));
        check(status, Stage::setup, device_.spec(), "clCreateKernel of iamax_parts");
        kernels.whole = KernelHandle(cl.clCreateKernel(program, "iamax_whole", &status));
        check(status, Stage::setup, device_.spec(), "clCreateKernel of iamax_whole");
    }
    const auto set = [&]<class... Arguments>(cl_kernel kernel, Arguments... arguments) {
        cl_uint index = 0;
        (check(cl.clSetKernelArg(kernel, index++, sizeof(Arguments), &arguments), Stage::submission, device_.spec(),
               "clSetKernelArg of iamax"),
         ...);
    };
    const Memory::Place x = static_cast<const Memory*>(call.x.memory)->place(call.x.offset_bytes);
    const Memory::Place result = static_cast<const Memory*>(call.result.memory)->place(call.result.offset_bytes);
    // Some thousand elements for each group, as far as there are groups.
    constexpr cl_ulong least = 4096;
    const auto count = static_cast<cl_ulong>(call.count);
    const cl_ulong per_group = std::max(least, (count + iamax_groups - 1) / iamax_groups);
    const cl_ulong groups = (count + per_group - 1) / per_group;
    set(kernels.parts.get(), x.window, static_cast<cl_ulong>(x.offset_bytes / size_bytes(call.dtype)),
        static_cast<cl_ulong>(call.x.increment), count, per_group, scratch());
    set(kernels.whole.get(), scratch(), groups, result.window, static_cast<cl_ulong>(result.offset_bytes / sizeof(cl_long)));
    const std::size_t local = programs.tuning().group_items, global = groups * local, one = 1;
    check(cl.clEnqueueNDRangeKernel(queue, kernels.parts.get(), 1, nullptr, &global, &local, 0, nullptr, nullptr),
          Stage::submission, device_.spec(), "clEnqueueNDRangeKernel of iamax of {} elements", count);
    check(cl.clEnqueueNDRangeKernel(queue, kernels.whole.get(), 1, nullptr, &one, &one, 0, nullptr, nullptr), Stage::submission,
          device_.spec(), "clEnqueueNDRangeKernel of iamax of {} elements", count);
}

template <class Value>
void Blas::run_gemv(const clblast::Functions<Value>& functions, cl_command_queue queue, const BlasGemv& call) {
    const bool is_transposed = call.a.operation != blas::Operation::none;
    const std::int64_t x_count = is_transposed ? call.rows : call.columns, y_count = is_transposed ? call.columns : call.rows;
    const Elements a =
        elements(call.a.memory, call.a.offset_bytes, call.dtype, extent(call.rows, call.columns, call.a.leading_dimension));
    const Elements x = elements(call.x.memory, call.x.offset_bytes, call.dtype, (x_count - 1) * call.x.increment + 1);
    const Elements y = elements(call.y.memory, call.y.offset_bytes, call.dtype, (y_count - 1) * call.y.increment + 1);
    check_status(
        functions.gemv(clblast::column_major, clblast::transpose_of(call.a.operation), static_cast<std::size_t>(call.rows),
                       static_cast<std::size_t>(call.columns), value_of<Value>(call.alpha), a.window, a.offset,
                       static_cast<std::size_t>(call.a.leading_dimension), x.window, x.offset,
                       static_cast<std::size_t>(call.x.increment), value_of<Value>(call.beta), y.window, y.offset,
                       static_cast<std::size_t>(call.y.increment), &queue, nullptr),
        Routine::gemv, call.dtype);
}

template <class Value>
void Blas::run_gemm(const clblast::Functions<Value>& functions, cl_command_queue queue, const BlasGemm& call) {
    const bool is_strided = call.batch_count > 1 && call.places.empty();
    const auto a_transpose = clblast::transpose_of(call.a.operation), b_transpose = clblast::transpose_of(call.b.operation);
    const auto m = static_cast<std::size_t>(call.m), n = static_cast<std::size_t>(call.n), k = static_cast<std::size_t>(call.k);
    const auto alpha = value_of<Value>(call.alpha), beta = value_of<Value>(call.beta);
    const auto leading = [](const driver::BlasMatrix& matrix) { return static_cast<std::size_t>(matrix.leading_dimension); };
    const auto stride = [](const driver::BlasMatrix& matrix) { return static_cast<std::size_t>(matrix.batch_stride); };
    const auto matrix = [&](const driver::BlasMatrix& layout, const auto& start, std::int64_t rows, std::int64_t columns) {
        const std::int64_t further = is_strided ? (call.batch_count - 1) * layout.batch_stride : 0;
        const bool is_transposed = layout.operation != blas::Operation::none;
        return elements(
            start.memory, start.offset_bytes, call.dtype,
            further + extent(is_transposed ? columns : rows, is_transposed ? rows : columns, layout.leading_dimension));
    };
    const auto product = [&](const auto& a_start, const auto& b_start, const auto& c_start) {
        const Elements a = matrix(call.a, a_start, call.m, call.k), b = matrix(call.b, b_start, call.k, call.n),
                       c = matrix(call.c, c_start, call.m, call.n);
        if (is_strided) {
            return check_status(
                functions.gemm_strided_batched(clblast::column_major, a_transpose, b_transpose, m, n, k, alpha, a.window,
                                               a.offset, leading(call.a), stride(call.a), b.window, b.offset, leading(call.b),
                                               stride(call.b), beta, c.window, c.offset, leading(call.c), stride(call.c),
                                               static_cast<std::size_t>(call.batch_count), &queue, nullptr),
                Routine::gemm_strided_batched, call.dtype);
        }
        check_status(
            functions.gemm(clblast::column_major, a_transpose, b_transpose, m, n, k, alpha, a.window, a.offset, leading(call.a),
                           b.window, b.offset, leading(call.b), beta, c.window, c.offset, leading(call.c), &queue, nullptr),
            Routine::gemm, call.dtype);
    };
    if (call.places.empty()) return product(call.a, call.b, call.c);
    for (const BlasGemm::Places& places : call.places)
        product(places.a, places.b, places.c);
}

std::size_t Blas::run(cl_command_queue queue, const BlasVector& call) {
    if (call.op == BlasVectorOp::iamax) {
        run_iamax(queue, call);
    } else {
        const auto& library = clblast::Library::get();
        if (call.dtype == DType::float32) run_vector(library.s, queue, call);
        if (call.dtype == DType::float64) run_vector(library.d, queue, call);
        if (call.dtype == DType::complex64) run_vector(library.c, queue, call);
        if (call.dtype == DType::complex128) run_vector(library.z, queue, call);
    }
    return static_cast<std::size_t>(call.count) * size_bytes(call.dtype);
}

std::size_t Blas::run(cl_command_queue queue, const BlasGemv& call) {
    const auto& library = clblast::Library::get();
    if (call.dtype == DType::float32) run_gemv(library.s, queue, call);
    if (call.dtype == DType::float64) run_gemv(library.d, queue, call);
    if (call.dtype == DType::complex64) run_gemv(library.c, queue, call);
    if (call.dtype == DType::complex128) run_gemv(library.z, queue, call);
    return static_cast<std::size_t>(call.rows * call.columns) * size_bytes(call.dtype);
}

// Before CLBlast finds out, which then prints.
void Blas::check_half() {
    if (!has_half_) {
        std::size_t size = 0;
        std::string extensions;
        if (api().clGetDeviceInfo(device_.native(), CL_DEVICE_EXTENSIONS, 0, nullptr, &size) == CL_SUCCESS) {
            extensions.resize(size);
            api().clGetDeviceInfo(device_.native(), CL_DEVICE_EXTENSIONS, size, extensions.data(), nullptr);
        }
        has_half_ = extensions.find("cl_khr_fp16") != std::string::npos;
    }
    if (*has_half_) return;
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: gemm of float16: the device has no half precision (cl_khr_fp16)", device_.spec()));
}

std::size_t Blas::run(cl_command_queue queue, const BlasGemm& call) {
    if (call.dtype == DType::float16) check_half();
    const auto& library = clblast::Library::get();
    if (call.dtype == DType::float16) run_gemm(library.h, queue, call);
    if (call.dtype == DType::float32) run_gemm(library.s, queue, call);
    if (call.dtype == DType::float64) run_gemm(library.d, queue, call);
    if (call.dtype == DType::complex64) run_gemm(library.c, queue, call);
    if (call.dtype == DType::complex128) run_gemm(library.z, queue, call);
    return static_cast<std::size_t>(call.m * call.k + call.k * call.n + call.m * call.n) * size_bytes(call.dtype);
}

std::string blas_library() {
    (void)clblast::Library::get();
    return "CLBlast (libclblast.so.1)";
}

}  // namespace tandem::opencl
