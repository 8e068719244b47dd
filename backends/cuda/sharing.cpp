#include "backends/cuda/sharing.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "backends/cuda/device.hpp"
#include "tandem/error.hpp"

namespace tandem::cuda {
namespace {

std::size_t round_up(std::size_t size_bytes, std::size_t unit) noexcept {
    return (size_bytes + unit - 1) / unit * unit;
}

bool has(const Context& context, CUdevice_attribute which) noexcept {
    int value = 0;
    return context.api().cuDeviceGetAttribute(&value, which, context.device()) == CUDA_SUCCESS && value != 0;
}

CUmemAllocationProp properties_on(CUdevice device) noexcept {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    return properties;
}

void check_virtual_memory(const Context& context) {
    const Api& api = context.api();
    const bool has_functions = api.cuMemCreate != nullptr && api.cuMemRelease != nullptr && api.cuMemAddressReserve != nullptr &&
                               api.cuMemAddressFree != nullptr && api.cuMemMap != nullptr && api.cuMemUnmap != nullptr &&
                               api.cuMemSetAccess != nullptr && api.cuMemExportToShareableHandle != nullptr &&
                               api.cuMemImportFromShareableHandle != nullptr && api.cuMemGetAllocationGranularity != nullptr &&
                               api.cuMemGetAllocationPropertiesFromHandle != nullptr;
    if (!has_functions) throw Error(ErrorCode::unsupported, "the driver is older than cuMemCreate");
    if (!has(context, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) ||
        !has(context, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)) {
        throw Error(ErrorCode::unsupported,
                    "the device has no virtual memory that file descriptors stand for "
                    "(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED is 0)");
    }
}

std::size_t granularity(const Context& context, const CUmemAllocationProp& properties, CUmemAllocationGranularity_flags which) {
    std::size_t bytes = 0;
    context.check(context.api().cuMemGetAllocationGranularity(&bytes, &properties, which), "cuMemGetAllocationGranularity");
    return bytes;
}

// Throws unavailable where the context's device can't reach the memory of `owner`.
void check_reach(const Context& context, CUdevice owner) {
    if (owner == context.device()) return;
    int can = 0;
    const Api& api = context.api();
    if (api.cuDeviceCanAccessPeer != nullptr) {
        context.check(api.cuDeviceCanAccessPeer(&can, context.device(), owner), "cuDeviceCanAccessPeer");
    }
    if (can == 0) {
        throw Error(ErrorCode::unavailable,
                    fmt::format("it is memory of the GPU with UUID {}, and this one, with {}, has no peer access to that",
                                uuid_text(api, owner), uuid_text(api, context.device())));
    }
}

// Throws bad_file where a descriptor names another device than the one that its memory is in.
void check_uuid(const Context& context, const driver::SharedRange& range, CUdevice owner) {
    const std::string found = uuid_text(context.api(), owner);
    if (range.device_uuid.empty() || found.empty() || range.device_uuid == found) return;
    throw Error(ErrorCode::bad_file,
                fmt::format("memory of the GPU with UUID {} needed, that of {} found", range.device_uuid, found));
}

// The device of that UUID. Throws unavailable.
CUdevice device_with(const Context& context, const std::string& uuid) {
    const Api& api = context.api();
    if (uuid.empty() || uuid == uuid_text(api, context.device())) return context.device();
    int count = 0;
    context.check(api.cuDeviceGetCount(&count), "cuDeviceGetCount");
    for (int i = 0; i < count; ++i) {
        CUdevice device = 0;
        if (api.cuDeviceGet(&device, i) == CUDA_SUCCESS && uuid_text(api, device) == uuid) return device;
    }
    throw Error(ErrorCode::unavailable, fmt::format("this process has no GPU with UUID {}, only others; this one has {}", uuid,
                                                    uuid_text(api, context.device())));
}

CUresult device_of(const Api& api, CUdeviceptr address, CUdevice& device) noexcept {
    int ordinal = 0;
    const CUresult result = api.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
    return result == CUDA_SUCCESS ? api.cuDeviceGet(&device, ordinal) : result;
}

bool is_set(const Api& api, CUpointer_attribute which, CUdeviceptr address) noexcept {
    unsigned value = 0;
    return api.cuPointerGetAttribute(&value, which, address) == CUDA_SUCCESS && value != 0;
}

// Handles that are open, counted for each context: how often one may be opened, and what closing one of two does, differs between
// drivers.
class OpenHandles {
public:
    static OpenHandles& instance() {
        static auto* const table = new OpenHandles;  // never destroyed: memory in static storage lets go at any time
        return *table;
    }

