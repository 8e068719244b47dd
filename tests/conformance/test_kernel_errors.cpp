#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "kernel_sources.hpp"

namespace tandem::test {
namespace {

bool is_on(const char* backend) {
    return device().info().backend == backend;
}

std::string build_error(const KernelSource& source, const CompileOptions& options = {}) {
    const Error error = error_of([&] { (void)device().compile(source, "wrong", options); });
    INFO(std::string(error.what()));
    CHECK(error.code() == ErrorCode::build_failed);
    return error.what();
}

// Takes some tenths of a second, on the first item.
const KernelSource slow_source{.cuda = R"(extern "C" __global__ void slow(unsigned* out, unsigned rounds) {
    unsigned state = 1;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        for (unsigned i = 0; i < rounds; ++i) state = (state ^ (state >> 3)) * 1664525u + 1013904223u;
        out[0] = state;
    }
})",
                               .opencl = R"(__kernel void slow(__global uint* out, uint rounds) {
    uint state = 1;
    if (get_global_id(0) == 0) {
        for (uint i = 0; i < rounds; ++i) state = (state ^ (state >> 3)) * 1664525u + 1013904223u;
        out[0] = state;
    }
})",
                               .host = host_kernel([](std::size_t item, std::uint32_t* out, std::uint32_t rounds) {
                                   std::uint32_t state = 1;
                                   if (item != 0) return;
                                   for (std::uint32_t i = 0; i < rounds; ++i)
                                       state = (state ^ (state >> 3U)) * 1664525U + 1013904223U;
                                   out[0] = state;
                               })};

}  // namespace

TEST_CASE("a source that does not build: the compiler's log, with the caller's lines") {
    if (is_on("host")) return;
    KernelSource source{.cuda = "extern \"C\" __global__ void wrong(float* y) {\n\n\n    y[0] = undeclared_thing;\n}\n",
                        .opencl = "__kernel void wrong(__global float* y) {\n\n\n    y[0] = undeclared_thing;\n}\n",
                        .file_name = "mine.source"};
    for (const bool has_defines : {false, true}) {
        const std::string message =
            build_error(source, has_defines ? CompileOptions{.defines = {"A=1", "B"}, .fast_math = true} : CompileOptions{});
        CHECK(message.find(is_on("cuda") ? "mine.source(4)" : ":4:") != std::string::npos);
        CHECK(message.find("undeclared_thing") != std::string::npos);
        CHECK(message.find("wrong") != std::string::npos);
    }
    // The caller's own #line counts.
    source.cuda = "#line 70 \"elsewhere\"\n" + source.cuda;
    source.opencl = "#line 70 \"elsewhere\"\n" + source.opencl;
    const std::string message = build_error(source);
    INFO(message);
    // NVIDIA's OpenCL counts the lines of the text and leaves #line alone.
    const bool is_found = is_on("cuda") ? message.find("elsewhere(73)") != std::string::npos
                                        : message.find(":73:") != std::string::npos || message.find(":5:") != std::string::npos;
    CHECK(is_found);
}

TEST_CASE("no kernel of that name, no source for this device, options that there are not") {
    if (is_on("host")) {
        CHECK_ERROR(ErrorCode::invalid_argument, "no host function", (void)device().compile({.cuda = "x"}, "axpy"));
        return;
    }
    CHECK_ERROR(ErrorCode::invalid_argument, "no kernel of that name", (void)device().compile(axpy_source, "axpx"));
    CHECK_ERROR(ErrorCode::invalid_argument, "name", (void)device().compile(axpy_source, ""));
    KernelSource other;
    other.host = axpy_source.host;
    CHECK_ERROR(ErrorCode::invalid_argument, "there is neither", (void)device().compile(other, "axpy"));
    CHECK_THROWS_AS((void)device().compile(axpy_source, "axpy", {.cuda = {"--no-such-option"}, .opencl = {"-no-such-option"}}),
                    Error);
    for (const char* define : {"", "A=1 + 1"})
        CHECK_ERROR(ErrorCode::invalid_argument, "is no define",
                    (void)device().compile(axpy_source, "axpy", {.defines = {define}}));
}

