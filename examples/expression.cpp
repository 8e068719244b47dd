// Several lines of arithmetic as one kernel: each element is read once, and each result written once.

#include <cmath>
#include <iostream>
#include <tandem/tandem.hpp>
namespace td = tandem;

int main() try {
    td::Device device = td::open_device();
    td::Queue queue(device);

    // 16-bit samples of two channels, and a gain for each channel.
    std::vector<std::int16_t> numbers(2000);
    for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = static_cast<std::int16_t>(i);
    const std::vector<float> gains{0.5F, 0.25F};
    td::Array samples = td::empty(device, td::int16, {1000, 2});
    td::Array gain = td::empty(device, td::float32, {2});
    td::copy(queue, numbers, samples);
    td::copy(queue, gains, gain);

    td::Array level = td::empty(device, td::float32, {1000, 2});
    td::Array loud = td::empty(device, td::boolean, {1000, 2});
    td::elementwise(queue, "volts = samples * gain / 32768; level = sqrt(abs(volts)); loud = level > limit",
                    {{"samples", samples}, {"gain", gain}, {"limit", 0.1}, {"level", level}, {"loud", loud}});

    const std::vector<float> levels = td::to_vector<float>(queue, level);
    const std::vector<bool> louds = td::to_vector<bool>(queue, loud);
    std::cout << "the last level is " << levels.back() << (louds.back() ? ", which is loud\n" : ", which is not loud\n");
    const float expected = std::sqrt(1999 * 0.25F / 32768);
    return std::abs(levels.back() - expected) < 1e-6F && louds.back() && !louds.front() ? 0 : 1;
} catch (const td::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