    // The context is current.
    CUdeviceptr open(const Context& context, const std::array<std::byte, 64>& handle) {
        const std::lock_guard lock(mutex_);
        const auto [entry, is_new] = open_.try_emplace({context.native(), handle});
        if (is_new) {
            CUipcMemHandle native{};
            static_assert(sizeof native == sizeof handle);
            std::memcpy(&native, handle.data(), sizeof native);
            const CUresult result =
                context.api().cuIpcOpenMemHandle(&entry->second.address, native, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
            if (result != CUDA_SUCCESS) {
                open_.erase(entry);
                fail(context, result);
            }
        }
        ++entry->second.holders;
        return entry->second.address;
    }

    void close(const Context& context, const std::array<std::byte, 64>& handle) noexcept {
        const std::lock_guard lock(mutex_);
        const auto entry = open_.find({context.native(), handle});
        if (entry == open_.end() || --entry->second.holders != 0) return;
        const Current current(context, std::nothrow);
        if (current.is_ready()) context.api().cuIpcCloseMemHandle(entry->second.address);
        open_.erase(entry);
    }

private:
    [[noreturn]] static void fail(const Context& context, CUresult result) {
        if (result == CUDA_ERROR_OUT_OF_MEMORY || result == CUDA_ERROR_NOT_SUPPORTED) context.fail(result, "cuIpcOpenMemHandle");
        const char* name = nullptr;
        context.api().cuGetErrorName(result, &name);
        throw Error(ErrorCode::bad_file,
                    fmt::format("the handle of memory of a process that runs needed, one that does not open found: "
                                "cuIpcOpenMemHandle: {}",
                                name != nullptr ? name : "an unknown CUresult"),
                    static_cast<int>(result));
    }

    struct Open {
        CUdeviceptr address = 0;
        std::size_t holders = 0;
    };
    std::mutex mutex_;
    std::map<std::pair<CUcontext, std::array<std::byte, 64>>, Open> open_;
};

}  // namespace

void refuse_share(const char* what_it_is) {
    throw Error(ErrorCode::unsupported, what_it_is);
}

VirtualMapping::~VirtualMapping() {
    const Current current(context_, std::nothrow);
    if (!current.is_ready()) return;
    const Api& api = context_.api();
    if (is_mapped_) api.cuMemUnmap(address_, size_bytes_);
    if (address_ != 0) api.cuMemAddressFree(address_, size_bytes_);
    if (is_held_) api.cuMemRelease(allocation_);
}

CUresult VirtualMapping::map(std::size_t size_bytes, const char*& call) noexcept {
    const Api& api = context_.api();
    size_bytes_ = size_bytes;
    call = "cuMemAddressReserve";
    CUresult result = api.cuMemAddressReserve(&address_, size_bytes, 0, 0, 0);
    if (result != CUDA_SUCCESS) {
        address_ = 0;
        return result;
    }
    call = "cuMemMap";
    result = api.cuMemMap(address_, size_bytes, 0, allocation_, 0);
    if (result != CUDA_SUCCESS) return result;
    is_mapped_ = true;
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = context_.device();
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    call = "cuMemSetAccess";
    return api.cuMemSetAccess(address_, size_bytes, &access, 1);
}

VirtualMemory::VirtualMemory(const std::shared_ptr<Device>& device, std::size_t size_bytes)
    : Memory(device, size_bytes, MemoryKind::device,
             {ZeroCopy::no, fmt::format("device memory of {} that can be shared", device->info().spec)}),
      mapping_(device_->context()),
      owner_(device_->context().device()) {
    const Context& context = device_->context();
    check_virtual_memory(context);
    const Current current(context);
    const CUmemAllocationProp properties = properties_on(owner_);
    const std::size_t granule = granularity(context, properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    if (size_bytes > SIZE_MAX / 2)
        throw Error(ErrorCode::out_of_memory, fmt::format("cuMemCreate of {} bytes: no device has that many", size_bytes));
    const std::size_t rounded = round_up(size_bytes, granule);
    CUmemGenericAllocationHandle allocation = 0;
    if (const CUresult result = context.api().cuMemCreate(&allocation, rounded, &properties, 0); result != CUDA_SUCCESS)
        context.fail(result, fmt::format("cuMemCreate of {} bytes", rounded));
    mapping_.hold(allocation);
    const char* call = nullptr;
    if (const CUresult result = mapping_.map(rounded, call); result != CUDA_SUCCESS)
        context.fail(result, fmt::format("{} of {} bytes", call, rounded));
    address_ = mapping_.address();
}

VirtualMemory::VirtualMemory(const std::shared_ptr<Device>& device, const driver::SharedRange& range, int file)
    : Memory(device, range.size_bytes, MemoryKind::device,
             {ZeroCopy::yes, fmt::format("in place: device memory, on {}", device->info().spec)}),
      mapping_(device_->context()),
      owner_(0),
      file_(FileDescriptor::duplicate(file)) {
    const Context& context = device_->context();
    const Api& api = context.api();
    check_virtual_memory(context);
    // What the driver makes of a file that is not its own is not documented.
    struct stat status {};
    if (::fstat(file, &status) != 0 || !S_ISCHR(status.st_mode))
        throw Error(ErrorCode::bad_file, "a file descriptor of CUDA memory needed, another kind of file found");
    const Current current(context);
    (void)device_with(context,
                      range.device_uuid);  // what the driver says of another machine's, or a hidden GPU's, tells nobody why
    CUmemGenericAllocationHandle allocation = 0;
    CUresult result = api.cuMemImportFromShareableHandle(&allocation, reinterpret_cast<void*>(static_cast<std::uintptr_t>(file)),
                                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    const auto name_of = [&] {
        const char* name = nullptr;
        api.cuGetErrorName(result, &name);
        return name != nullptr ? name : "an unknown CUresult";
    };
    if (result != CUDA_SUCCESS) {
        if (result == CUDA_ERROR_OUT_OF_MEMORY) context.fail(result, "cuMemImportFromShareableHandle");
        throw Error(
            ErrorCode::bad_file,
            fmt::format("a file descriptor of CUDA memory needed, another found: cuMemImportFromShareableHandle: {}", name_of()),
            static_cast<int>(result));
    }
    mapping_.hold(allocation);
    CUmemAllocationProp properties{};
    context.check(api.cuMemGetAllocationPropertiesFromHandle(&properties, allocation), "cuMemGetAllocationPropertiesFromHandle");
    if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        throw Error(ErrorCode::bad_file, "memory of a device needed, that of the host found");
    owner_ = properties.location.id;
    check_uuid(context, range, owner_);
    check_reach(context, owner_);
    const std::size_t granule = granularity(context, properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    std::size_t all_bytes = 0;
    context.check(api.cuDeviceTotalMem(&all_bytes, owner_), "cuDeviceTotalMem");
    if (range.size_bytes > all_bytes) {
        throw Error(ErrorCode::bad_file,
                    fmt::format("{} bytes needed, fewer found: the device has {}", range.size_bytes, all_bytes));
    }
    const std::size_t rounded = round_up(range.size_bytes, granule);
    const char* call = nullptr;
    result = mapping_.map(rounded, call);
    const bool is_refused = result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED;
    if (is_refused && std::strcmp(call, "cuMemMap") == 0) {
        throw Error(ErrorCode::bad_file,
                    fmt::format("{} bytes needed, fewer found: cuMemMap of {} bytes: {}", range.size_bytes, rounded, name_of()),
                    static_cast<int>(result));
    }
    if (result != CUDA_SUCCESS) context.fail(result, fmt::format("{} of {} bytes", call, rounded));
    address_ = mapping_.address();
}

std::pair<driver::SharedRange, FileDescriptor> VirtualMemory::share() {
    const Context& context = device_->context();
    driver::SharedRange range;
    range.method = ShareMethod::device_memory;
    range.size_bytes = size_bytes();
    range.device_uuid = uuid_text(context.api(), owner_);
    if (file_.is_open()) return {std::move(range), file_.duplicate()};
    const Current current(context);
    int file = -1;
    context.check(
        context.api().cuMemExportToShareableHandle(&file, mapping_.allocation(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        "cuMemExportToShareableHandle");
    return {std::move(range), FileDescriptor(file)};
}

IpcMemory::IpcMemory(const std::shared_ptr<Device>& device, const driver::SharedRange& range)
    : Memory(device, range.size_bytes, MemoryKind::device,
             {ZeroCopy::yes, fmt::format("in place: device memory, on {}", device->info().spec)}),
      handle_(range.handle) {
    const Context& context = device_->context();
    const Api& api = context.api();
    if (api.cuIpcOpenMemHandle == nullptr || api.cuIpcCloseMemHandle == nullptr || api.cuMemGetAddressRange == nullptr)
        throw Error(ErrorCode::unsupported, "the driver has no cuIpcOpenMemHandle");
    const Current current(context);
    check_reach(context, device_with(context, range.device_uuid));
    const CUdeviceptr base = OpenHandles::instance().open(context, handle_);
    try {
        CUdeviceptr first = 0;
        std::size_t found_bytes = 0;
        context.check(api.cuMemGetAddressRange(&first, &found_bytes, base), "cuMemGetAddressRange");
        if (range.base_offset_bytes > found_bytes || range.size_bytes > found_bytes - range.base_offset_bytes) {
            throw Error(ErrorCode::bad_file, fmt::format("{} bytes at offset {} of an allocation needed, one of {} bytes found",
                                                         range.size_bytes, range.base_offset_bytes, found_bytes));
        }
        CUdevice home = 0;
        if (device_of(api, base, home) == CUDA_SUCCESS) check_uuid(context, range, home);
    } catch (...) {
        OpenHandles::instance().close(context, handle_);
        throw;
    }
    address_ = base + range.base_offset_bytes;
}

IpcMemory::~IpcMemory() {
    OpenHandles::instance().close(device_->context(), handle_);
}

std::pair<driver::SharedRange, FileDescriptor> IpcMemory::share() {
    refuse_share("it is another process's, by a CUDA IPC handle, which only that process can share");
}

ForeignMemory::ForeignMemory(const std::shared_ptr<Device>& device, std::uint64_t address, std::size_t size_bytes)
    : Memory(device, size_bytes, MemoryKind::device,
             {ZeroCopy::yes, fmt::format("in place: device memory that was adopted, on {}", device->info().spec)}) {
    const Context& context = device_->context();
    const Api& api = context.api();
    const Current current(context);
    unsigned type = 0;
    const bool is_known = api.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS;
    CUdevice home = 0;
    if (!is_known || type != CU_MEMORYTYPE_DEVICE || device_of(api, address, home) != CUDA_SUCCESS)
        throw Error(ErrorCode::invalid_argument, "it is no memory of a CUDA device");
    if (home != context.device()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("it is memory of the GPU with UUID {}, not of this one", uuid_text(api, home)));
    }
    CUdeviceptr first = 0;
    std::size_t found_bytes = 0;
    if (api.cuMemGetAddressRange == nullptr) throw Error(ErrorCode::unsupported, "the driver has no cuMemGetAddressRange");
    context.check(api.cuMemGetAddressRange(&first, &found_bytes, address), "cuMemGetAddressRange");
    if (const std::size_t left = found_bytes - (address - first); size_bytes > left) {
        throw Error(ErrorCode::out_of_range,
                    fmt::format("{} bytes needed, {} found up to the end of the allocation", size_bytes, left));
    }
    address_ = address;
}

std::pair<driver::SharedRange, FileDescriptor> ForeignMemory::share() {
    const Context& context = device_->context();
    const Api& api = context.api();
    const Current current(context);
    if (is_set(api, CU_POINTER_ATTRIBUTE_IS_MANAGED, address_))
        refuse_share("it is managed memory, which CUDA has no handle for");
    if (!is_set(api, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address_) || api.cuIpcGetMemHandle == nullptr) {
        refuse_share(
            "it was adopted and is not cuMemAlloc's (cudaMalloc's) but from a memory pool or a virtual mapping, which has "
            "no CUDA IPC handle");
    }
    CUdeviceptr base = 0;
    std::size_t found_bytes = 0;
    context.check(api.cuMemGetAddressRange(&base, &found_bytes, address_), "cuMemGetAddressRange");
    CUipcMemHandle handle{};
    context.check(api.cuIpcGetMemHandle(&handle, base), "cuIpcGetMemHandle");
    driver::SharedRange range;
    range.method = ShareMethod::ipc_handle;
    range.size_bytes = size_bytes();
    range.base_offset_bytes = address_ - base;
    std::memcpy(range.handle.data(), &handle, sizeof handle);
    range.device_uuid = device_->info().uuid;
    return {std::move(range), FileDescriptor()};
}

}  // namespace tandem::cuda
