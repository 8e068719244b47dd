// Runs a kernel of your own over a .npy file of float32, where it is: out = 2 a, clipped at 100. One source for each kind of
// device; a device takes the one that it understands.
//
//   own_kernel A.npy OUT.npy

#include <algorithm>
#include <iostream>
#include <tandem/tandem.hpp>
namespace td = tandem;

// CUDA runs whole blocks, so the kernel checks its bounds.
const td::KernelSource source{
    .cuda = R"(extern "C" __global__ void clip(const float* a, float* out, float limit, long long count) {
        long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
        if (i < count) out[i] = fminf(2 * a[i], limit);
    })",
    .opencl = R"(__kernel void clip(__global const float* a, __global float* out, float limit, long count) {
        long i = get_global_id(0);
        if (i < count) out[i] = fmin(2 * a[i], limit);
    })",
    .host = td::host_kernel([](std::int64_t i, const float* a, float* out, float limit, std::int64_t /*count*/) {
        out[i] = std::min(2 * a[i], limit);
    })};

int main(int argc, char** argv) try {
    if (argc != 3) {
        std::cerr << "usage: own_kernel A.npy OUT.npy\n";
        return 2;
    }
    td::Device device = td::open_device();
    td::Queue queue(device);
    td::Kernel clip = device.compile(source, "clip");

    td::Array a = td::npy::map(device, argv[1], td::FileAccess::read, {.fallback = td::MemoryKind::pinned});
    td::Array out = td::empty_like(a, td::MemoryKind::device);
    queue.launch(clip, a.count(), {td::read(a), td::write(out), td::value(100.0F), td::value(a.count())});
    td::npy::save(queue, out, argv[2]);
    std::cout << a.residency() << "\n";
} catch (const td::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
