// One array on both sides: the CPU fills it, the device adds to it, the CPU reads it, and nothing here copies.

#include <algorithm>
#include <iostream>
#include <numeric>
#include <tandem/tandem.hpp>
namespace td = tandem;

int main() try {
    td::Device device = td::open_device();
    td::Queue queue(device);

    td::Array x = td::empty(device, td::float32, {1000}, td::MemoryKind::shared);  // throws where the device has no such memory
    td::Array y = td::empty_like(x);
    std::ranges::fill(y.map<float>(td::Access::write), 1.0F);
    {
        auto elements = x.map<float>(td::Access::write);
        std::iota(elements.begin(), elements.end(), 0.0F);  // 0, 1, 2, ...
    }
    td::add(queue, x, y, x);

    float expected = 0;
    for (float element : x.map<float>(td::Access::read)) {  // waits for the sum
        if (element != ++expected) return 1;
    }
    std::cout << x.residency() << "\n";
} catch (const td::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
