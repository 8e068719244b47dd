// Shows every device there is, opens one, and lets it compute.
//
//   choose_backend            the best device, or the one that TANDEM_DEVICE names
//   choose_backend opencl     the first device of a backend; "opencl:1" and "opencl:nvidia" name others

#include <iostream>
#include <tandem/tandem.hpp>
namespace td = tandem;

int main(int argc, char** argv) try {
    for (const td::BackendInfo& backend : td::list_backends()) {
        if (backend.devices.empty()) {
            std::cout << backend.name << ": not available: " << backend.reason << "\n";
        }
        for (const td::DeviceInfo& device : backend.devices) {
            std::cout << device.spec << ": " << device.name << ", " << device.memory_bytes << " bytes\n";
        }
    }

    // A device that is named but not there is an error: nothing else is opened in its place.
    td::Device device = td::open_device(argc > 1 ? argv[1] : "");
    std::cout << "opened " << device.spec() << "\n";

    // The same lines run on every backend.
    td::Queue queue(device);
    const std::vector<float> numbers{1, 2, 3};
    td::Array x = td::empty(device, td::float32, {3});
    td::copy(queue, numbers, x);
    td::twice(queue, x);
    return td::to_vector<float>(queue, x) == std::vector<float>{2, 4, 6} ? 0 : 1;
} catch (const td::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
