#include "backends/cuda/registration.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <mutex>

#include "backends/cuda/device.hpp"
#include "core/host_block.hpp"
#include "tandem/error.hpp"

namespace tandem::cuda {
namespace {

// A driver's tables for one registration grow with it; larger ranges are several.
constexpr std::uintptr_t window_bytes = std::uintptr_t{64} << 30U;

bool is_registered(const Api& api, std::uintptr_t address) noexcept {
    unsigned type = 0;
    return api.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_HOST;
}

std::string lock_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "no limit on locked memory";
    return fmt::format("RLIMIT_MEMLOCK is {}", limit.rlim_cur);
}

}  // namespace

Registrations& Registrations::instance() {
    // Never destroyed: memory in static storage lets go at any time.
    static auto* const table = new Registrations;
    return *table;
}

Registrations::Hold::~Hold() {
    if (!counted_.empty()) instance().let_go(*this);
}

std::size_t Registrations::Hold::run_bytes(std::uintptr_t address) const noexcept {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), address);
    return end == ends_.end() ? SIZE_MAX : *end - address;
}

std::size_t Registrations::Frozen::run_bytes(const void* address) const noexcept {
    const auto& ranges = instance().ranges_;
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const auto next = ranges.upper_bound(at);
    if (next != ranges.begin() && std::prev(next)->second.end > at) return std::prev(next)->second.end - at;
    return next != ranges.end() ? next->first - at : SIZE_MAX;
}

Registrations::Hold Registrations::hold(const std::shared_ptr<Device>& device, const void* address, std::size_t size_bytes,
                                        bool is_writable) {
    const auto first = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t end = (first + size_bytes + page_bytes() - 1) / page_bytes() * page_bytes();
    Hold hold;
    try {
        const std::unique_lock lock(mutex_);
        for (std::uintptr_t at = first / page_bytes() * page_bytes(); at < end;) {
            at = extend(hold, device, at, end, is_writable);
            hold.ends_.push_back(at);
        }
    } catch (const Error& error) {
        throw Error(error.code(), fmt::format("{} ({} bytes at {:#x})", error.what(), size_bytes, first), error.native_code());
    }
    return hold;
}

// Holds a stretch that starts at `begin`, and returns its end. With mutex_ held.
std::uintptr_t Registrations::extend(Hold& hold, const std::shared_ptr<Device>& device, std::uintptr_t begin, std::uintptr_t end,
                                     bool is_writable) {
    const Api& api = device->context().api();
    const auto next = ranges_.upper_bound(begin);
    if (next != ranges_.begin()) {
        const auto found = std::prev(next);
        if (found->second.end > begin) {
            if (is_writable && !found->second.is_writable)
                throw Error(ErrorCode::unsupported, "the memory is registered for reading alone");
            hold.counted_.push_back(found->first);
            ++found->second.holders;
            return found->second.end;
        }
    }
    const Current current(device->context());
    std::uintptr_t limit = std::min(end, begin + window_bytes);
    if (next != ranges_.end()) limit = std::min(limit, next->first);
    const unsigned flags =
        CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | (is_writable ? 0U : CU_MEMHOSTREGISTER_READ_ONLY);
    const auto try_register = [&](std::uintptr_t to) {
        return api.cuMemHostRegister(reinterpret_cast<void*>(begin), to - begin, flags);
    };
    // Room first: once the pages are registered, nothing may fail.
    hold.counted_.reserve(hold.counted_.size() + 1);
    const auto entry = ranges_.emplace_hint(next, begin, Range{limit, is_writable, 1, device});
    CUresult result = try_register(limit);
    if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) {
        // The caller's own: up to where it begins, or where it ends.
        const bool is_foreign = is_registered(api, begin);
        std::uintptr_t at = begin;
        while (at < limit && is_registered(api, at) == is_foreign)
            at += page_bytes();
        if (is_foreign) {
            ranges_.erase(entry);
            return at;
        }
        limit = at;
        entry->second.end = limit;
        result = try_register(limit);
    }
    if (result != CUDA_SUCCESS) {
        ranges_.erase(entry);
        const char* name = nullptr;
        api.cuGetErrorName(result, &name);
        const std::string what = fmt::format("cuMemHostRegister of {} bytes{}: {}", limit - begin,
                                             is_writable ? "" : ", read only", name != nullptr ? name : "an unknown CUresult");
        if (result == CUDA_ERROR_OUT_OF_MEMORY)
            throw Error(ErrorCode::out_of_memory, fmt::format("{}; {}", what, lock_limit()), static_cast<int>(result));
        if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_NOT_PERMITTED)
            throw Error(ErrorCode::unsupported, what, static_cast<int>(result));
        device->context().fail(result, what);
    }
    hold.counted_.push_back(begin);
    return limit;
}

void Registrations::let_go(const Hold& hold) noexcept {
    const std::unique_lock lock(mutex_);
    for (const std::uintptr_t start : hold.counted_) {
        const auto found = ranges_.find(start);
        if (--found->second.holders != 0) continue;
        const Context& context = found->second.device->context();
        {
            const Current current(context, std::nothrow);
            if (current.is_ready()) context.api().cuMemHostUnregister(reinterpret_cast<void*>(start));
        }
        ranges_.erase(found);
    }
}

}  // namespace tandem::cuda
