// Kernels written by hand with 16-byte vectors for the one case, and the driver's own copy and launch.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "peers.hpp"

namespace tandem::bench {
namespace {

void check(cudaError_t status) {
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "bench: %s\n", cudaGetErrorString(status));
    std::exit(1);
}

struct Stream {
    Stream() { check(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking)); }
    ~Stream() { cudaStreamDestroy(handle); }
    cudaStream_t handle{};
};

template <class V>
__device__ V sum(V a, V b) {
    if constexpr (sizeof(a.x) == 4) {
        return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
    } else {
        return {a.x + b.x, a.y + b.y};
    }
}

template <class V, class T>
__device__ V scaled_sum(T alpha, V a, V b) {
    if constexpr (sizeof(a.x) == 4) {
        return {alpha * a.x + b.x, alpha * a.y + b.y, alpha * a.z + b.z, alpha * a.w + b.w};
    } else {
        return {alpha * a.x + b.x, alpha * a.y + b.y};
    }
}

// `unroll` vectors a thread, a block's width apart, all loaded before the first is used.
template <class V, int inputs, bool is_scaled, int unroll>
__global__ void vector_kernel(V* __restrict__ out, const V* __restrict__ a, const V* __restrict__ b, long long vectors,
                              decltype(V::x) alpha) {
    const long long first = static_cast<long long>(blockIdx.x) * blockDim.x * unroll + threadIdx.x;
    V left[unroll], right[unroll];
#pragma unroll
    for (int k = 0; k < unroll; ++k) {
        const long long i = first + k * static_cast<long long>(blockDim.x);
        if (i < vectors) {
            left[k] = a[i];
            right[k] = inputs == 2 ? b[i] : left[k];
        }
    }
#pragma unroll
    for (int k = 0; k < unroll; ++k) {
        const long long i = first + k * static_cast<long long>(blockDim.x);
        if (i < vectors) out[i] = is_scaled ? scaled_sum(alpha, left[k], right[k]) : sum(left[k], right[k]);
    }
}

struct Arrays {
    explicit Arrays(std::size_t n) : bytes(n) {
        for (void** array : {&a, &b, &out}) {
            check(cudaMalloc(array, bytes));
            check(cudaMemset(*array, 1, bytes));
        }
    }
    ~Arrays() {
        for (void* array : {a, b, out})
            cudaFree(array);
    }
    std::size_t bytes;
    void *a{}, *b{}, *out{};
};

template <class V, int inputs, bool is_scaled, int unroll>
Candidate kernel_candidate(const std::shared_ptr<Arrays>& arrays, const std::shared_ptr<Stream>& stream, int threads,
                           int repeats) {
    const auto name = "hand-written kernel, " + std::to_string(threads) + " threads x " + std::to_string(unroll);
    return {name, [=] {
                const long long vectors = static_cast<long long>(arrays->bytes / sizeof(V));
                const long long tile = static_cast<long long>(threads) * unroll;
                const auto blocks = static_cast<unsigned>((vectors + tile - 1) / tile);
                for (int i = 0; i < repeats; ++i) {
                    vector_kernel<V, inputs, is_scaled, unroll>
                        <<<blocks, threads, 0, stream->handle>>>(static_cast<V*>(arrays->out), static_cast<const V*>(arrays->a),
                                                                 static_cast<const V*>(arrays->b), vectors, 2);
                }
                check(cudaStreamSynchronize(stream->handle));
            }};
}

template <class V, int inputs, bool is_scaled = false>
std::vector<Candidate> peers(std::int64_t count, std::size_t item_bytes, int repeats) {
    auto arrays = std::make_shared<Arrays>(static_cast<std::size_t>(count) * item_bytes);
    auto stream = std::make_shared<Stream>();
    // A copy of `bytes` moves them twice; as many bytes as the kernel moves are copied in pieces of one array's size.
    const auto copy = [=] {
        const std::size_t moved = arrays->bytes * (inputs + 1) / 2;
        for (int i = 0; i < repeats; ++i) {
            std::size_t left = moved;
            while (left != 0) {
                const std::size_t piece = left < arrays->bytes ? left : arrays->bytes;
                check(cudaMemcpyAsync(arrays->out, arrays->a, piece, cudaMemcpyDeviceToDevice, stream->handle));
                left -= piece;
            }
        }
        check(cudaStreamSynchronize(stream->handle));
    };
    std::vector<Candidate> candidates;
    for (const int threads : {128, 256, 512, 1024})
        candidates.push_back(kernel_candidate<V, inputs, is_scaled, 1>(arrays, stream, threads, repeats));
    candidates.push_back(kernel_candidate<V, inputs, is_scaled, 2>(arrays, stream, 512, repeats));
    candidates.push_back(kernel_candidate<V, inputs, is_scaled, 4>(arrays, stream, 256, repeats));
    candidates.push_back({"copy within the device, as many bytes", copy});
    return candidates;
}

__global__ void small_kernel(float* out, const float* a, const float* b, int count) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) out[i] = a[i] + b[i];
}

}  // namespace

