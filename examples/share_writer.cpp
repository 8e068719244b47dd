// One process fills an array that others have attached: share_writer DEVICE NAME ROUNDS [pinned]; see
// share_reader.cpp.

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <tandem/tandem.hpp>
namespace td = tandem;

int main(int argc, char** argv) try {
    if (argc != 4 && argc != 5) return 2;
    const td::MemoryKind kind = argc == 5 ? td::MemoryKind::pinned : td::MemoryKind::device;
    const std::uint64_t rounds = std::strtoull(argv[3], nullptr, 10);
    td::Device device = td::open_device(argv[1]);
    td::Queue queue(device);
    td::Array x = td::empty_shareable(device, td::float32, {1000}, kind);
    std::ranges::fill(x.map<float>(td::Access::write), 1.0F);

    td::SharedFence written = td::SharedFence::create();
    td::SharedFence read = td::SharedFence::create();
    td::Publisher publisher(argv[2]);
    publisher.add(x, written);
    publisher.add(x, read, "back");
    std::cout << x.residency() << std::endl;

    for (std::uint64_t round = 1; round <= rounds; ++round) {
        td::twice(queue, x);
        written.signal(queue, round);  // when the queue has come this far; the call does not wait
        read.wait(queue, round);       // what is submitted from here on comes after the reader's work
    }
} catch (const td::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
