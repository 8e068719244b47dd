#include <thread>

#include "kernel_sources.hpp"

namespace tandem::test {
namespace {

// Several kernels of one source.
const KernelSource several{.cuda = R"(
template <class T>
__global__ void fill(T* out, T with) {
    out[threadIdx.x] = with;
}
extern "C" __global__ void places(int* out, int nx, int ny, int nz) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x < nx && y < ny && z < nz) out[(z * ny + y) * nx + x] += 1 + x + 100 * y + 10000 * z;
}
struct Pair { int number; float half[5]; };
struct Many { int numbers[64]; };
extern "C" __global__ void values(int* out, signed char c, short s, int i, long long l, float f, Pair pair, Many many) {
    out[0] = c; out[1] = s; out[2] = i; out[3] = (int)(l >> 32); out[4] = (int)(2 * f);
    out[5] = pair.number; out[6] = (int)(2 * pair.half[4]); out[7] = many.numbers[63];
}
extern "C" __global__ void reverse(int* data) {
    extern __shared__ int tile[];   // 16 numbers, of which the second part starts behind 64 bytes
    int* second = tile + 16;
    const int i = threadIdx.x;
    if (i < 16) tile[i] = data[i];
    else second[i - 16] = data[i];
    __syncthreads();
    const int from = 31 - i;
    data[i] = from < 16 ? tile[from] : second[from - 16];
}
extern "C" __global__ void bytes(const unsigned char* base, unsigned long long offset, unsigned char* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = base[offset + i];
}
)",
                           .opencl = R"(
__kernel void places(__global int* out, int nx, int ny, int nz) {
    const int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    if (x < nx && y < ny && z < nz) out[(z * ny + y) * nx + x] += 1 + x + 100 * y + 10000 * z;
}
struct Pair { int number; float half_[5]; };
struct Many { int numbers[64]; };
__kernel void values(__global int* out, char c, short s, int i, long l, float f, struct Pair pair, struct Many many) {
    out[0] = c; out[1] = s; out[2] = i; out[3] = (int)(l >> 32); out[4] = (int)(2 * f);
    out[5] = pair.number; out[6] = (int)(2 * pair.half_[4]); out[7] = many.numbers[63];
}
__kernel void reverse(__global int* data, __local int* tile, __local int* second) {
    const int i = get_local_id(0);
    if (i < 16) tile[i] = data[i];
    else second[i - 16] = data[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    const int from = 31 - i;
    data[i] = from < 16 ? tile[from] : second[from - 16];
}
__kernel void bytes(__global const uchar* base, ulong offset, __global uchar* out, int n) {
    const int i = get_global_id(0);
    if (i < n) out[i] = base[offset + i];
}
)"};

KernelSource with_host(HostFunction function) {
    KernelSource source = several;
    source.host = std::move(function);
    return source;
}

struct Pair {
    std::int32_t number;
    float half[5];
};
struct Many {
    std::int32_t numbers[64];
};

}  // namespace

TEST_CASE("a kernel runs for every item, and for no other") {
    const Kernel kernel = axpy_kernel();
    CHECK(kernel.info().name == "axpy");
    Queue queue(device());
    for (const std::int64_t n : sizes) {
        if (options().window_bytes != 0 && n > 1000) continue;
        for (const Items& group : {Items(), Items(1), Items(7), Items(64)}) {
            CAPTURE(n);
            CAPTURE(group.counts()[0]);
            const Array x = array_of(ramp(n + 5)), y = array_of(ramp(n + 5, 1.0F));
            queue.launch(kernel, n, {read(x), read_write(y), value(2.0F), value(n)}, {.group = group});
            const std::vector<float> in = ramp(n + 5), before = ramp(n + 5, 1.0F), after = values_of<float>(y);
            std::int64_t wrong = 0;
            for (std::size_t i = 0; i < after.size(); ++i)
                wrong += after[i] != before[i] + (static_cast<std::int64_t>(i) < n ? 2.0F * in[i] : 0.0F);
            CHECK(wrong == 0);
        }
    }
}

