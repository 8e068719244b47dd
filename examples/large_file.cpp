// Doubles a file of any size chunk by chunk, and sums what comes out, in memory that does not grow with the file.
//
//   large_file IN.npy OUT.npy        (of float32)

#include <iostream>
#include <tandem/tandem.hpp>
namespace td = tandem;

int main(int argc, char** argv) try {
    if (argc != 3) {
        std::cerr << "usage: large_file IN.npy OUT.npy\n";
        return 2;
    }
    td::Device device = td::open_device();
    td::Queue queue(device);

    td::StreamInput in(argv[1]);
    td::Reduction total(device, td::ReduceOp::sum, td::float32);
    td::StreamOptions options;
    options.memory_bytes = std::size_t{256} << 20U;  // of the device and of pinned memory together
    td::stream(
        queue, {&in, 1}, {argv[2], td::float32},
        [&](td::Queue& q, std::span<const td::Array> chunk, const td::Array& out) {
            td::twice(q, chunk[0], out);
            total.add(q, out);
        },
        options);
    std::cout << "sum: " << td::item<float>(queue, total.result(queue)) << "\n";

    td::Array rows = td::npy::load(device, argv[1], {.ranges = {{100, 200}}});  // reads these alone
    std::cout << rows.count() << " of them loaded\n";
    return 0;
} catch (const td::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
}
