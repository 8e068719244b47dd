// tandem_bench_sharing [--device SPEC] [--mib N] [--rounds N] [--json FILE]
//
// Attaching another process's memory beside the raw driver calls, and add on it beside add on memory of this process. The other
// process is this program once more. That nothing is copied is shown by what attaching takes of the device's memory, and by the
// other process finding what is written here.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "program.hpp"
#include "tandem/tandem.hpp"
#include "tests/conformance/share/channel.hpp"

#if TANDEM_BENCH_CUDA
#include "backends/cuda/api.hpp"
#endif

namespace tandem::bench {
namespace {

// Sends three arrays in one memory, then answers each byte with one: whether the first element is what the byte says.
int serve(int socket, const std::string& spec, std::int64_t count) {
    const Device device = open_device(spec);
    const Array arrays = empty_shareable(device, float32, {3, count});
    Queue queue(device);
    byteswap(queue, empty_like(arrays), arrays);
    queue.synchronize();
    test::send_descriptor(socket, share(arrays));
    for (char byte = 0; ::read(socket, &byte, 1) == 1;) {
        const std::vector<float> first = to_vector<float>(queue, arrays.slice(0, 0, 1).slice(1, 0, 1));
        const char answer = first[0] == static_cast<float>(byte) ? 'y' : 'n';
        if (::write(socket, &answer, 1) != 1) return 1;
    }
    return 0;
}

class Server {
public:
    Server(const std::string& spec, std::int64_t count) {
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
        socket_ = ends[0];
        process_ = ::fork();
        if (process_ == 0) {
            const int kept = ::dup(ends[1]);
            const std::string self = std::filesystem::read_symlink("/proc/self/exe");
            ::execl(self.c_str(), self.c_str(), "--serve", std::to_string(kept).c_str(), "--device", spec.c_str(), "--count",
                    std::to_string(count).c_str(), nullptr);
            ::_exit(127);
        }
        ::close(ends[1]);
    }
    ~Server() {
        ::close(socket_);
        ::waitpid(process_, nullptr, 0);
    }
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    [[nodiscard]] int socket() const noexcept { return socket_; }
    [[nodiscard]] bool finds(char value) const {
        char answer = 0;
        return ::write(socket_, &value, 1) == 1 && ::read(socket_, &answer, 1) == 1 && answer == 'y';
    }

private:
    int socket_ = -1;
    pid_t process_ = -1;
};

#if TANDEM_BENCH_CUDA
// What the driver has free on the first device.
std::size_t free_device_bytes() {
    using GetInfo = CUresult(std::size_t*, std::size_t*);
    static const SharedLibrary library("libcuda.so.1");
    std::size_t free_bytes = 0, all_bytes = 0;
    library.get<GetInfo*>("cuMemGetInfo_v2")(&free_bytes, &all_bytes);
    return free_bytes;
}

Candidate raw_cuda(const ShareDescriptor& descriptor) {
    const cuda::Api& api = cuda::Api::get();
    struct Raw {
        CUmemGenericAllocationHandle allocation = 0;
        CUdeviceptr address = 0;
        std::size_t size_bytes = 0;
    };
    const auto raw = std::make_shared<Raw>();
    const int file = descriptor.file_descriptors().at(0);
    constexpr std::size_t granule = std::size_t{2} << 20U;
    raw->size_bytes = (descriptor.size_bytes() + granule - 1) / granule * granule;
    const auto must = [](CUresult result) {
        if (result != CUDA_SUCCESS) std::abort();
    };
    return {
        "cuMemImportFromShareableHandle, Reserve, Map, SetAccess",
        [&api, raw, file, must] {
            must(api.cuMemImportFromShareableHandle(&raw->allocation, reinterpret_cast<void*>(static_cast<std::uintptr_t>(file)),
                                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
            must(api.cuMemAddressReserve(&raw->address, raw->size_bytes, 0, 0, 0));
            must(api.cuMemMap(raw->address, raw->size_bytes, 0, raw->allocation, 0));
            CUmemAccessDesc access{};
            access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
            access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
            must(api.cuMemSetAccess(raw->address, raw->size_bytes, &access, 1));
        },
        [&api, raw, must] {
            must(api.cuMemUnmap(raw->address, raw->size_bytes));
            must(api.cuMemAddressFree(raw->address, raw->size_bytes));
            must(api.cuMemRelease(raw->allocation));
        }};
}
#endif

Candidate raw_mmap(const ShareDescriptor& descriptor) {
    const auto address = std::make_shared<void*>(nullptr);
    const int file = descriptor.file_descriptors().at(0);
    const std::size_t size_bytes = descriptor.size_bytes();
    return {"mmap", [=] { *address = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0); },
            [=] { ::munmap(*address, size_bytes); }};
}

void attach_cost(const Device& device, const ShareDescriptor& descriptor, int rounds) {
    std::optional<Array> attached;
    std::vector<Candidate> candidates{{"tandem", [&] { attached = attach(device, descriptor); }, [&] { attached.reset(); }}};
    if (descriptor.method() == ShareMethod::host_memory) candidates.push_back(raw_mmap(descriptor));
#if TANDEM_BENCH_CUDA
    if (descriptor.method() == ShareMethod::device_memory && device.info().backend == "cuda")
        candidates.push_back(raw_cuda(descriptor));
#endif
    measure(candidates, rounds * 5);
    report(fmt::format("attach {} MiB of {}", descriptor.size_bytes() >> 20U, to_string(descriptor.method())), device.spec(),
           candidates, {}, "+1000 us");
}

void add_on_attached(const Device& device, const Array& attached, int rounds) {
    const auto row = [&](std::int64_t index) { return attached.at(0, index); };
    const Array a = row(0), b = row(1), out = row(2);
    const Array local_a = empty_like(a), local_b = empty_like(b), local_out = empty_like(out);
    Queue queue(device);
    copy(queue, a, local_a);
    copy(queue, b, local_b);
    copy(queue, a, local_out);
    queue.synchronize();
    const int repeats = device.info().type == DeviceType::gpu ? 20 : 2;
    const auto adds = [&queue, repeats](const Array& left, const Array& right, const Array& sum) {
        for (int i = 0; i < repeats; ++i)
            add(queue, left, right, sum);
        queue.synchronize();
    };
    std::vector<Candidate> candidates{{"tandem", [&] { adds(a, b, out); }},
                                      {"the same on memory of this process", [&] { adds(local_a, local_b, local_out); }}};
    measure(candidates, rounds);
    report(fmt::format("add on attached, {} MiB", a.size_bytes() >> 20U), device.spec(), candidates,
           {3.0 * static_cast<double>(a.size_bytes()) * repeats, 1}, "1.00");
}

void show_no_copy(const Device& device, const ShareDescriptor& descriptor, const Server& server) {
#if TANDEM_BENCH_CUDA
    const bool is_cuda = device.info().backend == "cuda";
    Queue warm(device);  // what the context takes once
    (void)to_vector<float>(warm, attach(device, descriptor).at(0, 0).slice(0, 0, 1));
    const std::size_t before = is_cuda ? free_device_bytes() : 0;
#endif
    const Array attached = attach(device, descriptor);
#if TANDEM_BENCH_CUDA
    if (is_cuda) {
        fmt::print("attaching {} bytes took {} bytes of the device's memory\n", descriptor.size_bytes(),
                   static_cast<std::int64_t>(before) - static_cast<std::int64_t>(free_device_bytes()));
    }
#endif
    Queue queue(device);
    bool is_seen = true;
    for (const char value : {char{5}, char{77}}) {
        const std::vector<float> one{static_cast<float>(value)};
        copy(queue, one, attached.at(0, 0).slice(0, 0, 1));
        queue.synchronize();
        is_seen = is_seen && server.finds(value);
    }
    fmt::print("what is written to the attached array {} in the other process\n", is_seen ? "is there" : "IS NOT THERE");
}

int run(const std::string& spec, std::int64_t count, int rounds) {
    const Server server(spec, count);  // before the driver is opened here
    const ShareDescriptor descriptor = test::receive_descriptor(server.socket());
    const Device device = open_device(spec);
    show_no_copy(device, descriptor, server);
    attach_cost(device, descriptor, rounds);
    add_on_attached(device, attach(device, descriptor), rounds);
    return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
    using namespace tandem::bench;
    CLI::App app("sharing between processes");
    CommonOptions options{.device = "cuda:0", .rounds = 11};
    std::int64_t mib = 256, count = 0;
    int socket = -1;
    add_common_options(app, options);
    app.add_option("--mib", mib, "of each of three arrays");
    app.add_option("--serve", socket)->group("");
    app.add_option("--count", count)->group("");
    return run_program(app, argc, argv, options.json, [&] {
        if (socket >= 0) return serve(socket, options.device, count);
        return run(options.device, (mib << 20) / 4, options.rounds);
    });
}
