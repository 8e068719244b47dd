// What a kernel or a launch asks for beyond what there is: an error before the driver sees it.

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "kernel_sources.hpp"

namespace tandem::test {
namespace {

bool is_on(const char* backend) {
    return device().info().backend == backend;
}

// Writes how many items are in its group, and where the item is that runs it.
const KernelSource required{.opencl = R"(
__kernel __attribute__((reqd_work_group_size(8, 4, 1))) void flat(__global int* out, int nx, int ny) {
    const int x = get_global_id(0), y = get_global_id(1);
    if (x < nx && y < ny) out[y * nx + x] = (int)(get_local_size(0) * 100 + get_local_size(1) * 10 + get_local_size(2));
}
__kernel __attribute__((reqd_work_group_size(16, 1, 1))) void line(__global int* out, int nx) {
    const int x = get_global_id(0);
    if (x < nx) out[x] = (int)get_local_size(0);
}
)"};

}  // namespace

TEST_CASE("kernels that require groups of one size") {
    if (!is_on("opencl")) return;  // elsewhere nothing requires one
    const Kernel flat = device().compile(required, "flat"), line = device().compile(required, "line");
    CHECK(flat.info().required_group == std::array<std::uint32_t, 3>{8, 4, 1});
    CHECK(line.info().required_group == std::array<std::uint32_t, 3>{16, 1, 1});
    CHECK(axpy_kernel().info().required_group == std::array<std::uint32_t, 3>{});
    Queue queue(device());
    for (const Items& group : {Items(), Items(16)}) {
        for (const std::int32_t n : {1, 16, 35}) {
            const Array out = make_array(int32, {n});
            queue.launch(line, n, {write(out), value(n)}, {.group = group});
            CHECK(values_of<std::int32_t>(out) == std::vector<std::int32_t>(static_cast<std::size_t>(n), 16));
        }
    }
    const Array out = make_array(int32, {70});
    const auto all_have = [&](int number) {
        const std::vector<std::int32_t> values = values_of<std::int32_t>(out);
        return std::count(values.begin(), values.end(), number) == 70;
    };
    const std::vector<Argument> ten_by_seven{write(out), value(10), value(7)};
    queue.launch(flat, {10, 7}, ten_by_seven, {});
    CHECK(all_have(841));
    queue.launch(flat, {10, 7, 1}, ten_by_seven, {});
    CHECK(all_have(841));
    queue.launch(flat, {10, 7}, ten_by_seven, {.group = {8, 4}});
    CHECK(all_have(841));
    // In a graph too, where nothing is there to choose a group later.
    const Graph graph = queue.record_graph([&] { queue.launch(flat, {10, 7}, ten_by_seven, {}); });
    queue.replay(graph);
    CHECK(all_have(841));
    for (const Items& group : {Items(4, 8), Items(8, 1), Items(32, 1)})
        CHECK_ERROR(ErrorCode::invalid_argument, "requires groups of (8, 4, 1)",
                    queue.launch(flat, {10, 7}, ten_by_seven, {.group = group}));
    CHECK_ERROR(ErrorCode::invalid_argument, "which have 2 dimensions", queue.launch(flat, 70, ten_by_seven, {}));
    CHECK_ERROR(ErrorCode::invalid_argument, "requires groups of (8, 4, 1)", queue.launch(flat, 70, ten_by_seven, {.group = 32}));
    CHECK_ERROR(ErrorCode::invalid_argument, "requires groups of (16, 1, 1)",
                queue.launch(line, 35, {write(out), value(35)}, {.group = 8}));
    queue.synchronize();
}

TEST_CASE("kernels that take what launches have no argument for") {
    if (!is_on("opencl")) return;
    const KernelSource source{.opencl = R"(
typedef image2d_t picture;
__kernel void image(__global float* out, read_only image2d_t seen) { out[0] = get_image_width(seen); }
__kernel void written(__global float* out, write_only image3d_t seen) { out[0] = get_image_width(seen); }
__kernel void named(__global float* out, picture seen) { out[0] = get_image_width(seen); }
__kernel void sampler(__global float* out, sampler_t seen) { out[0] = 1.0f; }
__kernel void both(read_only image2d_t from, sampler_t seen, __global float4* out) { out[0] = read_imagef(from, seen, (int2)(0, 0)); }
typedef struct { float a, b; } pair_t;
__kernel void values(__global float* out, pair_t pair, float4 four) { out[0] = pair.b + four.w; }
)"};
    for (const char* name : {"image", "written", "named", "sampler", "both"}) {
        CAPTURE(name);
        CHECK_ERROR(ErrorCode::unsupported, "kernels take arrays", (void)device().compile(source, name));
    }
    // Others of the same program are as good as any, and a struct may be called as those types are.
    Queue queue(device());
    const Array out = make_array(float32, {1});
    queue.launch(device().compile(source, "values"), 1,
                 {write(out), value(std::array{1.0F, 2.5F}), value(std::array{0.0F, 0.0F, 0.0F, 4.0F})});
    CHECK(values_of<float>(out)[0] == 6.5F);
}

TEST_CASE("more local memory than there is") {
    if (is_on("host")) return;  // where it means nothing
    const KernelSource source{.cuda = R"(
extern "C" __global__ void shared(float* out) {
    extern __shared__ float part[];
    part[threadIdx.x] = 1.0f;
    __syncthreads();
    out[0] = part[0];
}
extern "C" __global__ void own(float* out) {
    extern __shared__ float part[];
    __shared__ float fixed[1024];
    fixed[threadIdx.x] = part[threadIdx.x] = 1.0f;
    __syncthreads();
    out[0] = part[0] + fixed[0];
})",
                              .opencl = R"(
__kernel void shared(__global float* out, __local float* part) {
    part[get_local_id(0)] = 1.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[0] = part[0];
}
__kernel void own(__global float* out, __local float* part) {
    __local float fixed[1024];
    fixed[get_local_id(0)] = part[get_local_id(0)] = 1.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[0] = part[0] + fixed[0];
}
__kernel void two(__global float* out, __local float* part, __local float* other) {
    part[get_local_id(0)] = other[get_local_id(0)] = 1.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[0] = part[0] + other[0];
}
__kernel void huge(__global float* out) {
    __local float fixed[FIXED];
    fixed[get_local_id(0) + FIXED - 64] = 1.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[0] = fixed[FIXED - 64];
})"};
    // Some compilers refuse the whole program for one kernel that is too large.
    const CompileOptions options{.defines = {"FIXED=1024"}};
    const CompileOptions too_much{.defines = {"FIXED=" + std::to_string(std::size_t{64} << 20U)}};
    Queue queue(device());
    const Array out = make_array(float32, {1});
    const Kernel kernel = device().compile(source, "shared", options), own = device().compile(source, "own", options);
    const auto most = static_cast<std::size_t>(kernel.info().max_local_bytes);
    CHECK(own.info().max_local_bytes <= most - 4096);
    CHECK(most >= 16384);
    for (const std::size_t size : {most + 1, most + 15, 2 * most, std::size_t{1} << 40U, SIZE_MAX}) {
        CAPTURE(size);
        CHECK_ERROR(ErrorCode::invalid_argument, "is local memory of " + std::to_string(size),
                    queue.launch(kernel, 32, {write(out), local(size)}, {.group = 32}));
    }
    CHECK_ERROR(ErrorCode::invalid_argument, "this kernel may have",
                queue.launch(own, 32, {write(out), local(most)}, {.group = 32}));
    // An OpenCL driver may need some of it for itself, and tells nobody how much.
    const auto enough = [](std::size_t size) { return is_on("cuda") ? size : size / 2; };
    queue.launch(kernel, 32, {write(out), local(enough(most))}, {.group = 32});
    CHECK(values_of<float>(out)[0] == 1.0F);
    queue.launch(own, 32, {write(out), local(enough(static_cast<std::size_t>(own.info().max_local_bytes)))}, {.group = 32});
    CHECK(values_of<float>(out)[0] == 2.0F);
    if (is_on("cuda")) {
        // Parts of one region.
        CHECK_ERROR(ErrorCode::invalid_argument, "is local memory of 16",
                    queue.launch(kernel, 32, {write(out), local(most - 16), local(1), local(16)}, {.group = 32}));
        queue.launch(kernel, 32, {write(out), local(most - 17), local(16)}, {.group = 32});
        queue.synchronize();
        return;
    }
    const Kernel two = device().compile(source, "two", options);
    for (const std::size_t size : {most, most - 1023, SIZE_MAX - 1023}) {
        CHECK_ERROR(ErrorCode::invalid_argument, "behind 1024 of the arguments before it",
                    queue.launch(two, 32, {write(out), local(1024), local(size)}, {.group = 32}));
    }
    queue.launch(two, 32, {write(out), local(1024), local(2048)}, {.group = 32});
    CHECK(values_of<float>(out)[0] == 2.0F);
    try {
        (void)device().compile(source, "huge", too_much);
        FAIL_CHECK("a kernel with more local memory than the device has");
    } catch (const Error& error) {
        INFO(std::string(error.what()));
        CHECK((error.code() == ErrorCode::unsupported || error.code() == ErrorCode::build_failed));
        CHECK(std::string(error.what()).find("huge") != std::string::npos);
    }
}

