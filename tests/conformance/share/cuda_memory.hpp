#pragma once
// Device memory of cuMemAlloc and others, as programs beside tandem have it.

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>

namespace tandem::test {

/// The driver's own calls, on a device's primary context, which becomes the calling thread's current one.
class CudaDriver {
public:
    explicit CudaDriver(int index) : library_(::dlopen("libcuda.so.1", RTLD_NOW)) {
        call<int(unsigned)>("cuInit", 0U);
        int device = 0;
        call<int(int*, int)>("cuDeviceGet", &device, index);
        void* context = nullptr;
        call<int(void**, int)>("cuDevicePrimaryCtxRetain", &context, device);
        call<int(void*)>("cuCtxSetCurrent", context);
    }

    /// cuMemAlloc's memory, freed with the last copy of the pointer. Its address is the pointer's.
    std::shared_ptr<void> allocate(std::size_t size_bytes) {
        std::uint64_t address = 0;
        call<int(std::uint64_t*, std::size_t)>("cuMemAlloc_v2", &address, size_bytes);
        return {reinterpret_cast<void*>(address),
                [this](void* memory) { find<int(std::uint64_t)>("cuMemFree_v2")(reinterpret_cast<std::uint64_t>(memory)); }};
    }
    std::shared_ptr<void> allocate_managed(std::size_t size_bytes) {
        std::uint64_t address = 0;
        call<int(std::uint64_t*, std::size_t, unsigned)>("cuMemAllocManaged", &address, size_bytes, 1U);
        return {reinterpret_cast<void*>(address),
                [this](void* memory) { find<int(std::uint64_t)>("cuMemFree_v2")(reinterpret_cast<std::uint64_t>(memory)); }};
    }

private:
    template <class Function>
    Function* find(const char* name) {
        void* address = library_ != nullptr ? ::dlsym(library_, name) : nullptr;
        if (address == nullptr) throw std::runtime_error(name);
        return reinterpret_cast<Function*>(address);
    }
    template <class Function, class... Arguments>
    void call(const char* name, Arguments... arguments) {
        if (find<Function>(name)(arguments...) != 0) throw std::runtime_error(name);
    }

    void* library_;
};

}  // namespace tandem::test
