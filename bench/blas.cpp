// tandem_bench_blas [--device SPEC] [--sizes N...] [--rounds N] [--json FILE]
//
// Square products of float32, float64 and float16 against the same call of the vendor's library on the same memory.
#include <fmt/format.h>

#include <cstdio>

#include "program.hpp"
#include "tandem/tandem.hpp"

namespace tandem::bench {
namespace {

// Numbers of both signs between -1 and 1: what a GPU's clock does depends on them.
template <class T>
void fill(Queue& queue, const Array& array, unsigned seed) {
    std::vector<T> values(static_cast<std::size_t>(array.count()));
    std::uint32_t state = seed;
    for (T& value : values) {
        state = state * 1664525U + 1013904223U;
        value = static_cast<T>(static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F);
    }
    copy(queue, values, array);
    queue.synchronize();
}

void fill(Queue& queue, const Array& array, unsigned seed) {
    if (array.dtype() == float16) return fill<Float16>(queue, array, seed);
    if (array.dtype() == float32) return fill<float>(queue, array, seed);
    fill<double>(queue, array, seed);
}

void gemm(const Device& device, std::int64_t size, DType dtype, int rounds) {
    Queue queue(device);
    const Array a = empty(device, dtype, {size, size}), b = empty_like(a), c = empty_like(a);
    fill(queue, a, 1);
    fill(queue, b, 2);
    blas::gemm(queue, a, b, c);
    queue.synchronize();
    // Some tenths of a second for each run on a GPU.
    const int repeats = device.info().type != DeviceType::gpu ? 1 : size <= 4096 ? 16 : 2;
    std::vector<Candidate> candidates{done("tandem", queue, repeats, [&] { blas::gemm(queue, a, b, c); })};
    append(candidates, gemm_peers(a, b, c, repeats));
    measure(candidates, rounds);
    const auto n = static_cast<double>(size);
    report(fmt::format("gemm {} {}", to_string(dtype), size), device.spec(), candidates, {.operations = 2 * n * n * n * repeats},
           "0.98");
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
    CLI::App app{"products of matrices against the vendor's library called directly"};
    using namespace tandem;
    bench::CommonOptions options{.rounds = 5};
    std::vector<std::int64_t> sizes;
    bench::add_common_options(app, options);
    app.add_option("--sizes", sizes, "rows and columns; without: 4096 and 8192 on a GPU, 1024 else");
    return bench::run_program(app, argc, argv, options.json, [&] {
        const Device device = bench::open_and_tell(options.device);
        fmt::print("{}\n", blas::library(device));
        if (sizes.empty())
            sizes =
                device.info().type == DeviceType::gpu ? std::vector<std::int64_t>{4096, 8192} : std::vector<std::int64_t>{1024};
        for (const DType dtype : {float32, float64, float16}) {
            for (const std::int64_t size : sizes) {
                try {
                    bench::gemm(device, size, dtype, options.rounds);
                } catch (const Error& error) {
                    if (error.code() != ErrorCode::unsupported) throw;
                    fmt::print("{}\n", error.what());
                    break;
                }
            }
        }
        return 0;
    });
}