TEST_CASE("images that are none are refused") {
    const Bytes noise(1000, std::byte{0x5a});
    const KernelSource source{.cuda_image = noise, .spirv = noise};
    CHECK_THROWS_AS((void)device().compile(source, "axpy"), Error);
}

TEST_CASE("a launch with other arguments than the kernel has") {
    const Kernel kernel = axpy_kernel();
    Queue queue(device());
    const Array x = array_of(ramp(10)), y = array_of(ramp(10));
    const Argument n = value(std::int64_t{10});
    const std::vector<float> before = values_of<float>(y);
    const bool knows_parameters = kernel.info().parameters.has_value();
    if (knows_parameters) {
        CHECK_ERROR(ErrorCode::invalid_argument, "3 arguments are given, the kernel takes 4",
                    queue.launch(kernel, 10, {read(x), read_write(y), n}));
        CHECK_ERROR(ErrorCode::invalid_argument, "5 arguments are given, the kernel takes 4",
                    queue.launch(kernel, 10, {read(x), read_write(y), value(1.0F), n, n}));
        CHECK_ERROR(ErrorCode::invalid_argument, "argument 2 is a value of 8 bytes",
                    queue.launch(kernel, 10, {read(x), read_write(y), value(1.0), n}));
        CHECK_ERROR(ErrorCode::invalid_argument, "argument 3 is a value of 4 bytes",
                    queue.launch(kernel, 10, {read(x), read_write(y), value(1.0F), value(10)}));
        CHECK_ERROR(ErrorCode::invalid_argument, "argument 2 is an array",
                    queue.launch(kernel, 10, {read(x), read_write(y), read(x), n}));
    }
    // Which parameters are pointers, CUDA does not tell.
    if (!is_on("cuda")) {
        CHECK_ERROR(ErrorCode::invalid_argument, "argument 0 is a value",
                    queue.launch(kernel, 10, {value(std::int64_t{1}), read_write(y), value(1.0F), n}));
        CHECK_ERROR(ErrorCode::invalid_argument, "argument 3 is an array",
                    queue.launch(kernel, 10, {read(x), read_write(y), value(1.0F), read(x)}));
    }
    if (is_on("opencl")) {
        CHECK_ERROR(ErrorCode::invalid_argument, "argument 1 is local memory",
                    queue.launch(kernel, 10, {read(x), local(40), value(1.0F), n}));
    }
    const std::vector<Argument> many(65, n);
    CHECK_ERROR(ErrorCode::invalid_argument, "65 arguments: 64 at most", queue.launch(kernel, 10, many, {}));
    CHECK_ERROR(ErrorCode::invalid_argument, "has no base", (void)n.base());
    queue.synchronize();
    CHECK(values_of<float>(y) == before);
}

TEST_CASE("items and groups that can't be") {
    const Kernel kernel = axpy_kernel();
    Queue queue(device());
    const Array x = array_of(ramp(10)), y = array_of(ramp(10));
    const std::vector<Argument> arguments{read(x), read_write(y), value(1.0F), value(std::int64_t{10})};
    CHECK_ERROR(ErrorCode::invalid_argument, "(-1) items", queue.launch(kernel, -1, arguments, {}));
    CHECK_ERROR(ErrorCode::invalid_argument, "no items are given", queue.launch(kernel, Items(), arguments, {}));
    CHECK_ERROR(ErrorCode::invalid_argument, "groups of (0)", queue.launch(kernel, 10, arguments, {.group = 0}));
    CHECK_ERROR(ErrorCode::invalid_argument, "groups of (-4)", queue.launch(kernel, 10, arguments, {.group = -4}));
    CHECK_ERROR(ErrorCode::invalid_argument, "as many dimensions", queue.launch(kernel, 10, arguments, {.group = {2, 2}}));
    CHECK_ERROR(ErrorCode::invalid_argument, "this kernel's may have",
                queue.launch(kernel, 10, arguments, {.group = std::int64_t{1} << 40}));
    if (is_on("host")) {
        CHECK_ERROR(ErrorCode::invalid_argument, "give it a tandem::Item", queue.launch(kernel, {2, 2}, arguments, {}));
        return;
    }
    CHECK_ERROR(ErrorCode::invalid_argument, "this kernel's may have",
                queue.launch(kernel, {1 << 10, 1 << 10, 1 << 10}, arguments, {.group = {1 << 10, 1 << 10, 1 << 10}}));
    std::vector<Argument> with_local = arguments;
    if (is_on("opencl")) with_local.pop_back();  // where local memory is a parameter
    with_local.push_back(local(0));
    CHECK_ERROR(ErrorCode::invalid_argument, "is local memory of 0 bytes", queue.launch(kernel, 10, with_local, {}));
}

