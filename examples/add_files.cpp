// Adds two .npy files of one dtype and shape into a third, and checks one element.
//
//   add_files A.npy B.npy SUM.npy

#include <iostream>
#include <tandem/tandem.hpp>
namespace td = tandem;

int main(int argc, char** argv) try {
    if (argc != 4) {
        std::cerr << "usage: add_files A.npy B.npy SUM.npy\n";
        return 2;
    }
    td::Device device = td::open_device();
    td::Queue queue(device);
    td::Array a = td::npy::load(device, argv[1]);
    td::Array b = td::npy::load(device, argv[2]);

    td::Array sum = td::empty_like(a);
    td::add(queue, a, b, sum);  // throws where dtypes or shapes differ, naming both
    td::npy::save(queue, sum, argv[3]);

    // What was written is read again: the last elements must add up.
    td::Array written = td::npy::load(device, argv[3]);
    if (written.dtype() != td::float32 || written.count() == 0) return 0;
    const auto last = [&queue](const td::Array& array) { return td::to_vector<float>(queue, array).back(); };
    return last(written) == last(a) + last(b) ? 0 : 1;
} catch (const td::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
