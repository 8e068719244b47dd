// Doubles a .npy file of any dtype, in the device's memory and without a second array, and checks the result by adding.
//
//   double_file IN.npy OUT.npy

#include <algorithm>
#include <iostream>
#include <tandem/tandem.hpp>
namespace td = tandem;

int main(int argc, char** argv) try {
    if (argc != 3) {
        std::cerr << "usage: double_file IN.npy OUT.npy\n";
        return 2;
    }
    td::Device device = td::open_device();
    td::Queue queue(device);

    td::Array x = td::npy::load(device, argv[1]);
    td::twice(queue, x);  // in place; `double` is a keyword of C++
    td::npy::save(queue, x, argv[2]);

    // in + in is the same, bit for bit. Bytes are compared, so that this works for every dtype.
    td::Array in = td::npy::load(device, argv[1]);
    td::add(queue, in, in, in);
    td::npy::save(queue, in, std::string(argv[2]) + ".check.npy");
    const td::npy::File doubled = td::npy::File::open(argv[2]);
    const td::npy::File added = td::npy::File::open(std::string(argv[2]) + ".check.npy");
    std::filesystem::remove(added.mapping().path());  // what is mapped stays readable
    return std::ranges::equal(doubled.bytes(), added.bytes()) ? 0 : 1;
} catch (const td::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
