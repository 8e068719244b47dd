#include <sys/mman.h>

#include <filesystem>
#include <thread>

#include "share_support.hpp"

namespace tandem::test {

TEST_CASE("what is attached in the sharing process is the shared memory itself") {
    if (!is_shareable_here()) return;
    for (const std::int64_t size : {1, 7, 257, 100'003}) {
        CAPTURE(size);
        const Array array = shared_indices(size);
        CHECK(array.kind() == shareable_kind());
        const ShareDescriptor descriptor = share(array);
        CHECK(descriptor.exporter_pid() == ::getpid());
        CHECK(descriptor.size_bytes() == array.size_bytes());
        CHECK(descriptor.is_writable());
        CHECK(descriptor.memory_id() == share(array.slice(0, 0, 1)).memory_id());
        const Array attached = attach(device(), forged(descriptor));
        CHECK(attached.memory() == array.memory());
        CHECK(attached.shape() == array.shape());
        double_now(attached);
        CHECK(elements(array) == multiplied(indices(size), 2));
    }
}

TEST_CASE("a shared view keeps its dtype, shape, strides and offset") {
    if (!is_shareable_here()) return;
    for (const DType dtype : all_dtypes) {
        if (!device().info().has_float64 && (dtype == float64 || dtype == complex128)) continue;
        CAPTURE(to_string(dtype));
        const Buffer buffer = shareable_buffer(device(), 35 * size_bytes(dtype) + 1, shareable_kind());
        const Array view = Array(buffer, dtype, {5, 7}, 1).slice(1, 6, 0, -2).transpose();
        const Array attached = attach(device(), forged(share(view)));
        CHECK(attached.dtype() == dtype);
        CHECK(attached.shape() == view.shape());
        CHECK(attached.strides_bytes() == view.strides_bytes());
        CHECK(attached.offset_bytes() == view.offset_bytes());
    }
}

TEST_CASE("arrays without elements are shared without memory") {
    const Array array = empty_shareable(device(), float32, {3, 0, 2}, shareable_kind());
    const ShareDescriptor descriptor = share(array);
    CHECK(descriptor.file_descriptors().empty());
    const Array attached = attach(device(), ShareDescriptor::from_bytes(descriptor.to_bytes(), {}));
    CHECK(attached.shape() == array.shape());
    CHECK(attached.count() == 0);
    CHECK(attached.on(device()).count() == 0);
}

TEST_CASE("importers of what is shared for reading alone can't write") {
    if (!is_shareable_here()) return;
    const Array array = shared_indices(1000);
    const ShareDescriptor descriptor = share(array, {.is_writable = false});
    CHECK(!descriptor.is_writable());
    const Array attached = attach(device(), forged(descriptor));
    double_now(array);
    CHECK(elements(attached) == multiplied(indices(1000), 2));
    CHECK_ERROR(ErrorCode::invalid_argument, "read-only", double_now(attached));
    CHECK_ERROR(ErrorCode::invalid_argument, "read-only", (void)share(attached));
    CHECK(elements(array) == multiplied(indices(1000), 2));
    if (descriptor.method() != ShareMethod::host_memory) return;
    // Also one who says that it may be written to.
    CHECK_ERROR(ErrorCode::bad_file, "to write to needed", (void)attach(device(), forged(descriptor, [](auto& state) {
                                                                            state.range.is_writable = true;
                                                                            state.memory_id = random_id();
                                                                        })));
    CHECK_ERROR(ErrorCode::invalid_argument, "shared for reading alone before", (void)share(array));
}

TEST_CASE("memory that others can't have says which it is and what to use instead") {
    const Array array = make_array(float32, {100});
    CHECK_ERROR(ErrorCode::unsupported, "empty_shareable", (void)share(array));
    CHECK_ERROR(ErrorCode::unsupported, to_string(array.kind()).data(), (void)share(array));
    CHECK_ERROR(ErrorCode::invalid_argument, "adopted", (void)empty_shareable(device(), float32, {100}, MemoryKind::adopted));
}

TEST_CASE("arrays are loaded into shareable memory") {
    if (!is_shareable_here()) return;
    const std::filesystem::path path = std::filesystem::temp_directory_path() / ("tandem-share-" + std::to_string(::getpid()));
    {
        Queue queue(open_device("host"));
        const Array array = empty(queue.device(), int32, {3000});
        put_indices(array);
        npy::save(queue, array, path);
    }
    const Array array = npy::load(device(), path, {.kind = shareable_kind(), .shareable = true});
    const Array raw = raw::load(device(), path, uint8, {}, 0, {.kind = shareable_kind(), .shareable = true});
    std::filesystem::remove(path);
    CHECK(elements(attach(device(), share(array))) == indices(3000));
    CHECK(share(raw).size_bytes() == raw.size_bytes());
}

TEST_CASE("an array is the same bytes on every device that reaches its memory") {
    if (!is_shareable_here()) return;
    const Array array = shared_indices(5000);
    CHECK(array.on(device()).memory() == array.memory());
    const bool is_host = share(array).method() == ShareMethod::host_memory;
    int reached = 0;
    std::int32_t factor = 1;
    for (const BackendInfo& backend : list_backends()) {
        for (const DeviceInfo& info : backend.devices) {
            if (info.spec == device().spec()) continue;
            CAPTURE(info.spec);
            const Device other = open_device(info.spec);
            const bool computes_on_host = info.backend == "host" || (info.type == DeviceType::cpu && info.shares_host_memory);
            const bool is_same_gpu = !info.uuid.empty() && info.uuid == device().info().uuid;
            const bool is_reached = is_host ? computes_on_host || info.backend == "cuda" : is_same_gpu;
            if (!is_reached) {
                const bool imports = info.backend == "opencl" && info.platform.find("NVIDIA") != std::string::npos;
                const ErrorCode code = !is_host && imports ? ErrorCode::unavailable : ErrorCode::unsupported;
                if (info.backend != "cuda") CHECK_ERROR(code, info.spec, (void)array.on(other));
                continue;
            }
            ++reached;
            const Array there = array.on(other);
            CHECK(there.device() == other);
            CHECK(elements(there) == multiplied(indices(5000), factor));
            double_now(there);
            factor *= 2;
            CHECK(elements(array) == multiplied(indices(5000), factor));
            const Array attached = attach(other, forged(share(array)));
            CHECK(elements(attached) == multiplied(indices(5000), factor));
            CHECK(array.on(other).memory() == there.memory());
        }
    }
    if (is_host && device().info().backend != "host") CHECK(reached >= 1);
}

TEST_CASE("memory of the host itself is the same bytes on another device that computes there") {
    if (!is_host_memory_native()) return;
    const Array array = make_array(int32, {1000});
    put_indices(array);
    if (array.memory()->host_address() == nullptr) return;
    const Array there = array.on(open_device("host"));
    double_now(there);
    CHECK(elements(array) == multiplied(indices(1000), 2));
}

TEST_CASE("another process works on the shared array itself") {
    if (!is_shareable_here()) return;
    const Array array = shared_indices(30'000);
    std::vector<std::string> specs{options().device};
    if (share(array).method() == ShareMethod::host_memory && device().info().backend != "host") specs.emplace_back("host");
    for (const std::string& spec : specs) {
        CAPTURE(spec);
        put_indices(array);
        SharePeer peer({"double", spec});
        send_descriptor(peer.socket(), share(array));
        CHECK(peer.wait() == 0);
        CHECK(elements(array) == multiplied(indices(30'000), 2));
    }
}

TEST_CASE("an importer goes on with the memory when the exporter is killed") {
    if (!is_shareable_here()) return;
    SharePeer peer({"serve", options().device, std::string(to_string(shareable_kind())), "20000"});
    const ShareDescriptor descriptor = receive_descriptor(peer.socket());
    const Array array = attach(device(), descriptor);
    CHECK(elements(array) == indices(20'000));
    const Array again = attach(device(), descriptor);
    CHECK(again.memory() == array.memory());
    peer.kill();
    CHECK(elements(array) == indices(20'000));
    double_now(array);
    CHECK(elements(array) == multiplied(indices(20'000), 2));
    // Also one who attaches only now.
    const ShareDescriptor shared_on = share(array);
    CHECK(elements(attach(device(), forged(shared_on, [](auto& state) { state.memory_id = random_id(); }))) ==
          multiplied(indices(20'000), 2));
}

TEST_CASE("a descriptor reaches no further than the memory that was shared") {
    if (!is_shareable_here()) return;
    const Array array = shared_indices(1000);
    const ShareDescriptor descriptor = share(array);
    const auto attach_forged = [&](const std::function<void(ShareDescriptor::State&)>& change) {
        (void)attach(device(), forged(descriptor, [&](ShareDescriptor::State& state) {
                         state.memory_id = random_id();
                         change(state);
                     }));
    };
    for (const std::size_t size : {std::size_t{1} << 30U, std::size_t{1} << 62U}) {
        CAPTURE(size);
        const auto grow = [&](ShareDescriptor::State& state) {
            state.range.size_bytes = size;
            state.shape = {static_cast<std::int64_t>(size / 4)};
        };
        CHECK_ERROR(ErrorCode::bad_file, "needed", attach_forged(grow));
        // Also where it has the name of memory that is here.
        CHECK_ERROR(ErrorCode::bad_file, "needed", (void)attach(device(), forged(descriptor, grow)));
    }
    const auto with_file = [&](int number) {
        return [number](ShareDescriptor::State& state) { state.file = FileDescriptor(number); };
    };
    std::array<int, 2> pipe_ends{};
    REQUIRE(::pipe(pipe_ends.data()) == 0);
    const FileDescriptor other_end(pipe_ends[1]);
    CHECK_ERROR(ErrorCode::bad_file, "needed", attach_forged(with_file(pipe_ends[0])));
    CHECK_ERROR(ErrorCode::bad_file, "needed", attach_forged(with_file(::open("/dev/null", O_RDWR))));
    CHECK_ERROR(ErrorCode::bad_file, "needed", attach_forged(with_file(::open("/dev/zero", O_RDWR))));
    CHECK_ERROR(ErrorCode::bad_file, "needed", attach_forged(with_file(::open("/proc/self/exe", O_RDONLY))));
    if (const int control = ::open("/dev/nvidiactl", O_RDWR); control >= 0)
        CHECK_ERROR(ErrorCode::bad_file, "needed", attach_forged(with_file(control)));
    const int unsealed = ::memfd_create("unsealed", MFD_ALLOW_SEALING);
    REQUIRE(::ftruncate(unsealed, 4000) == 0);
    const bool is_host = descriptor.method() == ShareMethod::host_memory;
    CHECK_ERROR(ErrorCode::bad_file, is_host ? "sealed against shrinking needed" : "needed", attach_forged(with_file(unsealed)));
    const int small = ::memfd_create("small", MFD_ALLOW_SEALING);
    REQUIRE(::ftruncate(small, 3999) == 0);
    REQUIRE(::fcntl(small, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    CHECK_ERROR(ErrorCode::bad_file, is_host ? "4000 bytes needed, 3999 found" : "needed", attach_forged(with_file(small)));
    CHECK(elements(array) == indices(1000));
}

TEST_CASE("shared memory that is here on two devices is one memory") {
    if (!is_shareable_here() || device().info().backend == "host") return;
    const Device host = open_device("host");
    const Array array = shared_indices(1000);
    const ShareDescriptor descriptor = share(array);
    if (descriptor.method() != ShareMethod::host_memory) return;
    std::vector<Array> attached(8);
    std::vector<std::thread> threads;
    for (Array& one : attached)
        threads.emplace_back([&] { one = attach(host, descriptor); });
    for (std::thread& thread : threads)
        thread.join();
    for (const Array& one : attached)
        CHECK(one.map<std::int32_t>(Access::read).data() == attached[0].map<std::int32_t>(Access::read).data());
    Queue queue(device());
    const Array last = attached[0].slice(0, 1, 1000), first = array.slice(0, 0, 999);
    CHECK_ERROR(ErrorCode::invalid_argument, "overlap in memory", copy(queue, first, last));
    CHECK_ERROR(ErrorCode::invalid_argument, "overlap in memory", copy(queue, last, first));
    copy(queue, array.slice(0, 0, 500), attached[0].slice(0, 500, 1000));
    queue.synchronize();
    CHECK(elements(array)[499] == elements(array)[999]);
}

TEST_CASE("device memory of another GPU is not attached") {
    if (!is_shareable_here()) return;
    const ShareDescriptor descriptor = share(shared_indices(10));
    if (descriptor.method() != ShareMethod::device_memory) return;
    const auto attach_as_of = [&](const std::string& uuid) {
        (void)attach(device(), forged(descriptor, [&](ShareDescriptor::State& state) {
                         state.memory_id = random_id();
                         state.range.device_uuid = uuid;
                     }));
    };
    const std::string nobodys = "0123456789abcdef0123456789abcdef";
    CHECK_ERROR(ErrorCode::unavailable, nobodys.c_str(), attach_as_of(nobodys));
    CHECK_ERROR(ErrorCode::unavailable, device().info().uuid.c_str(), attach_as_of(nobodys));
}

TEST_CASE("shared memory leaves no file descriptors behind") {
    if (!is_shareable_here()) return;
    const auto open_files = [] {
        const std::filesystem::directory_iterator files("/proc/self/fd");
        return std::distance(begin(files), end(files));
    };
    const auto turn = [] {
        const Array array = shared_indices(1000);
        const Array attached =
            attach(device(), forged(share(array), [](ShareDescriptor::State& state) { state.memory_id = random_id(); }));
        CHECK(elements(attached) == indices(1000));
        if (device().info().backend != "host" && is_host_memory_native()) (void)array.on(open_device("host"));
    };
    turn();
    const auto before = open_files();
    for (int i = 0; i < 8; ++i)
        turn();
    CHECK(open_files() == before);
}

}  // namespace tandem::test
