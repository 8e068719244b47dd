// The vendors' own products of matrices, called directly on the memory that the library's are made in.
#include "core/device_state.hpp"
#include "peers.hpp"
#include "tandem/array.hpp"
#include "tandem/error.hpp"

#if TANDEM_BENCH_CUDA
#include <cublas_api.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#endif
#if TANDEM_BENCH_OPENCL
#include "backends/opencl/blas.hpp"
#include "backends/opencl/device.hpp"
#include "backends/opencl/memory.hpp"
#endif

namespace tandem::bench {
namespace {

void require(bool is_right, const char* what) {
    if (!is_right) throw Error(ErrorCode::internal, std::string("bench: ") + what + " failed");
}

#if TANDEM_BENCH_CUDA
// The typed routines for float32 and float64, as most callers have them, and the one there is for float16.
struct DirectCublas {
    DirectCublas() {
        for (const char* file : {"libcublas.so.13", "/usr/local/cuda/lib64/libcublas.so.13", "libcublas.so.12",
                                 "/usr/local/cuda/lib64/libcublas.so.12"}) {
            if (library == nullptr) library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
        }
        require(library != nullptr, "dlopen of cuBLAS");
        const auto get = [&](auto& function, const char* name) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
            require(function != nullptr, name);
        };
        get(create, "cublasCreate_v2");
        get(set_stream, "cublasSetStream_v2");
        get(sgemm, "cublasSgemm_v2");
        get(dgemm, "cublasDgemm_v2");
        get(gemm_ex, "cublasGemmEx");
        require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess, "cudaStreamCreateWithFlags");
        require(create(&handle) == CUBLAS_STATUS_SUCCESS, "cublasCreate");
        require(set_stream(handle, stream) == CUBLAS_STATUS_SUCCESS, "cublasSetStream");
    }

    // c = a b of row-major matrices, which is c^T = b^T a^T of column-major ones.
    void gemm(DType dtype, int n, const void* a, const void* b, void* c) const {
        cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
        const float one = 1, zero = 0;
        const double one_double = 1, zero_double = 0;
        if (dtype == float32) {
            status = sgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, static_cast<const float*>(b), n,
                           static_cast<const float*>(a), n, &zero, static_cast<float*>(c), n);
        } else if (dtype == float64) {
            status = dgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one_double, static_cast<const double*>(b), n,
                           static_cast<const double*>(a), n, &zero_double, static_cast<double*>(c), n);
        } else {
            status = gemm_ex(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, b, CUDA_R_16F, n, a, CUDA_R_16F, n, &zero, c,
                             CUDA_R_16F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
        }
        require(status == CUBLAS_STATUS_SUCCESS, "cuBLAS's gemm");
    }
    void finish() const { require(cudaStreamSynchronize(stream) == cudaSuccess, "cudaStreamSynchronize"); }

    void* library = nullptr;
    cudaStream_t stream{};
    cublasHandle_t handle{};
    decltype(&cublasCreate_v2) create{};
    decltype(&cublasSetStream_v2) set_stream{};
    decltype(&cublasSgemm_v2) sgemm{};
    decltype(&cublasDgemm_v2) dgemm{};
    cublasStatus_t (*gemm_ex)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*, const void*,
                              cudaDataType, int, const void*, cudaDataType, int, const void*, void*, cudaDataType, int,
                              cublasComputeType_t, cublasGemmAlgo_t){};
};
#endif

#if TANDEM_BENCH_OPENCL
template <class Value>
void clblast_product(const opencl::clblast::Functions<Value>& functions, cl_command_queue queue, Value one, Value zero,
                     std::size_t n, const opencl::Memory::Place (&places)[3]) {
    constexpr auto layout = static_cast<opencl::clblast::Layout>(101);  // row-major
    const auto offset = [](const opencl::Memory::Place& place) { return place.offset_bytes / sizeof(Value); };
    const auto& [a, b, c] = places;
    require(functions.gemm(layout, opencl::clblast::no, opencl::clblast::no, n, n, n, one, a.window, offset(a), n, b.window,
                           offset(b), n, zero, c.window, offset(c), n, &queue, nullptr) == 0,
            "CLBlast's gemm");
}
#endif

}  // namespace

std::vector<Candidate> gemm_peers(const Array& a, const Array& b, const Array& c, int repeats) {
    std::vector<Candidate> peers;
    const auto n = c.shape()[0];
    const DType dtype = c.dtype();
#if TANDEM_BENCH_CUDA
    if (c.device().info().backend == "cuda") {
        const auto cublas = std::make_shared<DirectCublas>();
        const auto address = [](const Array& array) {
            return reinterpret_cast<void*>(array.memory()->address() + array.offset_bytes());
        };
        peers.push_back({"cuBLAS itself", [=, a = address(a), b = address(b), c = address(c)] {
                             for (int i = 0; i < repeats; ++i)
                                 cublas->gemm(dtype, static_cast<int>(n), a, b, c);
                             cublas->finish();
                         }});
    }
#endif
#if TANDEM_BENCH_OPENCL
    if (c.device().info().backend == "opencl") {
        auto* device = static_cast<opencl::Device*>(c.device().state()->native.get());
        const auto queue = std::make_shared<opencl::QueueHandle>(device->create_queue());
        const auto place = [](const Array& array) {
            return static_cast<const opencl::Memory*>(array.memory().get())->place(array.offset_bytes());
        };
        peers.push_back({"CLBlast itself", [=, a = place(a), b = place(b), c = place(c)] {
                             const auto& clblast = opencl::clblast::Library::get();
                             const auto size = static_cast<std::size_t>(n);
                             for (int i = 0; i < repeats; ++i) {
                                 if (dtype == float16)
                                     clblast_product<cl_half>(clblast.h, queue->get(), 0x3c00, 0, size, {a, b, c});
                                 if (dtype == float32) clblast_product(clblast.s, queue->get(), 1.0F, 0.0F, size, {a, b, c});
                                 if (dtype == float64) clblast_product(clblast.d, queue->get(), 1.0, 0.0, size, {a, b, c});
                             }
                             opencl::check(opencl::api().clFinish(queue->get()), opencl::Stage::waiting, "bench", "clFinish");
                         }});
    }
#endif
    (void)n;
    (void)dtype;
    (void)repeats;
    return peers;
}

}  // namespace tandem::bench