std::vector<Candidate> cuda_peers(Job job, bool float64, std::int64_t count, int repeats) {
    if (job == Job::axpy) return float64 ? peers<double2, 2, true>(count, 8, repeats) : peers<float4, 2, true>(count, 4, repeats);
    if (float64) return job == Job::add ? peers<double2, 2>(count, 8, repeats) : peers<double2, 1>(count, 8, repeats);
    return job == Job::add ? peers<float4, 2>(count, 4, repeats) : peers<float4, 1>(count, 4, repeats);
}

// The driver's own entry point: no runtime in between.
std::vector<Candidate> cuda_link(std::size_t bytes) {
    struct Link {
        explicit Link(std::size_t size) : arrays(size) {
            check(cudaHostAlloc(&host, size, cudaHostAllocDefault));
            std::memset(host, 1, size);
        }
        ~Link() { cudaFreeHost(host); }
        Arrays arrays;
        Stream stream;
        void* host{};
    };
    const auto link = std::make_shared<Link>(bytes);
    const auto copy = [link](void* to, const void* from) {
        check(cudaMemcpyAsync(to, from, link->arrays.bytes, cudaMemcpyDefault, link->stream.handle));
        check(cudaStreamSynchronize(link->stream.handle));
    };
    return {{"copy from pinned memory", [=] { copy(link->arrays.a, link->host); }},
            {"copy to pinned memory", [=] { copy(link->host, link->arrays.a); }}};
}

Candidate cuda_peer_copy(int from, int to, std::size_t bytes, bool is_linked) {
    struct Pair {
        Pair(int from, int to, std::size_t bytes) : from(from), to(to) {
            check(cudaSetDevice(to));
            check(cudaMalloc(&destination, bytes));
            check(cudaSetDevice(from));
            check(cudaMalloc(&source, bytes));
            check(cudaMemset(source, 1, bytes));
            check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        }
        ~Pair() {
            cudaFree(source);
            cudaFree(destination);
            cudaStreamDestroy(stream);
        }
        int from, to;
        void *source{}, *destination{};
        cudaStream_t stream{};
    };
    // Access is a matter of two devices, not of an allocation; what is enabled already is as good.
    for (const auto& [one, other] : {std::pair{from, to}, std::pair{to, from}}) {
        check(cudaSetDevice(one));
        const cudaError_t result = is_linked ? cudaDeviceEnablePeerAccess(other, 0) : cudaDeviceDisablePeerAccess(other);
        if (result == cudaErrorPeerAccessAlreadyEnabled || result == cudaErrorPeerAccessNotEnabled) {
            cudaGetLastError();
        } else {
            check(result);
        }
    }
    const auto pair = std::make_shared<Pair>(from, to, bytes);
    return {is_linked ? "cudaMemcpyPeerAsync, linked" : "cudaMemcpyPeerAsync, not linked", [=] {
                check(cudaMemcpyPeerAsync(pair->destination, pair->to, pair->source, pair->from, bytes, pair->stream));
                check(cudaStreamSynchronize(pair->stream));
            }};
}

Candidate cuda_pinned_allocation(std::size_t bytes) {
    const auto memory = std::make_shared<void*>();
    return {"cudaHostAlloc", [=] { check(cudaHostAlloc(memory.get(), bytes, cudaHostAllocDefault)); },
            [=] { check(cudaFreeHost(*memory)); }};
}

Candidate cuda_raw_launch(int repeats) {
    auto arrays = std::make_shared<Arrays>(4096);
    auto stream = std::make_shared<Stream>();
    cudaFunction_t function{};
    check(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(&small_kernel)));
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found{};
    check(cudaGetDriverEntryPointByVersion("cuLaunchKernel", &entry, 12000, cudaEnableDefault, &found));
    using Launch = int (*)(cudaFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, cudaStream_t,
                           void**, void**);
    const auto launch = reinterpret_cast<Launch>(entry);
    return {"cuLaunchKernel",
            [=] {
                int count = 1024;
                void* parameters[] = {&arrays->out, &arrays->a, &arrays->b, &count};
                for (int i = 0; i < repeats; ++i) {
                    if (launch(function, 4, 1, 1, 256, 1, 1, 0, stream->handle, parameters, nullptr) != 0) std::exit(1);
                }
            },
            [=] { check(cudaStreamSynchronize(stream->handle)); }};
}

Candidate cuda_raw_graph(int launches, int repeats) {
    auto arrays = std::make_shared<Arrays>(4096);
    auto stream = std::make_shared<Stream>();
    check(cudaStreamBeginCapture(stream->handle, cudaStreamCaptureModeRelaxed));
    for (int i = 0; i < launches; ++i) {
        small_kernel<<<4, 256, 0, stream->handle>>>(static_cast<float*>(arrays->out), static_cast<const float*>(arrays->a),
                                                    static_cast<const float*>(arrays->b), 1024);
    }
    cudaGraph_t graph{};
    cudaGraphExec_t executable{};
    check(cudaStreamEndCapture(stream->handle, &graph));
    check(cudaGraphInstantiate(&executable, graph, 0));
    check(cudaGraphDestroy(graph));
    return {"cudaGraphLaunch", [arrays, stream, executable, repeats] {
                for (int i = 0; i < repeats; ++i)
                    check(cudaGraphLaunch(executable, stream->handle));
                check(cudaStreamSynchronize(stream->handle));
            }};
}

}  // namespace tandem::bench
