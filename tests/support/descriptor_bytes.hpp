#pragma once
// Serialised share descriptors, changed and made consistent again: where the fields lie, and the checksum, from the format's
// description and not from the code under test.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace tandem::test {

namespace descriptor_field {
inline constexpr std::size_t magic = 0, version = 8, length = 12, checksum = 16, method = 20, kind = 21, dtype = 22,
                             writable = 23, has_uuid = 24, uuid = 25, memory_id = 41, pid = 57, start_time = 61,
                             pid_namespace = 69, size_bytes = 73, base_offset_bytes = 81, offset_bytes = 89, handle = 97,
                             dimensions = 161, shape = 162;
}

/// CRC-32 as in zip files, bit by bit.
inline std::uint32_t crc32_of(const std::vector<std::byte>& bytes) {
    std::uint32_t sum = ~std::uint32_t{0};
    for (const std::byte byte : bytes) {
        sum ^= std::to_integer<std::uint32_t>(byte);
        for (int bit = 0; bit < 8; ++bit)
            sum = (sum >> 1U) ^ ((sum & 1U) != 0 ? 0xedb88320U : 0U);
    }
    return ~sum;
}

/// Stores the length and the checksum that `bytes` should have.
inline void make_consistent(std::vector<std::byte>& bytes) {
    if (bytes.size() < descriptor_field::method) return;
    const auto length = static_cast<std::uint32_t>(bytes.size());
    std::memcpy(bytes.data() + descriptor_field::length, &length, sizeof length);
    std::uint32_t sum = 0;
    std::memcpy(bytes.data() + descriptor_field::checksum, &sum, sizeof sum);
    sum = crc32_of(bytes);
    std::memcpy(bytes.data() + descriptor_field::checksum, &sum, sizeof sum);
}

}  // namespace tandem::test
