#include "core/driver.hpp"

#include "tandem/error.hpp"

namespace tandem::driver {
namespace {

[[noreturn]] void refuse_blas() {
    throw Error(ErrorCode::unsupported, "this backend has no linear algebra");
}

}  // namespace

void Queue::blas(const BlasVector& /*call*/) {
    refuse_blas();
}

void Queue::blas(const BlasGemv& /*call*/) {
    refuse_blas();
}

void Queue::blas(const BlasGemm& /*call*/) {
    refuse_blas();
}

std::size_t Device::blas_scratch_bytes(const BlasGemm& /*call*/) const noexcept {
    return 0;
}

std::string Device::blas_library() {
    refuse_blas();
}

std::string Queue::prefetch(Memory& memory, std::size_t /*offset_bytes*/, std::size_t /*size_bytes*/, Location /*where*/) {
    return memory.residency().zero_copy == ZeroCopy::yes ? "both sides use it in place" : "it does not move";
}

std::string Device::advise(Memory& memory, std::size_t /*offset_bytes*/, std::size_t /*size_bytes*/, MemoryAdvice /*advice*/) {
    return memory.residency().zero_copy == ZeroCopy::yes ? "both sides use it in place" : "the driver takes no advice on it";
}

namespace {

[[noreturn]] void refuse(const char* why) {
    throw Error(ErrorCode::unsupported, why);
}

}  // namespace

std::pair<SharedRange, FileDescriptor> Memory::share() {
    refuse("it is this process's own");
}

std::shared_ptr<Memory> Device::allocate_shareable(std::size_t /*size_bytes*/) {
    refuse("its driver gives out no memory of the device");
}

std::shared_ptr<Memory> Device::attach(const SharedRange& /*range*/, int /*file*/) {
    refuse("its driver takes no memory of a CUDA device");
}

std::shared_ptr<Memory> Device::adopt_device_memory(std::uint64_t /*address*/, std::size_t /*size_bytes*/) {
    refuse("its memory has no addresses of its own");
}

void Queue::launch(const Launch& launch) {
    throw Error(ErrorCode::unsupported, "launch of " + launch.kernel->info().name + ": this backend runs no kernels of callers");
}

std::shared_ptr<Kernel> Device::compile(const CompileRequest& request) {
    throw Error(ErrorCode::unsupported, info().spec + ": compile of " + request.name + ": this backend has no compiler");
}

}  // namespace tandem::driver