TEST_CASE("two and three dimensions, with and without groups") {
    const Kernel kernel =
        device().compile(with_host(host_kernel([](Item item, std::int32_t* out, int nx, int ny, int /*nz*/) {
                             out[(item.z * static_cast<unsigned>(ny) + item.y) * static_cast<unsigned>(nx) + item.x] +=
                                 static_cast<int>(1 + item.x + 100 * item.y + 10000 * item.z);
                         })),
                         "places");
    Queue queue(device());
    struct Case {
        Items items, group;
    };
    for (const Case& c :
         {Case{{5, 3}, {}}, Case{{33, 17}, {}}, Case{{33, 17}, {8, 4}}, Case{{1, 257}, {}}, Case{{7, 5, 3}, {}},
          Case{{7, 5, 3}, {4, 2, 2}}, Case{{31, 8, 4}, {}}, Case{{1, 1, 1}, {}}, Case{{3, 0}, {}}, Case{{0, 3, 3}, {2, 2, 2}}}) {
        const std::int64_t nx = c.items.counts()[0], ny = c.items.counts()[1], nz = c.items.counts()[2];
        CAPTURE(nx);
        CAPTURE(ny);
        CAPTURE(nz);
        const std::int64_t count = nx * ny * nz;
        const Array out = make_array(int32, {count + 1});
        {
            auto view = out.map<std::int32_t>(Access::write);
            std::fill(view.begin(), view.end(), 0);
        }
        queue.launch(kernel, c.items,
                     {read_write(out), value(static_cast<std::int32_t>(nx)), value(static_cast<std::int32_t>(ny)),
                      value(static_cast<std::int32_t>(nz))},
                     {.group = c.group});
        std::vector<std::int32_t> expected;
        for (int z = 0; z < nz; ++z)
            for (int y = 0; y < ny; ++y)
                for (int x = 0; x < nx; ++x)
                    expected.push_back(1 + x + 100 * y + 10000 * z);
        expected.push_back(0);
        CHECK(values_of<std::int32_t>(out) == expected);
    }
}

TEST_CASE("values of every size arrive as they are") {
    const Kernel kernel = device().compile(with_host(host_kernel([](std::size_t, std::int32_t* out, signed char c, short s, int i,
                                                                    std::int64_t l, float f, Pair pair, Many many) {
                                               out[0] = c;  // NOLINT(bugprone-signed-char-misuse): its sign is what is tested
                                               out[1] = s;
                                               out[2] = i;
                                               out[3] = static_cast<int>(l >> 32);
                                               out[4] = static_cast<int>(2 * f);
                                               out[5] = pair.number;
                                               out[6] = static_cast<int>(2 * pair.half[4]);
                                               out[7] = many.numbers[63];
                                           })),
                                           "values");
    Queue queue(device());
    const Array out = make_array(int32, {8});
    Pair pair{-6, {0, 0, 0, 0, 3.5F}};
    Many many{};
    many.numbers[63] = 1234567;
    // A value is taken when the argument is made, and the argument may be kept.
    std::vector<Argument> arguments{write(out),
                                    value(static_cast<signed char>(-1)),
                                    value(static_cast<short>(-300)),
                                    value(-70000),
                                    value(std::int64_t{-5} << 32),
                                    value(2.5F),
                                    value(pair),
                                    value(many)};
    pair.number = 0;
    queue.launch(kernel, 1, arguments, {});
    CHECK(values_of<std::int32_t>(out) == std::vector<std::int32_t>{-1, -300, -70000, -5, 5, -6, 7, 1234567});
    // One that differs alone, and again the first.
    const std::int32_t numbers[] = {7, -70000};
    for (const std::int32_t number : numbers) {
        arguments[3] = value(number);
        queue.launch(kernel, 1, arguments, {});
        CHECK(values_of<std::int32_t>(out)[2] == number);
    }
}

TEST_CASE("memory that the items of a group share") {
    const Kernel kernel = device().compile(with_host(host_kernel([](std::size_t i, std::int32_t* data) {
                                               if (i == 0) std::reverse(data, data + 32);
                                           })),
                                           "reverse");
    Queue queue(device());
    const Array data = make_array(int32, {32});
    std::vector<std::int32_t> expected(32);
    {
        auto view = data.map<std::int32_t>(Access::write);
        for (std::size_t i = 0; i < 32; ++i) {
            view[i] = static_cast<std::int32_t>(i * i);
            expected[31 - i] = view[i];
        }
    }
    queue.launch(kernel, 32, {read_write(data), local(61), local(64)}, {.group = 32});  // 61 bytes and what aligns the next
    if (device().info().backend != "opencl") CHECK(values_of<std::int32_t>(data) == expected);
    if (device().info().backend == "opencl") {  // there each part has its own size
        (void)values_of<std::int32_t>(data);
        auto view = data.map<std::int32_t>(Access::write);
        for (std::size_t i = 0; i < 32; ++i)
            view[i] = static_cast<std::int32_t>(i * i);
        view.unmap();
        queue.launch(kernel, 32, {read_write(data), local(64), local(64)}, {.group = 32});
        CHECK(values_of<std::int32_t>(data) == expected);
    }
}

