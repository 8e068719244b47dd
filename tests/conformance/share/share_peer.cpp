// The other process of the tests of sharing. Arrays are of int32.
//   share_peer double SOCKET SPEC             attaches what it is sent, doubles the elements, and ends; fails where they are not
//                                             their indices
//   share_peer serve SOCKET SPEC KIND COUNT   sends an array of its own whose elements are their indices; lives until it is
//   killed share_peer serve-handle SOCKET SPEC COUNT the same in memory of cuMemAlloc, behind elements that are not shared

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "channel.hpp"
#include "cuda_memory.hpp"
#include "tandem/tandem.hpp"

namespace td = tandem;

namespace {

std::vector<std::int32_t> indices(std::int64_t count) {
    std::vector<std::int32_t> elements(static_cast<std::size_t>(count));
    std::iota(elements.begin(), elements.end(), 0);
    return elements;
}

int double_elements(int socket, const std::string& spec) {
    const td::Device device = td::open_device(spec);
    td::Queue queue(device);
    const td::Array array = td::attach(device, td::test::receive_descriptor(socket));
    if (td::to_vector<std::int32_t>(queue, array) != indices(array.count())) {
        std::fprintf(stderr, "share_peer: the elements are not those that were shared\n");
        return 1;
    }
    td::twice(queue, array);
    queue.synchronize();
    return 0;
}

[[noreturn]] void serve(int socket, const td::Array& array) {
    td::Queue queue(array.device());
    const std::vector<std::int32_t> elements = indices(array.count());
    td::copy(queue, elements, array);
    queue.synchronize();
    td::test::send_descriptor(socket, td::share(array));
    for (;;)
        ::pause();
}

td::MemoryKind kind_named(const std::string& name) {
    for (const td::MemoryKind kind : {td::MemoryKind::device, td::MemoryKind::pinned, td::MemoryKind::shared}) {
        if (name == td::to_string(kind)) return kind;
    }
    throw std::runtime_error("no such kind");
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (arguments.size() < 3) return 2;
    const int socket = std::atoi(arguments[1].c_str());
    try {
        if (arguments[0] == "double") return double_elements(socket, arguments[2]);
        const td::Device device = td::open_device(arguments[2]);
        const std::int64_t count = std::atoll(arguments.back().c_str());
        if (arguments[0] == "serve") serve(socket, td::empty_shareable(device, td::int32, {count}, kind_named(arguments.at(3))));
        constexpr std::int64_t before = 4000;
        td::test::CudaDriver driver(device.info().index);
        const std::shared_ptr<void> memory = driver.allocate(static_cast<std::size_t>(before + count) * sizeof(std::int32_t));
        const auto address = reinterpret_cast<std::uint64_t>(memory.get()) + before * sizeof(std::int32_t);
        serve(socket, td::adopt_device_pointer(device, address, td::int32, {count}, {}, memory));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "share_peer: %s\n", error.what());
        return 1;
    }
}
