// Kernels written by hand with 16-byte vectors for the one case, and the driver's own copy and launch. The entry points are the
// library's table; nothing else of it is used.
#include "backends/opencl/api.hpp"
#include "peers.hpp"
#include "tandem/error.hpp"

namespace tandem::bench {
namespace {

using namespace tandem::opencl;

constexpr const char* source = R"(
#ifdef USE_DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double2 V;
#else
typedef float4 V;
#endif
__kernel void add(__global V* out, __global const V* a, __global const V* b) {
    size_t i = get_global_id(0);
    out[i] = a[i] + b[i];
}
__kernel void twice(__global V* out, __global const V* a, __global const V* b) {
    size_t i = get_global_id(0);
    out[i] = a[i] + a[i];
}
__kernel void axpy(__global V* out, __global const V* a, __global const V* b, float alpha) {
    size_t i = get_global_id(0);
    out[i] = alpha * a[i] + b[i];
}
__kernel void small(__global float* out, __global const float* a, __global const float* b, int count) {
    int i = get_global_id(0);
    if (i < count) out[i] = a[i] + b[i];
}
)";

void require(cl_int status, const char* what) {
    check(status, Stage::submission, "bench", "{}", what);
}

std::string text(cl_int (*query)(void*, char*, std::size_t), void* object) {
    char buffer[512] = {};
    query(object, buffer, sizeof buffer - 1);
    return buffer;
}

struct Device {
    Device(const std::string& platform_name, const std::string& device_name) {
        cl_platform_id platforms[16];
        cl_uint platform_count = 0;
        require(api().clGetPlatformIDs(16, platforms, &platform_count), "clGetPlatformIDs");
        for (cl_uint p = 0; p < platform_count; ++p) {
            cl_device_id devices[16];
            cl_uint device_count = 0;
            if (api().clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 16, devices, &device_count) != CL_SUCCESS) continue;
            const auto platform_text = [](void* object, char* to, std::size_t size) {
                return api().clGetPlatformInfo(static_cast<cl_platform_id>(object), CL_PLATFORM_NAME, size, to, nullptr);
            };
            const auto device_text = [](void* object, char* to, std::size_t size) {
                return api().clGetDeviceInfo(static_cast<cl_device_id>(object), CL_DEVICE_NAME, size, to, nullptr);
            };
            for (cl_uint d = 0; d < device_count && id == nullptr; ++d) {
                if (text(platform_text, platforms[p]) == platform_name && text(device_text, devices[d]) == device_name)
                    id = devices[d];
            }
        }
        if (id == nullptr) throw Error(ErrorCode::unavailable, "bench: " + platform_name + " has no " + device_name);
        cl_int status = CL_SUCCESS;
        context = ContextHandle(api().clCreateContext(nullptr, 1, &id, nullptr, nullptr, &status));
        require(status, "clCreateContext");
        queue = QueueHandle(api().clCreateCommandQueue(context.get(), id, 0, &status));
        require(status, "clCreateCommandQueue");
    }

    KernelHandle kernel(const char* name, bool float64) {
        cl_int status = CL_SUCCESS;
        const char* text_pointer = source;
        program = ProgramHandle(api().clCreateProgramWithSource(context.get(), 1, &text_pointer, nullptr, &status));
        require(status, "clCreateProgramWithSource");
        require(api().clBuildProgram(program.get(), 1, &id, float64 ? "-DUSE_DOUBLE" : "", nullptr, nullptr), "clBuildProgram");
        KernelHandle made(api().clCreateKernel(program.get(), name, &status));
        require(status, "clCreateKernel");
        return made;
    }

    void set(cl_kernel kernel, const MemoryHandle (&buffers)[3]) const {
        for (cl_uint i = 0; i < 3; ++i) {
            cl_mem buffer = buffers[i].get();
            require(api().clSetKernelArg(kernel, i, sizeof buffer, &buffer), "clSetKernelArg");
        }
    }

    void make(MemoryHandle (&buffers)[3], std::size_t bytes) const {
        const std::string filling(std::size_t{1} << 20U, '\1');
        for (MemoryHandle& buffer : buffers) {
            cl_int status = CL_SUCCESS;
            buffer = MemoryHandle(api().clCreateBuffer(context.get(), CL_MEM_READ_WRITE, bytes, nullptr, &status));
            require(status, "clCreateBuffer");
            for (std::size_t done = 0; done < bytes; done += filling.size()) {
                const std::size_t piece = std::min(filling.size(), bytes - done);
                require(api().clEnqueueWriteBuffer(queue.get(), buffer.get(), CL_TRUE, done, piece, filling.data(), 0, nullptr,
                                                   nullptr),
                        "clEnqueueWriteBuffer");
            }
        }
    }

    void launch(cl_kernel kernel, std::size_t items, std::size_t group) const {
        require(api().clEnqueueNDRangeKernel(queue.get(), kernel, 1, nullptr, &items, group != 0 ? &group : nullptr, 0, nullptr,
                                             nullptr),
                "clEnqueueNDRangeKernel");
    }

