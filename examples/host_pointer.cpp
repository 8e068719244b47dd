// Doubles a vector where it is, on whatever device there is.

#include <algorithm>
#include <iostream>
#include <tandem/tandem.hpp>
namespace td = tandem;

int main() try {
    td::Device device = td::open_device();
    td::Queue queue(device);

    std::vector<float> mine(1000, 1.5F);
    td::Array x = td::adopt(device, mine);  // in place where the device can, else a copy that stands in for it
    td::twice(queue, x);

    // Looked at through `map`, the vector holds what the device has computed, wherever that was.
    auto elements = x.map<float>(td::Access::read);
    std::cout << x.residency() << "\n";
    return elements.data() == mine.data() && std::ranges::count(mine, 3.0F) == 1000 ? 0 : 1;
} catch (const td::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
