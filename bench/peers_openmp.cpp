// Loops as a careful author writes them with OpenMP for this processor: plain, and with stores past the caches.
#include <immintrin.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "peers.hpp"

namespace tandem::bench {
namespace {

template <class T>
struct Arrays {
    explicit Arrays(std::int64_t n) : count(n), a(make(n)), b(make(n)), out(make(n)) {}
    ~Arrays() {
        for (T* array : {a, b, out})
            std::free(array);
    }
    Arrays(const Arrays&) = delete;
    Arrays& operator=(const Arrays&) = delete;

    static T* make(std::int64_t n) {
        const std::size_t bytes = (static_cast<std::size_t>(n) * sizeof(T) + 63) / 64 * 64;
        T* array = static_cast<T*>(std::aligned_alloc(64, bytes));
#pragma omp parallel for
        for (std::int64_t i = 0; i < n; ++i)
            array[i] = static_cast<T>(i % 1000);
        return array;
    }

    std::int64_t count;
    T *a, *b, *out;
};

template <class T>
void plain(const Arrays<T>& arrays, Job job) {
    const T* a = arrays.a;
    const T* b = job == Job::twice ? arrays.a : arrays.b;
    const T alpha = job == Job::axpy ? 2 : 1;  // the memory's time hides the product
    T* out = arrays.out;
#pragma omp parallel for simd
    for (std::int64_t i = 0; i < arrays.count; ++i)
        out[i] = alpha * a[i] + b[i];
}

// 64 bytes at a time: both element types add as four 16-byte vectors.
template <class T>
void streaming(const Arrays<T>& arrays, Job job) {
    const T* a = arrays.a;
    const T* b = job == Job::twice ? arrays.a : arrays.b;
    const T alpha = job == Job::axpy ? 2 : 1;  // the memory's time hides the product
    T* out = arrays.out;
    constexpr auto lanes = static_cast<std::int64_t>(64 / sizeof(T));
#pragma omp parallel for
    for (std::int64_t i = 0; i < arrays.count / lanes; ++i) {
        alignas(64) T sums[64 / sizeof(T)];
        for (std::int64_t k = 0; k < lanes; ++k)
            sums[k] = alpha * a[i * lanes + k] + b[i * lanes + k];
        for (std::int64_t k = 0; k < 4; ++k) {
            __m128i part;
            std::memcpy(&part, reinterpret_cast<const char*>(sums) + k * 16, 16);
            _mm_stream_si128(reinterpret_cast<__m128i*>(out + i * lanes) + k, part);
        }
    }
    _mm_sfence();
}

template <class T>
std::vector<Candidate> peers(Job job, std::int64_t count, int repeats) {
    auto arrays = std::make_shared<Arrays<T>>(count);
    return {{"OpenMP loop",
             [=] {
                 for (int i = 0; i < repeats; ++i)
                     plain(*arrays, job);
             }},
            {"OpenMP loop, streaming stores", [=] {
                 for (int i = 0; i < repeats; ++i)
                     streaming(*arrays, job);
             }}};
}

}  // namespace

Candidate openmp_add(const float* a, const float* b, float* out, std::int64_t count) {
    return {"OpenMP loop over the same mapping", [=] {
#pragma omp parallel for simd
                for (std::int64_t i = 0; i < count; ++i)
                    out[i] = a[i] + b[i];
            }};
}

std::vector<Candidate> openmp_peers(Job job, bool float64, std::int64_t count, int repeats) {
    return float64 ? peers<double>(job, count, repeats) : peers<float>(job, count, repeats);
}

}  // namespace tandem::bench
