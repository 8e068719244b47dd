#pragma once
// A cached file's bytes on their way to a device that copies them from the file's own pages.

#include <cstddef>
#include <cstdint>
#include <functional>

#include "core/transport/meter.hpp"
#include "tandem/array.hpp"
#include "tandem/mapped_file.hpp"

namespace tandem {

struct WindowLoad {
    MappedFile file;  ///< for reading, and in the page cache
    std::uint64_t offset_bytes = 0;
    Array array;  ///< dense, of one memory; filled with the file's bytes from `offset_bytes` on
    /// Pieces begin and end at multiples of this, counted from the array's beginning.
    std::size_t item_bytes = 1;
    /// Called on the caller's thread for each piece once its copy is queued on one of the load queues.
    std::function<void(std::size_t begin_bytes, std::size_t size_bytes)> queued{};
    /// Registering costs the same for each byte in windows of 32 to 128 MiB; larger ones keep the device waiting for the first.
    std::size_t window_bytes = std::size_t{64} << 20U;
    /// How far ahead of the caller the readers map what it will adopt.
    std::size_t windows_ahead = 4;
};

/// Part of an array, counted from its beginning.
struct LoadPart {
    std::size_t begin_bytes = 0;
    std::size_t end_bytes = 0;
};

/// Fills the array from both ends. The caller adopts windows of the file's mapping from the front on, and the device copies each
/// from there; `readers` further threads read pieces from the back on into slots of the ring, until the two meet. Only the
/// caller's thread calls the driver: adopting holds the driver's lock nearly all of the time, and another thread would get it
/// once in many windows.
///
/// Waits until all that was queued is there. Windows are let go of later (`Transport::let_go_later`), since that would hold up
/// the copies. Returns what is left to do: nothing, or what lies between the ends where the device takes no more windows.
/// Throws as `MappedFile::read`, and cancelled.
LoadPart load_by_windows(const WindowLoad& load, unsigned readers, Meter& meter);

/// Waits for what is on its way in the first `queues` load queues; a wait for much is a quiet one.
void finish_loads(const Device& device, std::size_t size_bytes, std::size_t queues);

}  // namespace tandem
