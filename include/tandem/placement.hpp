#pragma once
// Where memory is, and who reaches it how.

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

/// Where a buffer's bytes live, and who can reach them.
enum class MemoryKind : std::uint8_t {
    device,   ///< the device's own memory: CUDA's stream-ordered pool or cuMemAlloc, clCreateBuffer, pages of the host
    pinned,   ///< host memory that the device reaches by itself: cuMemHostRegister or cuMemHostAlloc, CL_MEM_ALLOC_HOST_PTR
    shared,   ///< one address on both sides, moving where it is used: cuMemAllocManaged, SVM
    adopted,  ///< memory that exists, file mappings included: cuMemHostRegister or a plain pointer, CL_MEM_USE_HOST_PTR
};

/// "device" and so on.
std::string_view to_string(MemoryKind kind) noexcept;

/// Whether the device works on the very bytes that the host sees.
enum class ZeroCopy : std::uint8_t {
    no,              ///< they are copied, by the library or on each map
    yes,             ///< there is one copy, and both sides use it in place
    driver_decides,  ///< the driver keeps the two sides alike, and does not tell how
};

/// "no", "yes" or "driver decides".
std::string_view to_string(ZeroCopy zero_copy) noexcept;

/// Where bytes are.
struct Residency {
    ZeroCopy zero_copy = ZeroCopy::no;
    std::string description;  ///< in words, with the reason where there are two copies
};

/// One of the two sides.
enum class Location : std::uint8_t { device, host };

/// How `shared` memory is going to be used.
enum class MemoryAdvice : std::uint8_t {
    normal,         ///< takes all other advice back
    read_mostly,    ///< both sides read and seldom write: each may keep a copy
    prefer_device,  ///< pages stay on the device; the host reaches across
    prefer_host,    ///< pages stay on the host; the device reaches across
};

}  // namespace tandem
