// Adds up .npy files of one dtype and shape that together need not fit the device: each is used in place, one after the other,
// and the sum is all that takes device memory.
//
//   mapped_files DEVICE_BYTES SUM.npy A.npy B.npy ...

#include <cstdlib>
#include <iostream>
#include <tandem/tandem.hpp>
namespace td = tandem;

int main(int argc, char** argv) try {
    if (argc < 4) {
        std::cerr << "usage: mapped_files DEVICE_BYTES SUM.npy A.npy B.npy ...\n";
        return 2;
    }
    td::Device device = td::open_device();
    td::Queue queue(device);

    td::Array sum = td::npy::load(device, argv[3]);
    if (sum.size_bytes() > std::strtoull(argv[1], nullptr, 10)) {
        std::cerr << "the sum alone takes " << sum.size_bytes() << " bytes\n";
        return 1;
    }
    // The page cache is the pinned memory. A file that the device can't use there is copied to other pinned memory.
    for (int i = 4; i < argc; ++i) {
        td::Array part = td::npy::map(device, argv[i], td::FileAccess::read, {.fallback = td::MemoryKind::pinned});
        td::add(queue, sum, part, sum);
        queue.synchronize();  // done with this file, whose pages may go
        std::cout << part.residency() << "\n";
    }
    td::npy::save(queue, sum, argv[2]);
} catch (const td::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
