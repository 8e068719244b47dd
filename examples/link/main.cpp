// A program in a project of its own that links tandem: doubles three numbers, takes them through an archive, and checks them.

#include <cstdio>
#include <iostream>
#include <tandem/tandem.hpp>

int main() try {
    const tandem::Device device = tandem::open_device("host");
    tandem::Queue queue(device);
    const std::vector<std::int32_t> numbers{1, 2, 3};
    const tandem::Array x = tandem::empty(device, tandem::int32, {3});
    tandem::copy(queue, numbers, x);
    tandem::twice(queue, x);
    tandem::npz::save(queue, {{"x", x}}, "uses_tandem.npz", true);
    const tandem::Array y = tandem::npz::load(device, "uses_tandem.npz", "x");
    std::remove("uses_tandem.npz");
    const bool right = tandem::to_vector<std::int32_t>(queue, y) == std::vector<std::int32_t>{2, 4, 6};
    std::cout << device.info().name << (right ? ": right\n" : ": wrong\n");
    return right ? 0 : 1;
} catch (const tandem::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
