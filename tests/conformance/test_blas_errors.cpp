// What linear algebra refuses, each case once, with the arrays as they were; which library it is; and products that NumPy made.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "blas_support.hpp"

namespace tandem::test {
namespace {

using blas::Operation;

constexpr ErrorCode invalid = ErrorCode::invalid_argument;

}  // namespace

TEST_CASE("the library that does the work is named") {
    const std::string name = blas::library(device());
    CAPTURE(name);
    const std::string backend = device().info().backend;
    if (backend == "cuda") CHECK(name.starts_with("cuBLAS 1"));
    if (backend == "opencl") CHECK(name == "CLBlast (libclblast.so.1)");
    if (backend == "host") {
        CHECK(name.find("BLAS") != std::string::npos);
        host::use_plain_blas(true);
        CHECK(blas::library(device()) == "plain loops of this library (no BLAS was found)");
        host::use_plain_blas(false);
    }
}

TEST_CASE("linear algebra on arrays that don't fit together") {
    Queue queue(device());
    const Array a = make_array(float32, {3, 4}), b = make_array(float32, {4, 5}), c = make_array(float32, {3, 5});
    const Array x = make_array(float32, {4}), y = make_array(float32, {3}), z = make_array(complex64, {4});
    const Array ints = make_array(int32, {4}), halves = make_array(float16, {4});
    CHECK_ERROR(invalid, "a is float32 (3, 4), b is float32 (4, 5), c is float32 (3, 4): the shapes", blas::gemm(queue, a, b, a));
    CHECK_ERROR(invalid, "a is float32 (3, 4), transposed", blas::gemm(queue, 1, a, b, 0, c, Operation::transpose));
    CHECK_ERROR(invalid, "x is float32 (4, 5): a vector of 1 dimension", blas::gemv(queue, 1, a, b, 0, y));
    CHECK_ERROR(invalid, "the shapes don't fit", blas::gemv(queue, 1, a, y, 0, x));
    CHECK_ERROR(invalid, "x is float32 (3,), y is float32 (4,): shapes", blas::axpy(queue, 1, y, x));
    CHECK_ERROR(invalid, "x is complex64 (4,), y is float32 (4,): dtypes", (void)blas::dot(queue, z, x));
    CHECK_ERROR(ErrorCode::unsupported, "int32: float32, float64", (void)blas::nrm2(queue, ints));
    CHECK_ERROR(ErrorCode::unsupported, "float16: float32, float64", blas::scal(queue, 2, halves));
    CHECK_ERROR(invalid, "a vector of 1 dimension is needed", blas::scal(queue, 2, a));
    CHECK_ERROR(invalid, "imaginary part", blas::scal(queue, Value(0, 1), x));
    CHECK_ERROR(invalid, "beta has an imaginary part", blas::gemm(queue, 1, a, b, Value(0, 1), c));
    CHECK_ERROR(invalid, "one float32", blas::asum(queue, z, z.slice(0, 0, 1)));
    CHECK_ERROR(invalid, "one int64", blas::iamax(queue, x, x));
    CHECK_ERROR(invalid, "no elements", (void)blas::iamax(queue, x.slice(0, 0, 0)));
    CHECK_ERROR(invalid, "no device", blas::scal(queue, 2, Array()));

    const std::vector<Array> one{a}, other{b}, two{c, c}, mixed{c, c.transpose()};
    CHECK_ERROR(invalid, "1 of a, 1 of b, 2 of c", blas::gemm_batched(queue, 1, one, other, 0, two));
    const std::vector<Array> twice_a{a, a}, twice_b{b, b};
    CHECK_ERROR(invalid, "one layout", blas::gemm_batched(queue, 1, twice_a, twice_b, 0, mixed));
    CHECK_ERROR(invalid, "c[1], an output, overlaps c[0]", blas::gemm_batched(queue, 1, twice_a, twice_b, 0, two));
    const Array stack = make_array(float32, {2, 3, 5});
    CHECK_ERROR(invalid, "2 matrices are needed",
                blas::gemm_strided_batched(queue, 1, make_array(float32, {3, 3, 4}), b, 0, stack));
    CHECK_ERROR(invalid, "0 matrices are needed", blas::gemm_strided_batched(queue, 1, a, b, 0, c));
    CHECK_ERROR(invalid, "not negative", blas::gemm_strided_batched(queue, 1, a, b, 0, stack.slice(0, 1, -3, -1)));
}

TEST_CASE("layouts that BLAS does not have") {
    Queue queue(device());
    const Array wide = make_array(float32, {6, 8}), square = make_array(float32, {3, 3}), other = make_array(float32, {3, 3});
    const Array x = make_array(float32, {3}), y = make_array(float32, {3});
    const Array holes = wide.slice(0, 0, 6, 2).slice(1, 0, 6, 2);  // both dimensions strided
    CHECK_ERROR(invalid, "a, float32 (3, 3) with strides (64, 8)", blas::gemm(queue, holes, square, other));
    CHECK_ERROR(invalid, "with strides (64, 8)", blas::gemv(queue, 1, holes, x, 0, y));
    CHECK_ERROR(invalid, "b, float32 (3, 3) with strides (-12, 4)", blas::gemm(queue, square, other.slice(0, 2, -4, -1), other));
    const Buffer buffer = make_buffer(100);
    const Array repeated(buffer, float32, {3, 3}, Strides{0, 4}, 0), same(buffer, float32, {3}, Strides{0}, 0);
    CHECK_ERROR(invalid, "a, float32 (3, 3) with strides (0, 4)", blas::gemm(queue, repeated, square, other));
    CHECK_ERROR(invalid, "x, float32 (3,) with strides (0): BLAS takes", (void)blas::asum(queue, same));
    const Array skewed(buffer, float32, {3}, Strides{6}, 0);
    CHECK_ERROR(invalid, "with strides (6)", blas::axpy(queue, 1, skewed, y));
    const Array backwards = x.slice(0, 2, -4, -1);
    CHECK_ERROR(invalid, "x, float32 (3,) with strides (-4): a negative stride must be that of both",
                blas::axpy(queue, 1, backwards, y));
    CHECK_ERROR(invalid, "x, float32 (3,) with strides (-4): a negative stride", blas::gemv(queue, 1, square, backwards, 0, y));
    CHECK_ERROR(invalid, "a negative stride", (void)blas::iamax(queue, backwards));
    const Array odd(buffer, float32, {3}, 2), odd_matrix(buffer, float32, {3, 3}, 3);
    const std::string starts =
        options().kind == MemoryKind::adopted ? "starts" : "starts 2 bytes behind a multiple of its elements' 4";
    CHECK_ERROR(invalid, starts, blas::axpy(queue, 1, odd, y));
    CHECK_ERROR(invalid, "a, float32 (3, 3) at offset 3, starts 3 bytes", blas::gemm(queue, odd_matrix, square, other));

    const Array a = make_array(complex64, {3, 4}), b = make_array(complex64, {3, 5}),
                c = make_array(complex64, {4, 5}, Order::fortran);
    CHECK_ERROR(invalid, "a, complex64 (3, 4) with strides (32, 8): its conjugate transpose must lie in the same order as c",
                blas::gemm(queue, 1, a, b, 0, c, Operation::conjugate_transpose));
}

TEST_CASE("memory that linear algebra may not touch") {
    Queue queue(device());
    const Buffer buffer = make_buffer(400);
    const Array all(buffer, float32, {10, 10}), x = all.at(0, 0), y = all.at(0, 1);
    const Array square = make_array(float32, {10, 10});
    CHECK_ERROR(invalid, "c, an output, overlaps a", blas::gemm(queue, all, square, all));
    CHECK_ERROR(invalid, "c, an output, overlaps b", blas::gemm(queue, square, all, all.transpose()));
    CHECK_ERROR(invalid, "overlaps", blas::axpy(queue, 1, x, x));
    CHECK_ERROR(invalid, "the result, an output, overlaps x", blas::asum(queue, x, x.slice(0, 3, 4)));
    // Columns that lie between each other's don't.
    blas::gemm(queue, all.slice(1, 0, 3), square.slice(0, 0, 3).slice(1, 0, 4), all.slice(1, 3, 7));
    queue.synchronize();
    {
        const HostView view = buffer.map(Access::read);
        CHECK_ERROR(invalid, "y is mapped", blas::axpy(queue, 1, square.at(0, 0), y));
        CHECK_ERROR(invalid, "c is mapped", blas::gemm(queue, square, square, all));
    }
    std::vector<float> values(16, 1.0F);
    const std::span<const float> constant = values;
    try {
        const Array fixed = adopt(device(), constant).reshape({4, 4});
        CHECK_ERROR(invalid, "c lies in read-only memory", blas::gemm(queue, fixed, fixed, fixed));
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::unsupported);  // read-only memory is not for every device
    }
    const Device other = open_device(device().info().backend == "host" ? "" : "host");
    if (other == device()) return;  // nothing but this host here
    CHECK_ERROR(invalid, "b is on " + other.spec(), blas::gemm(queue, square, empty(other, float32, {10, 10}), all));
}