TEST_CASE("memory that a launch may not use as declared") {
    const Kernel kernel = axpy_kernel();
    Queue queue(device());
    const Array x = array_of(ramp(10)), y = array_of(ramp(10));
    const auto launch = [&](const Argument& first, const Argument& second) {
        queue.launch(kernel, 10, {first, second, value(0.0F), value(std::int64_t{10})});
    };
    {
        const auto view = x.map<float>(Access::write);
        CHECK_ERROR(ErrorCode::invalid_argument, "argument 0 is mapped for the host", launch(read(x), read_write(y)));
    }
    {
        const auto view = x.map<float>(Access::read);
        launch(read(x), read_write(y));
        CHECK_ERROR(ErrorCode::invalid_argument, "argument 1 is mapped for the host", launch(read(y), write(x)));
    }
    const std::vector<float> constant(10, 1.0F);
    const Array adopted = adopt(device(), constant);
    launch(read(adopted), read_write(y));
    CHECK_ERROR(ErrorCode::invalid_argument, "argument 1 lies in read-only memory", launch(read(x), read_write(adopted)));
    queue.synchronize();
    for (const BackendInfo& backend : list_backends()) {
        if (backend.devices.empty() || backend.name == device().info().backend) continue;
        const Device other = open_device(backend.devices.front().spec);
        const Array there = empty(other, float32, {10});
        CHECK_ERROR(ErrorCode::invalid_argument, "argument 0 is on " + other.spec(), launch(read(there), read_write(y)));
        Queue elsewhere(other);
        CHECK_ERROR(ErrorCode::invalid_argument, "the kernel is on " + device().spec(),
                    elsewhere.launch(kernel, 10, {read(there), read_write(there), value(0.0F), value(std::int64_t{10})}));
    }
    if (options().window_bytes != 0) {
        const Array large = make_array(float32, {3000});
        CHECK_ERROR(ErrorCode::unsupported, "stream", launch(read(large), read_write(y)));
        CHECK_ERROR(ErrorCode::unsupported, std::to_string(options().window_bytes), launch(read(y), read_write(large)));
        launch(read(large.slice(0, 1100, 1110)), read_write(y));  // a part in one allocation
    }
    queue.synchronize();
}

TEST_CASE("kernels and queues that are none") {
    Kernel kernel = axpy_kernel();
    const Kernel moved = std::move(kernel);
    Queue queue(device());
    // NOLINTNEXTLINE(bugprone-use-after-move): it is what this is about
    CHECK_ERROR(ErrorCode::invalid_argument, "no kernel", queue.launch(kernel, 1, {}));
    CHECK_ERROR(ErrorCode::invalid_argument, "no kernel", (void)Kernel().info());
    const Queue taken = std::move(queue);
    // NOLINTNEXTLINE(bugprone-use-after-move): likewise
    CHECK_ERROR(ErrorCode::invalid_argument, "moved from", queue.launch(moved, 1, {}));
}

