// One array, had twice: by a descriptor as another process would have it, and on another device, where one is named.
//
//   shared_memory [DEVICE]

#include <unistd.h>
#include <iostream>
#include <tandem/tandem.hpp>
namespace td = tandem;

int main(int argc, char** argv) try {
    td::Device device = td::open_device();
    td::Queue queue(device);

    td::Array a = td::npy::load(device, "a.npy", {.shareable = true});  // or empty_shareable(device, dtype, shape)
    td::ShareDescriptor descriptor = td::share(a);

    // To another process these go over a Unix-domain socket: the bytes as data, the file descriptors by SCM_RIGHTS.
    std::vector<std::byte> bytes = descriptor.to_bytes();
    std::vector<int> files = descriptor.file_descriptors();
    for (int& file : files)
        file = ::dup(file);  // from_bytes takes them over, as the other process's own

    td::Array b = td::attach(device, td::ShareDescriptor::from_bytes(bytes, files));  // the same bytes: nothing is copied
    td::Array c = a.on(td::open_device(argc > 1 ? argv[1] : device.spec()));          // and so are these

    td::twice(queue, b);
    queue.synchronize();
    td::Queue others(c.device());
    std::vector<float> seen = td::to_vector<float>(others, c);
    for (std::size_t i = 0; i < seen.size(); ++i) {
        if (seen[i] != 2.0f * static_cast<float>(i)) return 1;
    }
    std::cout << descriptor.size_bytes() << " bytes of " << td::to_string(descriptor.method()) << ": " << c.residency() << "\n";
} catch (const td::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
