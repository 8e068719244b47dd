#pragma once
// Linear algebra through cuBLAS, opened at run time.

#include <cublas_api.h>

#include <memory>
#include <string>

#include "backends/cuda/api.hpp"
#include "core/driver.hpp"

namespace tandem::cuda {

class Device;

/// cuBLAS's functions for vectors and gemv of one type, with 64-bit sizes; `Real` is what norms come in.
template <class T, class Real>
struct CublasFunctions {
    cublasStatus_t (*axpy)(cublasHandle_t, std::int64_t, const T*, const T*, std::int64_t, T*, std::int64_t);
    cublasStatus_t (*scal)(cublasHandle_t, std::int64_t, const T*, T*, std::int64_t);
    cublasStatus_t (*dot)(cublasHandle_t, std::int64_t, const T*, std::int64_t, const T*, std::int64_t, T*);
    decltype(dot) dotc;
    cublasStatus_t (*nrm2)(cublasHandle_t, std::int64_t, const T*, std::int64_t, Real*);
    decltype(nrm2) asum;
    cublasStatus_t (*iamax)(cublasHandle_t, std::int64_t, const T*, std::int64_t, std::int64_t*);
    cublasStatus_t (*gemv)(cublasHandle_t, cublasOperation_t, std::int64_t, std::int64_t, const T*, const T*, std::int64_t,
                           const T*, std::int64_t, const T*, T*, std::int64_t);
};

// clang-format off
#define TANDEM_FOR_EACH_CUBLAS_FUNCTION(X) \
    X(cublasCreate_v2) X(cublasDestroy_v2) X(cublasGetProperty) X(cublasGetStatusName) X(cublasSetStream_v2) \
    X(cublasSetPointerMode_v2) X(cublasGemmEx_64) X(cublasGemmBatchedEx_64) X(cublasGemmStridedBatchedEx_64)
// clang-format on

/// cuBLAS 13 or 12, whichever the driver takes. Lives until the process ends. Thread safe.
class Cublas {
public:
    /// Opens it on the first call. Throws unavailable: "libcublas.so.13 not found, nor libcublas.so.12".
    static const Cublas& get(const Api& api);

#define TANDEM_X(name) decltype(&::name) name = nullptr;
    TANDEM_FOR_EACH_CUBLAS_FUNCTION(TANDEM_X)
#undef TANDEM_X
    CublasFunctions<float, float> s{};
    CublasFunctions<double, double> d{};
    CublasFunctions<cuComplex, float> c{};
    CublasFunctions<cuDoubleComplex, double> z{};

    /// "cuBLAS 13.1 (libcublas.so.13)".
    [[nodiscard]] std::string name() const;

private:
    explicit Cublas(const char* file_name);
    static const Cublas* open(const Api& api);

    std::string file_name_;
    SharedLibrary library_;
};

/// Linear algebra in one stream: a handle of cuBLAS, made on first use, since making one takes memory of the device and some
/// milliseconds. One thread at a time; the context is current in every call.
///
/// cuBLAS takes its workspace from a pool of its own for each handle. Inside a stream's capture that becomes part of the graph,
/// and batches of separate arrays can't be captured, since the table of their addresses is copied from the call's own memory.
class Blas {
public:
    Blas(Device& device, CUstream stream) : device_(device), stream_(stream) {}
    ~Blas();
    Blas(const Blas&) = delete;
    Blas& operator=(const Blas&) = delete;

    void run(const driver::BlasVector& call);
    void run(const driver::BlasGemv& call);
    void run(const driver::BlasGemm& call);

    /// Of the device's memory, for the table of addresses.
    static std::size_t scratch_bytes(const driver::BlasGemm& call) noexcept;

private:
    const Cublas& open();
    template <class T, class Real>
    void run_vector(const Cublas& cublas, const CublasFunctions<T, Real>& functions, const driver::BlasVector& call);
    template <class T, class Real>
    void run_gemv(const Cublas& cublas, const CublasFunctions<T, Real>& functions, const driver::BlasGemv& call);
    void run_batch(const Cublas& cublas, const driver::BlasGemm& call);
    void count_from_zero(const driver::BlasVector& call);
    void check(const Cublas& cublas, cublasStatus_t status, const char* routine, DType dtype) const;

    Device& device_;
    CUstream stream_;
    cublasHandle_t handle_ = nullptr;
    std::shared_ptr<driver::Memory> minus_one_;  ///< an int64 on the device, once iamax has asked for it
};

}  // namespace tandem::cuda
