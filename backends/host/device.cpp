#include "backends/host/device.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

#include "backends/host/blas.hpp"
#include "backends/host/memory.hpp"
#include "backends/host/program.hpp"
#include "backends/host/queue.hpp"
#include "core/thread_pool.hpp"

namespace tandem::driver {
Backend& host_backend() {
    static host::Backend backend;
    return backend;
}
}  // namespace tandem::driver

namespace tandem::host {
namespace {

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        const std::size_t colon = line.find(": ");
        if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
    }
    return "CPU";
}

std::string machine_name() {
    utsname names{};
    return uname(&names) == 0 ? names.machine : "unknown";
}

}  // namespace

std::shared_ptr<driver::Memory> Device::allocate(std::size_t size_bytes, MemoryKind kind) {
    return std::make_shared<Memory>(shared_from_this(), size_bytes, kind);
}

std::shared_ptr<driver::Memory> Device::adopt(const driver::HostRange& range) {
    return std::make_shared<Memory>(shared_from_this(), range);
}

std::shared_ptr<driver::Queue> Device::make_queue() {
    return std::make_shared<Queue>(shared_from_this());
}

std::shared_ptr<driver::Kernel> Device::compile(const driver::CompileRequest& request) {
    return Program::compile(info_.spec, request);
}

std::string Device::blas_library() {
    return host::blas_library();
}

std::vector<DeviceInfo> Backend::devices() {
    DeviceInfo info;
    info.type = DeviceType::cpu;
    info.name = processor_name();
    info.platform = machine_name();
    info.driver = "threads";
    info.memory_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    info.max_window_bytes = info.memory_bytes;
    info.compute_units = available_processors();
    info.shares_host_memory = true;
    return {info};
}

std::shared_ptr<driver::Device> Backend::open(const DeviceInfo& info) {
    return std::make_shared<Device>(info);
}

}  // namespace tandem::host
