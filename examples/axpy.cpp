// y = a * x + y, in place, on whatever device there is.

#include <iostream>
#include <numeric>
#include <tandem/tandem.hpp>
namespace td = tandem;

int main() try {
    td::Device device = td::open_device();
    td::Queue queue(device);

    std::vector<float> numbers(1000);
    std::iota(numbers.begin(), numbers.end(), 0.0F);
    td::Array x = td::empty(device, td::float32, {1000});
    td::Array y = td::empty_like(x);
    td::copy(queue, numbers, x);
    td::fill(queue, y, 1);

    td::axpy(queue, 2.5, x, y);

    const std::vector<float> result = td::to_vector<float>(queue, y);
    std::cout << "y[999] = " << result[999] << "\n";
    return result[0] == 1 && result[999] == 2.5F * 999 + 1 ? 0 : 1;
} catch (const td::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