TEST_CASE("arrays that start anywhere") {
    const Kernel kernel =
        device().compile(with_host(host_kernel([](std::size_t i, const std::uint8_t* base, std::uint64_t offset,
                                                  std::uint8_t* out, int /*n*/) { out[i] = base[offset + i]; })),
                         "bytes");
    Queue queue(device());
    Bytes content(2000);
    for (std::size_t i = 0; i < content.size(); ++i)
        content[i] = static_cast<std::byte>(i % 251);
    const Buffer buffer = buffer_with(content);
    constexpr std::int32_t n = 100;
    for (const std::size_t start : {0U, 512U, 1024U, 1U, 4U, 80U, 999U}) {
        CAPTURE(start);
        const Array in(buffer, uint8, {n}, start);
        const auto expected = std::vector<std::uint8_t>(reinterpret_cast<const std::uint8_t*>(content.data()) + start,
                                                        reinterpret_cast<const std::uint8_t*>(content.data()) + start + n);
        const Array out = make_array(uint8, {n});
        queue.launch(kernel, n, {read(in).base(), offset(in), write(out).base(), value(n)});
        if (options().kind != MemoryKind::adopted) {  // where the output starts at its base
            CHECK(values_of<std::uint8_t>(out) == expected);
        }
        const Array fresh = empty(device(), uint8, {n});
        queue.launch(kernel, n, {read(in).base(), offset(in), write(fresh), value(n)});
        CHECK(values_of<std::uint8_t>(fresh) == expected);
        // A pointer to the first element itself, which OpenCL has for aligned places alone, but on host memory.
        const auto direct = [&] { queue.launch(kernel, n, {read(in), value(std::uint64_t{0}), write(fresh), value(n)}); };
        try {
            direct();
        } catch (const Error& error) {
            INFO(std::string(error.what()));
            CHECK(device().info().backend == "opencl");
            CHECK(error.code() == ErrorCode::invalid_argument);
            CHECK(std::string(error.what()).find("pass its base and its offset") != std::string::npos);
            CHECK((start != 0 || options().kind == MemoryKind::adopted));
        }
        CHECK(values_of<std::uint8_t>(fresh) == expected);
    }
    // Negative strides: the pointer is to the first element, behind which the others do not lie.
    const Array backwards = Array(buffer, uint8, {n}, 0).slice(0, -1, -n - 1, -1);
    const Array out = empty(device(), uint8, {n});
    queue.launch(kernel, 1, {read(backwards).base(), offset(backwards), write(out), value(1)});
    CHECK(values_of<std::uint8_t>(out)[0] == static_cast<std::uint8_t>(content[n - 1]));
}

TEST_CASE("an array without elements is a null pointer, a buffer is an argument too") {
    const Kernel kernel = axpy_kernel();
    Queue queue(device());
    const Array nothing = make_array(float32, {0});
    queue.launch(kernel, 0, {read(nothing), read_write(nothing), value(2.0F), value(std::int64_t{0})});
    queue.synchronize();
    if (device().info().backend == "host") return;  // whose function has no bound to check
    queue.launch(kernel, 3, {read(Array()), write(nothing), value(2.0F), value(std::int64_t{0})}, {.group = 4});
    queue.synchronize();
    const Buffer x(device(), 40), y(device(), 40);
    for (const Buffer* buffer : {&x, &y}) {
        HostView view = buffer->map(Access::write);
        const std::vector<float> values = ramp(10);
        std::memcpy(view.data(), values.data(), 40);
    }
    queue.launch(kernel, 10, {read(x), read_write(y), value(1.0F), value(std::int64_t{10})});
    float last = 0;
    const Bytes bytes = bytes_of(y);
    std::memcpy(&last, bytes.data() + 36, sizeof last);
    CHECK(last == 18.0F);
}

