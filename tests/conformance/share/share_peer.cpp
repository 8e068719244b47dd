// The other process of the tests of sharing. Arrays are of int32.
//   share_peer double SOCKET SPEC             attaches what it is sent, doubles the elements, and ends; fails where they are not
//                                             their indices
//   share_peer serve SOCKET SPEC KIND COUNT   sends an array of its own whose elements are their indices; lives until it is
//                                             killed
//   share_peer serve-handle SOCKET SPEC COUNT the same in memory of cuMemAlloc, behind elements that are not shared
// Those of tests/share/array_libraries.py, whose other side is no tandem:
//   share_peer take-handle PID SPEC HANDLE OFFSET COUNT  as `double`, by a CUDA IPC handle of process PID in hexadecimal digits
//   share_peer give-handle 0 SPEC COUNT       as `serve-handle`, but prints HANDLE and OFFSET, and after a line of standard input
//                                             wants the elements doubled

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "../../support/descriptor_bytes.hpp"
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

int double_elements(const td::ShareDescriptor& descriptor, const std::string& spec) {
    const td::Device device = td::open_device(spec);
    td::Queue queue(device);
    const td::Array array = td::attach(device, descriptor);
    if (td::to_vector<std::int32_t>(queue, array) != indices(array.count())) {
        std::fprintf(stderr, "share_peer: the elements are not those that were shared\n");
        return 1;
    }
    td::twice(queue, array);
    queue.synchronize();
    return 0;
}

void put_indices(const td::Array& array) {
    td::Queue queue(array.device());
    const std::vector<std::int32_t> elements = indices(array.count());
    td::copy(queue, elements, array);
    queue.synchronize();
}

td::ShareDescriptor descriptor_of_handle(const std::vector<std::string>& arguments) {
    std::array<std::byte, 64> handle{};
    for (std::size_t i = 0; i < handle.size(); ++i)
        handle[i] = static_cast<std::byte>(std::stoul(arguments.at(3).substr(2 * i, 2), nullptr, 16));
    return td::ShareDescriptor::from_cuda_ipc_handle(
        {.handle = handle, .offset_bytes = std::stoull(arguments.at(4)), .exporter_pid = std::stoi(arguments.at(1))}, td::int32,
        {std::stoll(arguments.at(5))});
}

int give_handle(const td::Array& array) {
    put_indices(array);
    const std::vector<std::byte> bytes = td::share(array).to_bytes();
    for (std::size_t i = 0; i < 64; ++i)
        std::printf("%02x", std::to_integer<unsigned>(bytes[td::test::descriptor_field::handle + i]));
    std::uint64_t offset_bytes = 0;
    std::memcpy(&offset_bytes, bytes.data() + td::test::descriptor_field::base_offset_bytes, sizeof offset_bytes);
    std::printf(" %llu\n", static_cast<unsigned long long>(offset_bytes));
    std::fflush(stdout);
    if (std::getchar() == EOF) return 1;
    std::vector<std::int32_t> expected = indices(array.count());
    for (std::int32_t& element : expected)
        element *= 2;
    td::Queue queue(array.device());
    if (td::to_vector<std::int32_t>(queue, array) == expected) return 0;
    std::fprintf(stderr, "share_peer: the elements are not doubled\n");
    return 1;
}

[[noreturn]] void serve(int socket, const td::Array& array) {
    put_indices(array);
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
        if (arguments[0] == "double") return double_elements(td::test::receive_descriptor(socket), arguments[2]);
        if (arguments[0] == "take-handle") return double_elements(descriptor_of_handle(arguments), arguments[2]);
        const td::Device device = td::open_device(arguments[2]);
        const std::int64_t count = std::atoll(arguments.back().c_str());
        if (arguments[0] == "serve") serve(socket, td::empty_shareable(device, td::int32, {count}, kind_named(arguments.at(3))));
        constexpr std::int64_t before = 4000;
        td::test::CudaDriver driver(device.info().index);
        const std::shared_ptr<void> memory = driver.allocate(static_cast<std::size_t>(before + count) * sizeof(std::int32_t));
        const auto address = reinterpret_cast<std::uint64_t>(memory.get()) + before * sizeof(std::int32_t);
        const td::Array array = td::adopt_device_pointer(device, address, td::int32, {count}, {}, memory);
        if (arguments[0] == "give-handle") return give_handle(array);
        serve(socket, array);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "share_peer: %s\n", error.what());
        return 1;
    }
}