TEST_CASE("more items than can be counted, and than a grid has") {
    const Kernel kernel = device().compile({.cuda = R"(extern "C" __global__ void nothing(int* out) { out[0] = 1; })",
                                            .opencl = "__kernel void nothing(__global int* out) { out[0] = 1; }",
                                            .host = host_kernel([](Item /*item*/, std::int32_t* out) { out[0] = 1; })},
                                           "nothing");
    Queue queue(device());
    const Array out = make_array(int32, {1});
    {
        const auto view = out.map<std::int32_t>(Access::write);
        view[0] = 7;
    }
    constexpr std::int64_t one = 1;
    for (const Items& items :
         {Items(one << 32U, one << 32U, one << 32U), Items(one << 32U, one << 31U), Items(INT64_MAX, 2), Items(one << 62U, 1, 2),
          Items(3, one << 62U, 1), Items(INT64_MAX, INT64_MAX, INT64_MAX), Items(one << 21U, one << 21U, one << 21U)}) {
        for (const Items& group : {Items(), items.dimensions() == 2 ? Items(1, 1) : Items(1, 1, 1)}) {
            CHECK_ERROR(ErrorCode::invalid_argument, "more than can be counted in 63 bits",
                        queue.launch(kernel, items, {write(out)}, {.group = group}));
        }
    }
    CHECK_ERROR(ErrorCode::invalid_argument, "(-1) items", queue.launch(kernel, UINT64_MAX, {write(out)}));
    // None of a dimension are none of all.
    queue.launch(kernel, {one << 32U, one << 32U, 0}, {write(out)});
    queue.launch(kernel, {INT64_MAX, 0, INT64_MAX}, {write(out)});
    CHECK(values_of<std::int32_t>(out)[0] == 7);
    if (!is_on("cuda")) return;
    CHECK_ERROR(ErrorCode::invalid_argument, "which may have 2147483647",
                queue.launch(kernel, one << 31U, {write(out)}, {.group = 1}));
    CHECK_ERROR(ErrorCode::invalid_argument, "which may have 2147483647", queue.launch(kernel, one << 62U, {write(out)}));
    for (const Items& items : {Items(1, 65536, 1), Items(1, 1, 65536)})
        CHECK_ERROR(ErrorCode::invalid_argument, "which may have 65535",
                    queue.launch(kernel, items, {write(out)}, {.group = {1, 1, 1}}));
    queue.launch(kernel, {1, 65535, 1}, {write(out)}, {.group = {1, 1, 1}});
    queue.launch(kernel, {1, 1, 65535}, {write(out)}, {.group = {1, 1, 1}});
    queue.synchronize();
}

TEST_CASE("a source is compiled anew when a file that it includes has changed") {
    if (is_on("host")) return;
    std::string name = (std::filesystem::temp_directory_path() / "tandem-include-XXXXXX").native();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    const std::filesystem::path folder = name;
    const KernelSource source{.cuda = "#include \"number.h\"\nextern \"C\" __global__ void number(int* out) { out[0] = NUMBER; }",
                              .opencl = "#include \"number.h\"\n__kernel void number(__global int* out) { out[0] = NUMBER; }"};
    const CompileOptions options{.cuda = {"--include-path=" + folder.native()}, .opencl = {"-I " + folder.native()}};
    Queue queue(device());
    const Array out = make_array(int32, {1});
    for (const int number : {3, 4, 4, 5}) {
        std::ofstream(folder / "number.h") << "#define NUMBER " << number << "\n";
        const Kernel kernel = device().compile(source, "number", options);
        CHECK_FALSE(kernel.info().is_from_cache);
        queue.launch(kernel, 1, {write(out)});
        CHECK(values_of<std::int32_t>(out)[0] == number);
    }
    std::filesystem::remove_all(folder);
}

}  // namespace tandem::test
