// Another process reads what share_writer.cpp writes, in the same memory: share_reader DEVICE NAME ROUNDS.

#include <cstdlib>
#include <iostream>
#include <tandem/tandem.hpp>
namespace td = tandem;

int main(int argc, char** argv) try {
    if (argc != 4) return 2;
    const std::uint64_t rounds = std::strtoull(argv[3], nullptr, 10);
    td::Device device = td::open_device(argv[1]);
    td::Queue queue(device);
    auto [x, written] = td::attach_with_fence(device, argv[2]);
    td::SharedFence read = td::attach_with_fence(device, std::string(argv[2]) + "/back").fence;
    read.become_signaller();  // from here on the writer is told if this process ends
    std::cout << x.residency() << std::endl;

    float expected = 1;
    for (std::uint64_t round = 1; round <= rounds; ++round) {
        written.wait(queue, round);
        expected *= 2;
        if (td::item<float>(queue, td::min(queue, x)) != expected || td::item<float>(queue, td::max(queue, x)) != expected) {
            std::cerr << "round " << round << ": not " << expected << "\n";
            return 1;
        }
        read.signal(queue, round);
    }
} catch (const td::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
