#pragma once
// What bytes from a device are written to.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tandem {

/// Takes a sequence of bytes in parts. Thread safe, each thread its own part.
class Sink {
public:
    Sink() = default;
    virtual ~Sink() = default;
    Sink(const Sink&) = delete;
    Sink& operator=(const Sink&) = delete;

    /// What messages call it; nothing where it has no name.
    [[nodiscard]] virtual std::string name() const { return {}; }
    /// True where the parts have to come in order, from one thread.
    [[nodiscard]] virtual bool is_sequential() const noexcept = 0;
    /// Throws io with the file and the offset.
    virtual void write_at(std::uint64_t offset_bytes, std::span<const std::byte> bytes) = 0;
};

}  // namespace tandem