TEST_CASE("arrays in several allocations are refused, with what to do instead") {
    const std::size_t window = options().window_bytes;
    if (window == 0 || device().info().backend != "opencl") {
        CHECK(make_buffer(64).memory()->window_bytes() >= 64);
        return;
    }
    Queue queue(device());
    const auto count = static_cast<std::int64_t>(window / sizeof(float));
    const Buffer buffer = make_buffer(window * 3);
    if (buffer.memory()->window_bytes() >= buffer.size_bytes()) return;  // a kind that has no windows here
    const Array all(buffer, float32, {3 * count});
    CHECK_ERROR(ErrorCode::unsupported, "`stream`", blas::scal(queue, 2, all));
    CHECK_ERROR(ErrorCode::unsupported, std::to_string(window) + " bytes at most",
                blas::gemm(queue, all.reshape({-1, 4}), make_array(float32, {4, 1}), make_array(float32, {3 * count / 4, 1})));
    // What lies in one of them is not.
    const Array second = all.slice(0, count, count + 8);
    const std::vector<float> ones(8, 1.0F);
    copy(queue, ones, second);
    blas::scal(queue, 3, second);
    CHECK(to_vector<float>(queue, second) == std::vector<float>(8, 3.0F));
}

TEST_CASE("products that NumPy made") {
    namespace fs = std::filesystem;
    // Where the tests were built, or beside where they run.
    const fs::path folder = fs::exists(TANDEM_BLAS_DIR) ? fs::path(TANDEM_BLAS_DIR) : fs::path("blas");
    std::ifstream cases(folder / "cases.txt");
    REQUIRE_MESSAGE(cases.is_open(), "no data of tests/data/make_blas.py in " << folder.string());
    if (options().window_bytes != 0) return;  // larger than a window
    Queue queue(device());
    const Device host = open_device("host");
    int products = 0;
    for (std::string name, taken; cases >> name >> taken;) {
        const auto factor = [&](const char* which) {
            const fs::path path = folder / (name + which);
            // Where files can't be adopted, map makes a copy.
            return options().kind == MemoryKind::adopted ? npy::map(device(), path)
                                                         : npy::load(device(), path, {.kind = options().kind});
        };
        Queue host_queue(host);
        const auto known = [&](const char* which) {
            const Array array = npy::load(host, folder / (name + which));
            std::vector<Value> values;
            if (is_complex(array.dtype())) return to_vector<Value>(host_queue, array);
            for (const double value : to_vector<double>(host_queue, array))
                values.emplace_back(value);
            return values;
        };
        const Array a = factor("_a.npy"), b = factor("_b.npy");
        const std::vector<DType> dtypes = blas_dtypes();
        if (std::find(dtypes.begin(), dtypes.end(), a.dtype()) == dtypes.end()) continue;
        const Operation operation = taken == "none"        ? Operation::none
                                    : taken == "conjugate" ? Operation::conjugate_transpose
                                                           : Operation::transpose;
        const std::int64_t rows = a.shape()[operation == Operation::none ? 0 : 1];
        const std::int64_t k = a.shape()[operation == Operation::none ? 1 : 0];
        const Operand c = make_operand(a.dtype(), {rows, b.shape()[1]}, {Order::c, 3, 1}, 1);
        blas::gemm(queue, 1, a, b, 0, c.array, operation);
        const std::vector<Value> actual = c.values(), expected = known("_product.npy"), size = known("_size.npy");
        REQUIRE(actual.size() == expected.size());
        // Each of k products and sums rounds once at most (four times for complex ones), and the result once more.
        const double unit = component_bytes(a.dtype()) == 4 ? 0x1p-24 : 0x1p-53;
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < actual.size(); ++i) {
            if (!(std::abs(actual[i] - expected[i]) <= 4 * static_cast<double>(k + 1) * unit * size[i].real())) ++wrong;
        }
        CAPTURE(name);
        CHECK(wrong == 0);
        ++products;
    }
    CHECK(products > 0);
}

}  // namespace tandem::test
