#include "backends/cuda/blas.hpp"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "backends/cuda/device.hpp"
#include "kernels/elementwise.hpp"
#include "tandem/error.hpp"

namespace tandem::cuda {
namespace {

using driver::BlasGemm;
using driver::BlasGemv;
using driver::BlasVector;
using driver::BlasVectorOp;

cublasOperation_t operation_of(blas::Operation operation) noexcept {
    switch (operation) {
        case blas::Operation::none:
            return CUBLAS_OP_N;
        case blas::Operation::transpose:
            return CUBLAS_OP_T;
        case blas::Operation::conjugate_transpose:
            return CUBLAS_OP_C;
    }
    return CUBLAS_OP_N;
}

ErrorCode code_of(cublasStatus_t status) noexcept {
    switch (status) {
        case CUBLAS_STATUS_NOT_INITIALIZED:
        case CUBLAS_STATUS_LICENSE_ERROR:
            return ErrorCode::unavailable;
        case CUBLAS_STATUS_ALLOC_FAILED:
            return ErrorCode::out_of_memory;
        case CUBLAS_STATUS_ARCH_MISMATCH:
        case CUBLAS_STATUS_NOT_SUPPORTED:
            return ErrorCode::unsupported;
        case CUBLAS_STATUS_EXECUTION_FAILED:
            return ErrorCode::device_lost;
        default:
            return ErrorCode::internal;
    }
}

// A scalar as cuBLAS reads it; it has done so when a call returns.
template <class T>
T scalar_as(std::complex<double> value) noexcept {
    if constexpr (std::is_same_v<T, cuComplex>) {
        return {static_cast<float>(value.real()), static_cast<float>(value.imag())};
    } else if constexpr (std::is_same_v<T, cuDoubleComplex>) {
        return {value.real(), value.imag()};
    } else {
        return static_cast<T>(value.real());
    }
}

// The same for gemm, which takes scalars of the type that it computes in.
class GemmScalar {
public:
    GemmScalar(DType dtype, std::complex<double> value)
        : single_{static_cast<float>(value.real()), static_cast<float>(value.imag())},
          double_{value.real(), value.imag()},
          is_double_(component_bytes(dtype) == sizeof(double)) {}
    [[nodiscard]] const void* data() const noexcept { return is_double_ ? static_cast<const void*>(&double_) : &single_; }

private:
    cuComplex single_;
    cuDoubleComplex double_;
    bool is_double_;
};

cudaDataType data_type(DType dtype) noexcept {
    switch (dtype) {
        case DType::float16:
            return CUDA_R_16F;
        case DType::float64:
            return CUDA_R_64F;
        case DType::complex64:
            return CUDA_C_32F;
        case DType::complex128:
            return CUDA_C_64F;
        default:
            return CUDA_R_32F;
    }
}

cublasComputeType_t compute_type(DType dtype) noexcept {
    return component_bytes(dtype) == sizeof(double) ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
}

template <class Operand>
std::uint64_t address(const Operand& operand) noexcept {
    return operand.memory->address() + operand.offset_bytes;
}

template <class T, class Operand>
T* pointer(const Operand& operand) noexcept {
    return reinterpret_cast<T*>(address(operand));
}

// What all of cuBLAS's kernels take; those for single products look at the alignment themselves.
constexpr std::uint64_t batch_alignment = 16;

bool is_aligned(const BlasGemm& call) noexcept {
    std::uint64_t bits = 0;
    for (const BlasGemm::Places& places : call.places)
        bits |= address(places.a) | address(places.b) | address(places.c);
    return bits % batch_alignment == 0;
}

}  // namespace

Cublas::Cublas(const char* file_name) : file_name_(file_name), library_(file_name) {
#define TANDEM_X(name) this->name = library_.get<decltype(&::name)>(#name);
    TANDEM_FOR_EACH_CUBLAS_FUNCTION(TANDEM_X)
#undef TANDEM_X
#define TANDEM_X(table, member, name) table.member = library_.get<decltype(&::name)>(#name);
#define TANDEM_TYPE(table, letter, to_real, index, dot_name, dotc_name) \
    TANDEM_X(table, axpy, cublas##letter##axpy_v2_64)                   \
    TANDEM_X(table, scal, cublas##letter##scal_v2_64)                   \
    TANDEM_X(table, dot, cublas##letter##dot_name##_v2_64)              \
    TANDEM_X(table, dotc, cublas##letter##dotc_name##_v2_64)            \
    TANDEM_X(table, nrm2, cublas##to_real##nrm2_v2_64)                  \
    TANDEM_X(table, asum, cublas##to_real##asum_v2_64)                  \
    TANDEM_X(table, iamax, cublasI##index##amax_v2_64)                  \
    TANDEM_X(table, gemv, cublas##letter##gemv_v2_64)
    TANDEM_TYPE(s, S, S, s, dot, dot)
    TANDEM_TYPE(d, D, D, d, dot, dot)
    TANDEM_TYPE(c, C, Sc, c, dotu, dotc)
    TANDEM_TYPE(z, Z, Dz, z, dotu, dotc)
#undef TANDEM_TYPE
#undef TANDEM_X
}

const Cublas* Cublas::open(const Api& api) {
    int version = 0;
    api.check(api.cuDriverGetVersion(&version), "", "cuDriverGetVersion");
    // By the loader's own search, and where the toolkit puts it. A driver takes no cuBLAS that is newer than itself.
    static constexpr const char* newer[] = {"libcublas.so.13", "/usr/local/cuda/lib64/libcublas.so.13"};
    static constexpr const char* older[] = {"libcublas.so.12", "/usr/local/cuda/lib64/libcublas.so.12"};
    std::vector<const char*> files;
    if (version >= 13000) files.insert(files.end(), std::begin(newer), std::end(newer));
    files.insert(files.end(), std::begin(older), std::end(older));
    for (const char* file : files) {
        try {
            return new Cublas(file);
        } catch (const Error& error) {
            // One that is there and can't be used says why; that the others are not there says nothing.
            if (std::string_view(error.what()).find("not found") == std::string_view::npos) throw;
        }
    }
    throw Error(ErrorCode::unavailable,
                version >= 13000 ? "libcublas.so.13 not found, nor libcublas.so.12" : "libcublas.so.12 not found");
}

const Cublas& Cublas::get(const Api& api) {
    // Never destroyed, as the driver's function table is not. A failed attempt is repeated by the next call.
    static const Cublas* const cublas = open(api);
    return *cublas;
}

std::string Cublas::name() const {
    int major = 0, minor = 0;
    cublasGetProperty(MAJOR_VERSION, &major);
    cublasGetProperty(MINOR_VERSION, &minor);
    return fmt::format("cuBLAS {}.{} ({})", major, minor, file_name_);
}

Blas::~Blas() {
    if (handle_ == nullptr) return;
    const Current current(device_.context(), std::nothrow);
    if (current.is_ready()) Cublas::get(device_.context().api()).cublasDestroy_v2(handle_);
}

void Blas::check(const Cublas& cublas, cublasStatus_t status, const char* routine, DType dtype) const {
    if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
        return;
    throw Error(
        code_of(status),
        fmt::format("{}: {} of {}: {}", device_.info().spec, routine, to_string(dtype), cublas.cublasGetStatusName(status)),
        static_cast<int>(status));
}

const Cublas& Blas::open() {
    const Cublas& cublas = Cublas::get(device_.context().api());
    if (handle_ != nullptr) [[likely]]
        return cublas;
    cublasHandle_t handle = nullptr;
    check(cublas, cublas.cublasCreate_v2(&handle), "cublasCreate", DType::float32);
    if (const cublasStatus_t status = cublas.cublasSetStream_v2(handle, stream_); status != CUBLAS_STATUS_SUCCESS) {
        cublas.cublasDestroy_v2(handle);
        check(cublas, status, "cublasSetStream", DType::float32);
    }
    handle_ = handle;
    return cublas;
}

// cuBLAS counts from 1.
void Blas::count_from_zero(const BlasVector& call) {
    static constexpr std::int64_t minus_one = -1;
    if (minus_one_ == nullptr) {
        std::shared_ptr<driver::Memory> memory = device_.allocate(sizeof minus_one, MemoryKind::device);
        device_.context().check(device_.context().api().cuMemcpyAsync(
                                    memory->address(), reinterpret_cast<CUdeviceptr>(&minus_one), sizeof minus_one, stream_),
                                "cuMemcpyAsync of 8 bytes");
        minus_one_ = std::move(memory);
    }
    driver::Elementwise add;
    add.op = Op::add;
    add.dtype = kernel_dtype(Op::add, DType::int64);
    add.contiguous = true;
    add.shape[0] = 1;
    add.operand_count = 3;
    add.operands[0] = {call.result.memory, call.result.offset_bytes, {sizeof minus_one}};
    add.operands[1] = add.operands[0];
    add.operands[2] = {minus_one_.get(), 0, {sizeof minus_one}};
    device_.kernels().launch(stream_, add);
}

template <class T, class Real>
void Blas::run_vector(const Cublas& cublas, const CublasFunctions<T, Real>& functions, const BlasVector& call) {
    const T alpha = scalar_as<T>(call.alpha);
    T* x = pointer<T>(call.x);
    T* y = call.y.memory != nullptr ? pointer<T>(call.y) : nullptr;
    const auto finish = [&](cublasStatus_t status, const char* routine) { check(cublas, status, routine, call.dtype); };
    if (call.op == BlasVectorOp::axpy)
        return finish(functions.axpy(handle_, call.count, &alpha, x, call.x.increment, y, call.y.increment), "cublas?axpy");
    if (call.op == BlasVectorOp::scal)
        return finish(functions.scal(handle_, call.count, &alpha, x, call.x.increment), "cublas?scal");

    // The result goes to the device's memory, so that nothing waits for it.
    finish(cublas.cublasSetPointerMode_v2(handle_, CUBLAS_POINTER_MODE_DEVICE), "cublasSetPointerMode");
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    const char* routine = "";
    switch (call.op) {
        case BlasVectorOp::dot:
        case BlasVectorOp::dotc:
            routine = "cublas?dot";
            status = (call.op == BlasVectorOp::dot ? functions.dot : functions.dotc)(handle_, call.count, x, call.x.increment, y,
                                                                                     call.y.increment, pointer<T>(call.result));
            break;
        case BlasVectorOp::nrm2:
            routine = "cublas?nrm2";
            status = functions.nrm2(handle_, call.count, x, call.x.increment, pointer<Real>(call.result));
            break;
        case BlasVectorOp::asum:
            routine = "cublas?asum";
            status = functions.asum(handle_, call.count, x, call.x.increment, pointer<Real>(call.result));
            break;
        default:
            routine = "cublasI?amax";
            status = functions.iamax(handle_, call.count, x, call.x.increment, pointer<std::int64_t>(call.result));
            break;
    }
    const cublasStatus_t reset = cublas.cublasSetPointerMode_v2(handle_, CUBLAS_POINTER_MODE_HOST);
    finish(status, routine);
    finish(reset, "cublasSetPointerMode");
    if (call.op == BlasVectorOp::iamax) count_from_zero(call);
}

template <class T, class Real>
void Blas::run_gemv(const Cublas& cublas, const CublasFunctions<T, Real>& functions, const BlasGemv& call) {
    const T alpha = scalar_as<T>(call.alpha), beta = scalar_as<T>(call.beta);
    check(cublas,
          functions.gemv(handle_, operation_of(call.a.operation), call.rows, call.columns, &alpha, pointer<T>(call.a),
                         call.a.leading_dimension, pointer<T>(call.x), call.x.increment, &beta, pointer<T>(call.y),
                         call.y.increment),
          "cublas?gemv", call.dtype);
}

void Blas::run(const BlasVector& call) {
    const Cublas& cublas = open();
    if (call.dtype == DType::float32) run_vector(cublas, cublas.s, call);
    if (call.dtype == DType::float64) run_vector(cublas, cublas.d, call);
    if (call.dtype == DType::complex64) run_vector(cublas, cublas.c, call);
    if (call.dtype == DType::complex128) run_vector(cublas, cublas.z, call);
}

void Blas::run(const BlasGemv& call) {
    const Cublas& cublas = open();
    if (call.dtype == DType::float32) run_gemv(cublas, cublas.s, call);
    if (call.dtype == DType::float64) run_gemv(cublas, cublas.d, call);
    if (call.dtype == DType::complex64) run_gemv(cublas, cublas.c, call);
    if (call.dtype == DType::complex128) run_gemv(cublas, cublas.z, call);
}

std::size_t Blas::scratch_bytes(const BlasGemm& call) noexcept {
    return is_aligned(call) ? 3 * call.places.size() * sizeof(std::uint64_t) : 0;
}

void Blas::run_batch(const Cublas& cublas, const BlasGemm& call) {
    const GemmScalar alpha(call.dtype, call.alpha), beta(call.dtype, call.beta);
    const std::size_t count = call.places.size();
    std::vector<std::uint64_t> addresses(3 * count);
    for (std::size_t i = 0; i < count; ++i) {
        addresses[i] = address(call.places[i].a);
        addresses[count + i] = address(call.places[i].b);
        addresses[2 * count + i] = address(call.places[i].c);
    }
    const CUdeviceptr table = call.scratch->address();
    const std::size_t table_bytes = addresses.size() * sizeof addresses[0];
    // From pageable memory: the driver has taken the bytes when the call returns.
    device_.context().check(
        device_.context().api().cuMemcpyAsync(table, reinterpret_cast<CUdeviceptr>(addresses.data()), table_bytes, stream_),
        "cuMemcpyAsync of a batch's addresses");
    const auto part = [&](std::size_t index) { return table + index * count * sizeof addresses[0]; };
    const cudaDataType type = data_type(call.dtype);
    check(cublas,
          cublas.cublasGemmBatchedEx_64(handle_, operation_of(call.a.operation), operation_of(call.b.operation), call.m, call.n,
                                        call.k, alpha.data(), reinterpret_cast<const void* const*>(part(0)), type,
                                        call.a.leading_dimension, reinterpret_cast<const void* const*>(part(1)), type,
                                        call.b.leading_dimension, beta.data(), reinterpret_cast<void* const*>(part(2)), type,
                                        call.c.leading_dimension, static_cast<std::int64_t>(count), compute_type(call.dtype),
                                        CUBLAS_GEMM_DEFAULT),
          "cublasGemmBatchedEx", call.dtype);
}

void Blas::run(const BlasGemm& call) {
    const Cublas& cublas = open();
    if (call.scratch != nullptr) return run_batch(cublas, call);
    const GemmScalar alpha(call.dtype, call.alpha), beta(call.dtype, call.beta);
    const cublasOperation_t a_operation = operation_of(call.a.operation), b_operation = operation_of(call.b.operation);
    const cudaDataType type = data_type(call.dtype);
    if (call.batch_count > 1 && call.places.empty()) {
        return check(cublas,
                     cublas.cublasGemmStridedBatchedEx_64(
                         handle_, a_operation, b_operation, call.m, call.n, call.k, alpha.data(), pointer<void>(call.a), type,
                         call.a.leading_dimension, call.a.batch_stride, pointer<void>(call.b), type, call.b.leading_dimension,
                         call.b.batch_stride, beta.data(), pointer<void>(call.c), type, call.c.leading_dimension,
                         call.c.batch_stride, call.batch_count, compute_type(call.dtype), CUBLAS_GEMM_DEFAULT),
                     "cublasGemmStridedBatchedEx", call.dtype);
    }
    const auto product = [&](void* a, void* b, void* c) {
        check(cublas,
              cublas.cublasGemmEx_64(handle_, a_operation, b_operation, call.m, call.n, call.k, alpha.data(), a, type,
                                     call.a.leading_dimension, b, type, call.b.leading_dimension, beta.data(), c, type,
                                     call.c.leading_dimension, compute_type(call.dtype), CUBLAS_GEMM_DEFAULT),
              "cublasGemmEx", call.dtype);
    };
    if (call.places.empty()) return product(pointer<void>(call.a), pointer<void>(call.b), pointer<void>(call.c));
    for (const BlasGemm::Places& places : call.places)
        product(pointer<void>(places.a), pointer<void>(places.b), pointer<void>(places.c));
}

}  // namespace tandem::cuda
