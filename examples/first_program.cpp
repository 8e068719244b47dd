#include <iostream>
#include <tandem/tandem.hpp>
namespace td = tandem;

int main() try {
    td::Device device = td::open_device();         // CUDA, else OpenCL, else this CPU; or open_device("opencl:0")
    td::Queue queue(device);                       // work put here runs in order, and nothing below waits for it
    td::Array a = td::npy::load(device, "a.npy");  // the file's elements, in the device's memory
    td::Array b = td::npy::load(device, "b.npy");
    td::Array sum = td::empty_like(a);
    td::add(queue, a, b, sum);
    td::npy::save(queue, sum, "sum.npy");  // waits for the sum; the file appears whole or not at all
    std::cout << device.info().name << ": " << sum.count() << " sums, a.npy was in " << a.residency() << "\n";
} catch (const td::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
