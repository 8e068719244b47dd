// Fuzzes the reader of share descriptors, and what attaching them does with host memory: libFuzzer's entry, also driven by
// run_inputs.cpp.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <tandem/error.hpp>
#include <tandem/share.hpp>

#include "../support/descriptor_bytes.hpp"

namespace td = tandem;

namespace {

constexpr std::size_t file_bytes = 4096;

void require(bool holds, const char* what) {
    if (!holds) {
        std::fprintf(stderr, "broken: %s\n", what);
        std::abort();
    }
}

void check_error(const td::Error& error) {
    const std::string message = error.what();
    require(error.code() == td::ErrorCode::bad_file || error.code() == td::ErrorCode::unsupported ||
                error.code() == td::ErrorCode::invalid_argument || error.code() == td::ErrorCode::unavailable,
            "the code is that of a descriptor's fault, or of the machine");
    require(message.size() < 4096, "the message is short");
    require(std::none_of(message.begin(), message.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }),
            "the message is printable");
}

// A page that others can have, as an exporter makes it.
int shared_file() {
    const int file = ::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    require(::ftruncate(file, file_bytes) == 0 && ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0,
            "there is a page");
    return file;
}

void read_all(const td::Array& array) {
    if (array.count() > 4096 || !array.is_dense(td::Order::c)) return;
    const td::Array bytes = array.reshape({-1}).view_as(td::uint8);
    const auto view = bytes.map<std::uint8_t>(td::Access::read);
    std::size_t sum = 0;
    for (const std::uint8_t byte : view)
        sum += byte;
    require(sum <= view.size() * 255, "every byte can be read");
}

void attach(const std::vector<std::byte>& bytes, int file) {
    static const td::Device device = td::open_device("host");
    try {
        std::vector<int> files;
        if (file >= 0) files.push_back(::fcntl(file, F_DUPFD_CLOEXEC, 0));
        const td::ShareDescriptor descriptor = td::ShareDescriptor::from_bytes(bytes, std::move(files));
        require(descriptor.to_bytes() == bytes, "what is read is what was written");
        const td::Array array = td::attach(device, descriptor);
        require(descriptor.size_bytes() <= file_bytes, "no more is attached than there is");
        require(array.shape() == descriptor.shape(), "the array is the one described");
        read_all(array);
    } catch (const td::Error& error) {
        check_error(error);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const int file = shared_file();
    std::vector<std::byte> bytes(size);
    std::transform(data, data + size, bytes.begin(), [](std::uint8_t byte) { return std::byte{byte}; });
    attach(bytes, file);
    // With a checksum that is right, so that what lies behind it is reached.
    td::test::make_consistent(bytes);
    attach(bytes, file);
    attach(bytes, -1);
    return 0;
}