TEST_CASE("memory and kernel go right after the launch") {
    Queue queue(device());
    const std::int64_t n = options().window_bytes == 0 ? 100'003 : 1000;
    const Array sum = array_of(std::vector<float>(static_cast<std::size_t>(n), 0.0F));
    for (int round = 0; round < 20; ++round) {
        const Array ones = array_of(std::vector<float>(static_cast<std::size_t>(n), 1.0F));
        queue.launch(axpy_kernel(), n, {read(ones), read_write(sum), value(1.0F), value(n)});
    }
    const std::vector<float> result = values_of<float>(sum);
    CHECK(std::all_of(result.begin(), result.end(), [](float value) { return value == 20.0F; }));
}

TEST_CASE("one kernel on several queues at once") {
    const Kernel kernel = axpy_kernel();
    std::vector<std::thread> threads;
    std::vector<int> wrong(3, 0);
    for (std::size_t t = 0; t < wrong.size(); ++t) {
        threads.emplace_back([&kernel, &wrong, t] {
            Queue queue(device());
            constexpr std::int64_t n = 777;
            const Array x = array_of(std::vector<float>(n, static_cast<float>(t + 1)));
            const Array y = array_of(std::vector<float>(n, 0.0F));
            for (int round = 0; round < 50; ++round)
                queue.launch(kernel, n, {read(x), read_write(y), value(static_cast<float>(round % 3)), value(n)});
            for (const float value : values_of<float>(y))
                wrong[t] += value != static_cast<float>(t + 1) * 49.0F;  // 16 times 0 + 1 + 2, and 0 + 1
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    CHECK(wrong == std::vector<int>(3, 0));
}

TEST_CASE("compiled images are kept, for source and options as they are") {
    if (device().info().backend == "host") return;
    KernelSource source = axpy_source;
    const std::string unlike = "// " + std::to_string(std::hash<std::thread::id>()(std::this_thread::get_id())) +
                               std::to_string(reinterpret_cast<std::uintptr_t>(&source)) + "\n";
    source.cuda = unlike + source.cuda;
    source.opencl = unlike + source.opencl;
    (void)device().compile(source, "axpy");
    CHECK(device().compile(source, "axpy").info().is_from_cache);
    // An option makes another kernel.
    KernelSource scaled{.cuda = R"(extern "C" __global__ void scaled(float* y) { y[threadIdx.x] = SCALE; })",
                        .opencl = "__kernel void scaled(__global float* y) { y[get_global_id(0)] = SCALE; }"};
    Queue queue(device());
    const Array y = make_array(float32, {1});
    for (const int scale : {3, 4}) {
        const Kernel kernel =
            device().compile(scaled, "scaled", {.defines = {"SCALE=" + std::to_string(scale)}, .fast_math = scale == 4});
        queue.launch(kernel, 1, {write(y)});
        CHECK(values_of<float>(y)[0] == static_cast<float>(scale));
    }
}

TEST_CASE("CUDA: templates by name, PTX as it is") {
    if (device().info().backend != "cuda") return;
    Queue queue(device());
    const Array y = make_array(float32, {4});
    queue.launch(device().compile(several, "fill<float>"), 4, {write(y), value(2.5F)}, {.group = 4});
    CHECK(values_of<float>(y) == std::vector<float>(4, 2.5F));
    const std::string ptx = R"(.version 6.4
.target sm_75
.address_size 64
.visible .entry seven(.param .u64 out) {
    .reg .b64 %a;
    .reg .b32 %v;
    ld.param.u64 %a, [out];
    cvta.to.global.u64 %a, %a;
    mov.b32 %v, 0f40E00000;
    st.global.b32 [%a], %v;
    ret;
})";
    const KernelSource image{.cuda_image = std::as_bytes(std::span(ptx))};
    queue.launch(device().compile(image, "seven"), 1, {write(y)});
    CHECK(values_of<float>(y)[0] == 7.0F);
    CHECK_ERROR(ErrorCode::invalid_argument, "no kernel of that name", (void)device().compile(image, "eight"));
    const std::string broken = ptx.substr(0, ptx.size() / 2);
    CHECK_ERROR(ErrorCode::build_failed, "cuModuleLoadData",
                (void)device().compile({.cuda_image = std::as_bytes(std::span(broken))}, "seven"));
}

}  // namespace tandem::test
