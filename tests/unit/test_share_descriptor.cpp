#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <numeric>

#include <tandem/share.hpp>
#include <tandem/tandem.hpp>

#include "../support/descriptor_bytes.hpp"
#include "child.hpp"
#include "core/share/descriptor.hpp"
#include "core/share/exporter.hpp"
#include "core/share/host_region.hpp"
#include "expect_error.hpp"

namespace tandem::test {

namespace {

namespace field = descriptor_field;
using Bytes = std::vector<std::byte>;

// An int32 array of shape (3, 4) at offset 16 of 100 bytes.
ShareDescriptor::State sample(ShareMethod method) {
    ShareDescriptor::State state;
    state.range.method = method;
    state.range.size_bytes = 100;
    state.range.base_offset_bytes = method == ShareMethod::ipc_handle ? 512 : 0;
    state.range.device_uuid = "00112233445566778899aabbccddeeff";
    state.range.handle[63] = std::byte{7};
    state.kind = MemoryKind::pinned;
    state.dtype = int32;
    state.shape = {3, 4};
    state.strides_bytes = {16, 4};
    state.offset_bytes = 16;
    state.exporter = {1234, 5678, 91011};
    state.memory_id = "ffeeddccbbaa99887766554433221100";
    return state;
}

Bytes bytes_of(ShareDescriptor::State state) {
    return ShareDescriptor(std::make_shared<ShareDescriptor::State>(std::move(state))).to_bytes();
}

int new_file() {
    return ::memfd_create("descriptor", MFD_ALLOW_SEALING);
}

ShareDescriptor read(const Bytes& bytes) {
    return ShareDescriptor::from_bytes(bytes, {new_file()});
}

template <class T>
Bytes with(Bytes bytes, std::size_t at, T value) {
    REQUIRE(at + sizeof value <= bytes.size());
    std::memcpy(bytes.data() + at, &value, sizeof value);
    make_consistent(bytes);
    return bytes;
}

bool is_open(int number) {
    return ::fcntl(number, F_GETFD) >= 0;
}

}  // namespace

TEST_CASE("share: a descriptor reads back as it was written") {
    for (const ShareMethod method : {ShareMethod::device_memory, ShareMethod::ipc_handle, ShareMethod::host_memory}) {
        CAPTURE(to_string(method));
        const Bytes bytes = bytes_of(sample(method));
        CHECK(bytes.size() == field::shape + 4 * sizeof(std::int64_t));
        Bytes again = bytes;
        make_consistent(again);  // with a checksum of its own
        CHECK(again == bytes);
        const int file = method == ShareMethod::ipc_handle ? -1 : new_file();
        {
            const ShareDescriptor descriptor =
                ShareDescriptor::from_bytes(bytes, file < 0 ? std::vector<int>() : std::vector<int>{file});
            CHECK(descriptor.method() == method);
            CHECK(descriptor.dtype() == int32);
            CHECK(descriptor.shape() == Shape{3, 4});
            CHECK(descriptor.strides_bytes() == Strides{16, 4});
            CHECK(descriptor.offset_bytes() == 16);
            CHECK(descriptor.size_bytes() == 100);
            CHECK(descriptor.kind() == MemoryKind::pinned);
            CHECK(descriptor.is_writable());
            CHECK(descriptor.exporter_pid() == 1234);
            CHECK(descriptor.device_uuid() == "00112233445566778899aabbccddeeff");
            CHECK(descriptor.memory_id() == "ffeeddccbbaa99887766554433221100");
            CHECK(descriptor.state().exporter == ProcessIdentity{1234, 5678, 91011});
            CHECK(descriptor.state().range.base_offset_bytes == (method == ShareMethod::ipc_handle ? 512 : 0));
            CHECK(descriptor.state().range.handle[63] == std::byte{7});
            CHECK(descriptor.to_bytes() == bytes);
            const ShareDescriptor copy = descriptor;
            CHECK(copy.file_descriptors() == descriptor.file_descriptors());
            if (file >= 0) CHECK(descriptor.file_descriptors() == std::vector<int>{file});
        }
        if (file >= 0) CHECK(!is_open(file));
    }
}

TEST_CASE("share: a descriptor that was cut off or changed anywhere is refused") {
    const Bytes whole = bytes_of(sample(ShareMethod::host_memory));
    for (std::size_t size = 0; size < whole.size(); ++size) {
        CAPTURE(size);
        const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        expect_error(ErrorCode::bad_file, {"share descriptor", "needed"}, [&] { return read(cut); });
        Bytes consistent = cut;
        make_consistent(consistent);
        expect_error(ErrorCode::bad_file, {"share descriptor", "needed"}, [&] { return read(consistent); });
    }
    for (std::size_t at = 0; at < whole.size(); ++at) {
        CAPTURE(at);
        Bytes changed = whole;
        changed[at] ^= std::byte{0x10};
        const bool is_version = at >= field::version && at < field::length;
        expect_error(is_version ? ErrorCode::unsupported : ErrorCode::bad_file, {"share descriptor"},
                     [&] { return read(changed); });
    }
    Bytes longer = whole;
    longer.resize(whole.size() + 8);
    make_consistent(longer);
    expect_error(ErrorCode::bad_file, {"32 bytes needed for 2 dimensions, 40 found"}, [&] { return read(longer); });
    longer.resize(ShareDescriptor::max_bytes + 1);
    expect_error(ErrorCode::bad_file, {"4096 needed at most, 4097 found"}, [&] { return read(longer); });
}

TEST_CASE("share: every forged field of a descriptor is refused") {
    const Bytes whole = bytes_of(sample(ShareMethod::host_memory));
    const auto refuses = [&](std::size_t at, auto value, std::initializer_list<std::string_view> parts,
                             ErrorCode code = ErrorCode::bad_file) {
        CAPTURE(at);
        expect_error(code, parts, [&] { return read(with(whole, at, value)); });
    };
    using U8 = std::uint8_t;
    using U64 = std::uint64_t;
    using I64 = std::int64_t;
    refuses(field::version, std::uint32_t{1}, {"version 2 needed, 1 found"}, ErrorCode::unsupported);
    refuses(field::method, U8{3}, {"share method", "3 found"});
    refuses(field::kind, U8{4}, {"memory kind", "4 found"});
    refuses(field::dtype, static_cast<U8>(dtype_count), {"dtype"});
    refuses(field::writable, U8{2}, {"writable", "2 found"});
    refuses(field::has_uuid, U8{255}, {"UUID", "255 found"});
    refuses(field::has_uuid, U8{0}, {"no UUID needed"});
    refuses(field::pid, std::int32_t{-1}, {"pid"});
    refuses(field::size_bytes, U64{63}, {"bytes 16 to 64 needed, 0 to 63 found"});
    refuses(field::size_bytes, U64{15}, {"offset of the array", "15 needed at most, 16 found"});
    refuses(field::size_bytes, UINT64_MAX, {"bytes of the range"});
    refuses(field::base_offset_bytes, U64{1}, {"offset of the range", "0 needed at most, 1 found"});
    refuses(field::offset_bytes, U64{53}, {"bytes 53 to 101 needed, 0 to 100 found"});
    refuses(field::offset_bytes, UINT64_MAX, {"offset of the array"});
    refuses(field::dimensions, U8{1}, {"16 bytes needed for 1 dimensions, 32 found"});
    refuses(field::dimensions, U8{65}, {"64 needed at most, 65 found"});
    refuses(field::shape, I64{-1}, {"share descriptor"});
    refuses(field::shape, I64{7}, {"bytes 16 to 128 needed"});
    refuses(field::shape, INT64_MAX, {"share descriptor"});
    refuses(field::shape + 16, I64{-16}, {"bytes -16 to 32 needed"});
    refuses(field::shape + 16, INT64_MIN, {"needed, 0 to 100 found"});
    refuses(field::shape + 24, INT64_MAX, {"needed, 0 to 100 found"});
    // What is legal reads: negative strides inside the range, overlapping elements.
    CHECK(read(with(with(whole, field::offset_bytes, U64{48}), field::shape + 16, I64{-16})).offset_bytes() == 48);
    CHECK(read(with(whole, field::shape + 16, I64{0})).strides_bytes() == Strides{0, 4});

    Bytes handle = bytes_of(sample(ShareMethod::ipc_handle));
    for (const U64 base : {UINT64_MAX, U64{1} << 63U, (U64{1} << 63U) - 1}) {
        expect_error(ErrorCode::bad_file, {"of the range"},
                     [&] { return ShareDescriptor::from_bytes(with(handle, field::base_offset_bytes, base), {}); });
    }
}

TEST_CASE("share: the file descriptors are as many as the method has, and closed where they are refused") {
    const Bytes host = bytes_of(sample(ShareMethod::host_memory));
    const Bytes handle = bytes_of(sample(ShareMethod::ipc_handle));
    expect_error(ErrorCode::invalid_argument, {"1 file descriptors needed, 0 found"},
                 [&] { return ShareDescriptor::from_bytes(host, {}); });
    std::array<int, 2> files{new_file(), new_file()};
    expect_error(ErrorCode::invalid_argument, {"1 file descriptors needed, 2 found"}, [&] {
        return ShareDescriptor::from_bytes(host, {files[0], files[1]});
    });
    CHECK(!is_open(files[0]));
    CHECK(!is_open(files[1]));
    files[0] = new_file();
    expect_error(ErrorCode::invalid_argument, {"0 file descriptors needed, 1 found"},
                 [&] { return ShareDescriptor::from_bytes(handle, {files[0]}); });
    CHECK(!is_open(files[0]));
    files[0] = new_file();
    expect_error(ErrorCode::bad_file, {}, [&] { return ShareDescriptor::from_bytes({}, {files[0]}); });
    CHECK(!is_open(files[0]));
    expect_error(ErrorCode::invalid_argument, {"no open file descriptor"},
                 [&] { return ShareDescriptor::from_bytes(host, {files[0]}); });
}

TEST_CASE("share: a handle of another library takes the array's own bytes out of the allocation") {
    std::array<std::byte, 64> handle{};
    handle[0] = std::byte{1};
    const auto make = [&](std::size_t offset, std::size_t allocation, Shape shape, std::optional<Strides> strides) {
        return ShareDescriptor::from_cuda_ipc_handle({.handle = handle,
                                                      .offset_bytes = offset,
                                                      .allocation_bytes = allocation,
                                                      .device_uuid = "00112233-4455-6677-8899-AABBCCDDEEFF"},
                                                     float32, std::move(shape), strides);
    };
    const ShareDescriptor dense = make(512, 1024, {128}, {});
    CHECK(dense.size_bytes() == 512);
    CHECK(dense.offset_bytes() == 0);
    CHECK(dense.state().range.base_offset_bytes == 512);
    CHECK(dense.device_uuid() == "00112233445566778899aabbccddeeff");
    CHECK(dense.exporter_pid() == 0);
    const ShareDescriptor reversed = make(512, 1024, {3, 2}, Strides{-64, 8});
    CHECK(reversed.size_bytes() == 128 + 8 + 4);
    CHECK(reversed.offset_bytes() == 128);
    CHECK(reversed.state().range.base_offset_bytes == 384);
    const ShareDescriptor again = ShareDescriptor::from_bytes(reversed.to_bytes(), {});
    CHECK(again.strides_bytes() == Strides{-64, 8});
    CHECK(make(0, 0, {0}, {}).size_bytes() == 0);
    expect_error(ErrorCode::out_of_range, {"516 to 1028 needed, 0 to 1024 found"}, [&] { return make(516, 1024, {128}, {}); });
    expect_error(ErrorCode::out_of_range, {"needed"}, [&] { return make(0, 0, {2}, Strides{-8}); });
    expect_error(ErrorCode::invalid_argument, {"1 strides for 2 dimensions"}, [&] { return make(0, 0, {2, 2}, Strides{8}); });
    expect_error(ErrorCode::invalid_argument, {"32 hexadecimal digits needed"},
                 [&] { return ShareDescriptor::from_cuda_ipc_handle({.handle = handle, .device_uuid = "GPU-1"}, float32, {1}); });
}

TEST_CASE("share: a process is told from a later one with its number, and its end is noticed") {
    const ProcessIdentity self = own_identity();
    CHECK(self.pid == ::getpid());
    CHECK(self.start_time != 0);
    CHECK(self.pid_namespace != 0);
    CHECK(find_process(self.pid) == self);
    CHECK(is_same(unpacked(packed(self)), self));
    Exporter(self).check();
    expect_error(ErrorCode::unavailable, {std::to_string(self.pid), "has ended"}, [&] {
        return Exporter({self.pid, self.start_time + 1, self.pid_namespace});
    });
    // What a number means in another namespace can't be told from here.
    for (const std::uint32_t elsewhere : {0U, self.pid_namespace + 1}) {
        Exporter({self.pid, self.start_time + 1, elsewhere}).check();
        CHECK_FALSE(is_same({self.pid, self.start_time, elsewhere}, self));
    }

    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::close(ends[1]);
        char byte = 0;
        const ssize_t count = ::read(ends[0], &byte, 1);  // until the parent closes its end
        ::_exit(count == 0 ? 0 : 1);
    }
    ::close(ends[0]);
    const ProcessIdentity process{child, 0, self.pid_namespace};
    const Exporter exporter(process);
    exporter.check();
    ::close(ends[1]);
    siginfo_t info{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
    // It has ended, though its parent does not know yet.
    expect_error(ErrorCode::unavailable, {std::to_string(child), "has ended"}, [&] {
        exporter.check();
        return 0;
    });
    CHECK(!find_process(child));
    ::waitpid(child, nullptr, 0);
    expect_error(ErrorCode::unavailable, {"has ended"}, [&] {
        exporter.check();
        return 0;
    });
    expect_error(ErrorCode::unavailable, {"has ended"}, [&] { return Exporter(process); });
}

TEST_CASE("share: host memory can't shrink under those who map it") {
    const auto region = HostRegion::make(10'000);
    CHECK(region->size_bytes() == 10'000);
    const FileDescriptor given = region->give_out(true);
    CHECK(region->is_same_file(given.number()));
    CHECK(::ftruncate(given.number(), 0) != 0);
    CHECK(::ftruncate(given.number(), 1 << 20) != 0);
    CHECK(::fcntl(given.number(), F_ADD_SEALS, F_SEAL_WRITE) != 0);
    const auto other = HostRegion::attach(given.number(), 10'000, true);
    region->data()[9999] = std::byte{5};
    CHECK(other->data()[9999] == std::byte{5});
    CHECK(other->data() != region->data());
    // For reading alone, after it was given out to write.
    const FileDescriptor read_only = region->give_out(false);
    CHECK(HostRegion::attach(read_only.number(), 10'000, false)->data()[9999] == std::byte{5});
    expect_error(ErrorCode::bad_file, {"to write to needed"},
                 [&] { return HostRegion::attach(read_only.number(), 10'000, true); });

    const auto sealed = HostRegion::make(1);
    const FileDescriptor first = sealed->give_out(false);
    const std::string path = "/proc/self/fd/" + std::to_string(first.number());
    const FileDescriptor reopened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    REQUIRE(reopened.is_open());
    expect_error(ErrorCode::bad_file, {"to write to needed"}, [&] { return HostRegion::attach(reopened.number(), 1, true); });
    sealed->data()[0] = std::byte{9};  // the exporter still may
    CHECK(HostRegion::attach(first.number(), 1, false)->data()[0] == std::byte{9});
    expect_error(ErrorCode::out_of_memory, {"available"}, [&] { return HostRegion::make(std::size_t{1} << 60U); });
}

}  // namespace tandem::test