    void finish() const { require(api().clFinish(queue.get()), "clFinish"); }

    cl_device_id id = nullptr;
    ContextHandle context;
    QueueHandle queue;
    ProgramHandle program;
};

// Members go in reverse order: objects before the context that they belong to.
struct Setup {
    Device device;
    MemoryHandle buffers[3];
    KernelHandle kernel;
};

}  // namespace

std::vector<Candidate> opencl_peers(const std::string& platform, const std::string& name, Job job, bool float64,
                                    std::int64_t count, int repeats) {
    const std::size_t bytes = static_cast<std::size_t>(count) * (float64 ? 8 : 4);
    auto setup = std::make_shared<Setup>(Setup{Device(platform, name), {}, {}});
    setup->device.make(setup->buffers, bytes);
    setup->kernel = setup->device.kernel(job == Job::add ? "add" : job == Job::twice ? "twice" : "axpy", float64);
    setup->device.set(setup->kernel.get(), setup->buffers);
    const float alpha = 2;
    if (job == Job::axpy) require(api().clSetKernelArg(setup->kernel.get(), 3, sizeof alpha, &alpha), "clSetKernelArg");
    const auto run = [=](std::size_t group) {
        for (int i = 0; i < repeats; ++i)
            setup->device.launch(setup->kernel.get(), bytes / 16, group);
        setup->device.finish();
    };
    const std::size_t moved = bytes * (job == Job::twice ? 2 : 3) / 2;
    const auto copy = [=] {
        for (int i = 0; i < repeats; ++i) {
            for (std::size_t left = moved; left != 0;) {
                const std::size_t piece = std::min(left, bytes);
                require(api().clEnqueueCopyBuffer(setup->device.queue.get(), setup->buffers[1].get(), setup->buffers[0].get(), 0,
                                                  0, piece, 0, nullptr, nullptr),
                        "clEnqueueCopyBuffer");
                left -= piece;
            }
        }
        setup->device.finish();
    };
    std::vector<Candidate> peers{{"hand-written kernel, groups left open", [=] { run(0); }}};
    for (const std::size_t group : {64U, 128U, 256U, 512U, 1024U}) {
        peers.push_back({"hand-written kernel, groups of " + std::to_string(group), [=] { run(group); }});
    }
    peers.push_back({"copy within the device, as many bytes", copy});
    return peers;
}

std::vector<Candidate> opencl_link(const std::string& platform, const std::string& name, std::size_t bytes) {
    struct Link {
        Device device;
        MemoryHandle on_device;
        MemoryHandle pinned;
        void* host;
    };
    auto link = std::make_shared<Link>(Link{Device(platform, name), {}, {}, nullptr});
    const auto make = [&](cl_mem_flags flags) {
        cl_int status = CL_SUCCESS;
        MemoryHandle memory(api().clCreateBuffer(link->device.context.get(), CL_MEM_READ_WRITE | flags, bytes, nullptr, &status));
        require(status, "clCreateBuffer");
        return memory;
    };
    link->on_device = make(0);
    link->pinned = make(CL_MEM_ALLOC_HOST_PTR);
    cl_int status = CL_SUCCESS;
    link->host = api().clEnqueueMapBuffer(link->device.queue.get(), link->pinned.get(), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                          bytes, 0, nullptr, nullptr, &status);
    require(status, "clEnqueueMapBuffer");
    return {{"copy from pinned memory",
             [=] {
                 require(api().clEnqueueWriteBuffer(link->device.queue.get(), link->on_device.get(), CL_TRUE, 0, bytes,
                                                    link->host, 0, nullptr, nullptr),
                         "clEnqueueWriteBuffer");
             }},
            {"copy to pinned memory", [=] {
                 require(api().clEnqueueReadBuffer(link->device.queue.get(), link->on_device.get(), CL_TRUE, 0, bytes, link->host,
                                                   0, nullptr, nullptr),
                         "clEnqueueReadBuffer");
             }}};
}

Candidate opencl_raw_launch(const std::string& platform, const std::string& name, int repeats) {
    auto setup = std::make_shared<Setup>(Setup{Device(platform, name), {}, {}});
    setup->device.make(setup->buffers, 4096);
    setup->kernel = setup->device.kernel("small", false);
    return {"clSetKernelArg x 4 + clEnqueueNDRangeKernel",
            [=] {
                const cl_int count = 1024;
                for (int i = 0; i < repeats; ++i) {
                    setup->device.set(setup->kernel.get(), setup->buffers);
                    require(api().clSetKernelArg(setup->kernel.get(), 3, sizeof count, &count), "clSetKernelArg");
                    setup->device.launch(setup->kernel.get(), 1024, 256);
                }
            },
            [=] { setup->device.finish(); }};
}

}  // namespace tandem::bench
