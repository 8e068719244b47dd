// CUDA IPC handles, for memory that other libraries allocated.

#include "share/cuda_memory.hpp"
#include "share_support.hpp"

namespace tandem::test {

namespace {

// The other kinds have nothing to do with it.
bool is_cuda() {
    return device().info().backend == "cuda" && options().kind == MemoryKind::device;
}

}  // namespace

TEST_CASE("only devices whose memory has addresses adopt one") {
    if (device().info().backend == "cuda") {
        std::vector<std::int32_t> on_host(100);
        CHECK_ERROR(ErrorCode::invalid_argument, "no memory of a CUDA device",
                    (void)adopt_device_pointer(device(), reinterpret_cast<std::uint64_t>(on_host.data()), int32, {100}));
    } else {
        CHECK_ERROR(ErrorCode::unsupported, "adopt_device_pointer", (void)adopt_device_pointer(device(), 4096, int32, {100}));
    }
    CHECK(adopt_device_pointer(device(), 0, int32, {0}).count() == 0);
    CHECK_ERROR(ErrorCode::out_of_range, "needed", (void)adopt_device_pointer(device(), 4, int32, {2}, Strides{-8}));
}

TEST_CASE("handles are for CUDA devices") {
    if (device().info().backend == "cuda") return;
    const std::array<std::byte, 64> handle{};
    const ShareDescriptor descriptor = ShareDescriptor::from_cuda_ipc_handle({.handle = handle}, int32, {10});
    CHECK_ERROR(ErrorCode::unsupported, device().spec(), (void)attach(device(), descriptor));
}

TEST_CASE("memory of others is adopted, and shared by its handle") {
    if (!is_cuda()) return;
    CudaDriver driver(device().info().index);
    const std::shared_ptr<void> memory = driver.allocate(20'000);
    const auto address = reinterpret_cast<std::uint64_t>(memory.get());
    const Array array = adopt_device_pointer(device(), address + 4000, int32, {4000}, {}, memory);
    put_indices(array);
    const ShareDescriptor descriptor = share(array);
    CHECK(descriptor.method() == ShareMethod::ipc_handle);
    CHECK(attach(device(), forged(descriptor)).memory() == array.memory());
    const Array read_only = attach(device(), forged(share(array, {.is_writable = false})));
    CHECK(elements(read_only) == indices(4000));
    CHECK_ERROR(ErrorCode::invalid_argument, "read-only", double_now(read_only));

    SharePeer peer({"double", options().device});
    send_descriptor(peer.socket(), descriptor);
    CHECK(peer.wait() == 0);
    CHECK(elements(array) == multiplied(indices(4000), 2));

    // A handle that this process does not know for its own.
    CHECK_ERROR(ErrorCode::unsupported, "adopt_device_pointer",
                (void)attach(device(), forged(descriptor, [](auto& state) { state.memory_id = random_id(); })));
    CHECK_ERROR(ErrorCode::out_of_range, "found up to the end", (void)adopt_device_pointer(device(), address, int32, {1 << 28}));
    const std::shared_ptr<void> managed = driver.allocate_managed(4000);
    const Array moving =
        adopt_device_pointer(device(), reinterpret_cast<std::uint64_t>(managed.get()), int32, {1000}, {}, managed);
    CHECK_ERROR(ErrorCode::unsupported, "managed", (void)share(moving));
}

TEST_CASE("the end of a handle's exporter is reported before the next use") {
    if (!is_cuda()) return;
    SharePeer peer({"serve-handle", options().device, "5000"});
    const ShareDescriptor descriptor = receive_descriptor(peer.socket());
    CHECK(descriptor.method() == ShareMethod::ipc_handle);
    const Array array = attach(device(), descriptor);
    CHECK(elements(array) == indices(5000));
    CHECK(attach(device(), descriptor).memory() == array.memory());
    const Array second = attach(device(), forged(descriptor, [](auto& state) { state.memory_id = random_id(); }));
    CHECK(second.memory() != array.memory());
    CHECK(second.memory()->address() == array.memory()->address());

    const auto attach_forged = [&](const std::function<void(ShareDescriptor::State&)>& change) {
        (void)attach(device(), forged(descriptor, [&](ShareDescriptor::State& state) {
                         state.memory_id = random_id();
                         change(state);
                     }));
    };
    CHECK_ERROR(ErrorCode::bad_file, "found", attach_forged([](auto& state) {
                    state.range.size_bytes = std::size_t{1} << 40U;
                    state.shape = {std::int64_t{1} << 38U};
                }));
    CHECK_ERROR(ErrorCode::bad_file, "found",
                attach_forged([](auto& state) { state.range.base_offset_bytes = std::size_t{1} << 40U; }));
    CHECK_ERROR(ErrorCode::unavailable, "no GPU with UUID",
                attach_forged([](auto& state) { state.range.device_uuid = "0123456789abcdef0123456789abcdef"; }));
    CHECK_ERROR(ErrorCode::unavailable, "has ended", attach_forged([](auto& state) { ++state.exporter.start_time; }));
    CHECK_ERROR(ErrorCode::unsupported, "only that process", (void)share(array));
    CHECK(elements(array) == indices(5000));

    peer.kill();
    CHECK_ERROR(ErrorCode::unavailable, std::to_string(descriptor.exporter_pid()), double_now(array));
    CHECK_ERROR(ErrorCode::unavailable, "has ended", (void)array.map<std::int32_t>(Access::read));
    CHECK_ERROR(ErrorCode::unavailable, "has ended", attach_forged([](auto&) {}));
    const Array other = make_array(int32, {100});  // the device goes on
    put_indices(other);
    CHECK(elements(other) == indices(100));
}

}  // namespace tandem::test
