// Brings memory of your own to a device and back: a vector in, a part of the result out, and a look at the rest in place.

#include <iostream>
#include <numeric>
#include <tandem/tandem.hpp>
namespace td = tandem;

int main() try {
    td::Device device = td::open_device();
    td::Queue queue(device);

    std::vector<float> mine(1000);
    std::iota(mine.begin(), mine.end(), 0.0F);  // 0, 1, 2, ...

    // In. The copy is only queued here, so `mine` must stay as it is until the queue has passed it.
    td::Array x = td::empty(device, td::float32, {10, 100});
    td::copy(queue, mine, x);
    td::twice(queue, x);

    // Out: the second row alone. Slices cost nothing; only its 100 elements travel.
    std::vector<float> row(100);
    td::copy(queue, x.at(0, 1), row);
    queue.synchronize();
    if (row[0] != 200.0F || row[99] != 398.0F) return 1;

    // Or look at the elements where they are. The range ends at the brace, and with it the view.
    {
        auto elements = x.map<float>(td::Access::read);
        std::cout << (elements.in_place() ? "in place" : "through a copy") << " on " << device.spec() << "\n";
        if (std::accumulate(elements.begin(), elements.end(), 0.0F) != 999000.0F) return 1;
    }
    return 0;
} catch (const td::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