TEST_CASE("waiting with an end") {
    using namespace std::chrono_literals;
    const Kernel kernel = device().compile(slow_source, "slow");
    Queue queue(device());
    CHECK(Event().wait_for(0ns));
    CHECK(queue.record().wait_for(10s));
    queue.synchronize(10s);
    const Array out = make_array(uint32, {1});
    queue.launch(kernel, 128, {write(out), value(std::uint32_t{60'000'000})});
    const Event event = queue.record();
    CHECK_FALSE(event.wait_for(1ms));
    CHECK_ERROR(ErrorCode::timed_out, "within 2 ms", queue.synchronize(2ms));
    CHECK(event.wait_for(60s));
    queue.synchronize(60s);
    std::uint32_t state = 1;
    for (std::uint32_t i = 0; i < 60'000'000; ++i)
        state = (state ^ (state >> 3U)) * 1664525U + 1013904223U;
    CHECK(values_of<std::uint32_t>(out)[0] == state);
}

TEST_CASE("a queue that is given up is waited for by nobody, and its device opens anew") {
    if (options().window_bytes != 0 || is_on("cuda")) return;  // there the context is the process's, not this device's
    const Device before = open_device(options().device);
    const Kernel kernel = before.compile(slow_source, "slow");
    const Array out = empty(before, uint32, {1});
    const auto start = std::chrono::steady_clock::now();
    {
        Queue queue(before);
        queue.launch(kernel, 128, {write(out), value(std::uint32_t{200'000'000})});
        queue.abandon();
        CHECK_ERROR(ErrorCode::invalid_argument, "moved from", queue.synchronize());
        queue.abandon();
    }
    const auto taken = std::chrono::steady_clock::now() - start;
    CHECK(taken < std::chrono::milliseconds(150));
    const Device anew = open_device(options().device);
    CHECK_FALSE(anew == before);
    Queue queue(anew);
    const Array array = empty(anew, float32, {100});
    twice(queue, array);
    queue.synchronize();
    Queue old(before);  // the handles of before go on, as far as the device does
    old.synchronize();
}

TEST_CASE("a host function of one item that hangs holds up those who wait, and nobody else") {
    using namespace std::chrono_literals;
    if (!is_on("host")) return;
    // The function's thread may outlive the test that fails.
    struct Gate {
        std::atomic<bool> is_open{false};
        std::atomic<int> runs{0};
    };
    const auto gate = std::make_shared<Gate>();
    const Kernel kernel = device().compile({.host = host_kernel([gate](std::size_t) {
                                                while (!gate->is_open)
                                                    std::this_thread::sleep_for(1ms);
                                                ++gate->runs;
                                            })},
                                           "hangs");
    std::thread opener([gate] {  // so that a launch that hangs ends the test too
        for (int i = 0; i < 100 && !gate->is_open; ++i)
            std::this_thread::sleep_for(100ms);
        gate->is_open = true;
    });
    {
        Queue queue(device());
        queue.launch(kernel, 1, {});
        CHECK_FALSE(queue.record().wait_for(1ms));
        CHECK_ERROR(ErrorCode::timed_out, "within 20 ms", queue.synchronize(20ms));
        const Graph graph = queue.record_graph([&] { queue.launch(kernel, 1, {}); });
        Queue other(device());
        other.replay(graph);
        CHECK_ERROR(ErrorCode::timed_out, "within 20 ms", other.synchronize(20ms));
        const Array x = array_of(ramp(10)), y = array_of(ramp(10));
        Queue free(device());
        free.launch(axpy_kernel(), 10, {read(x), read_write(y), value(1.0F), value(std::int64_t{10})});
        free.synchronize(5s);
        CHECK(gate->runs == 0);
        gate->is_open = true;
        queue.synchronize(5s);
        other.synchronize(5s);
        CHECK(gate->runs == 2);
    }
    opener.join();
}

TEST_CASE("a host function that throws is an error for those who wait") {
    if (!is_on("host")) return;
    const Kernel kernel = device().compile({.host = host_kernel([](std::size_t i, std::int64_t at) {
                                                if (static_cast<std::int64_t>(i) == at) throw std::runtime_error("no such item");
                                            })},
                                           "throws");
    for (const std::int64_t n : {1, 100'000}) {
        Queue queue(device());
        queue.launch(kernel, n, {value(n - 1)});
        CHECK_ERROR(ErrorCode::device_lost, "throws: no such item", queue.synchronize());
        Queue other(device());
        other.launch(kernel, n, {value(n)});
        other.synchronize();
    }
}

}  // namespace tandem::test
