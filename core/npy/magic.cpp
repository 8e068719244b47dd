#include "core/npy/magic.hpp"

#include <array>
#include <cstdint>

namespace tandem::npy {
namespace {

using namespace std::string_view_literals;

struct Kind {
    std::string_view magic;
    std::string_view name;
};

constexpr std::array kinds{
    Kind{"PK\x03\x04"sv, "a zip archive, perhaps .npz"},
    Kind{"PK\x05\x06"sv, "an empty zip archive, perhaps .npz"},
    Kind{"PK\x07\x08"sv, "a part of a zip archive, perhaps .npz"},
    Kind{"\x1f\x8b"sv, "gzip data, perhaps .npy.gz"},
    Kind{"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
    Kind{"\xfd"
         "7zXZ\0"sv,
         "xz data"},
    Kind{"\x28\xb5\x2f\xfd"sv, "zstd data"},
    Kind{"BZh"sv, "bzip2 data"},
    Kind{"ARROW1"sv, "an Arrow file"},
    Kind{"PAR1"sv, "a Parquet file"},
    Kind{"MATLAB 5.0 MAT-file"sv, "a MATLAB file"},
};

std::uint8_t byte_at(std::span<const std::byte> bytes, std::size_t position) {
    return std::to_integer<std::uint8_t>(bytes[position]);
}

bool starts_with(std::span<const std::byte> bytes, std::string_view magic) {
    if (bytes.size() < magic.size()) {
        return false;
    }
    for (std::size_t i = 0; i < magic.size(); ++i) {
        if (byte_at(bytes, i) != static_cast<unsigned char>(magic[i])) {
            return false;
        }
    }
    return true;
}

// An 8-byte length and a JSON object; its format allows headers of up to 100 MB.
bool is_safetensors(std::span<const std::byte> start) {
    if (start.size() < 9 || byte_at(start, 8) != '{') {
        return false;
    }
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- > 0;) {
        length = (length << 8U) | byte_at(start, i);
    }
    return length >= 2 && length <= 100'000'000;
}

}  // namespace

std::string_view file_kind(std::span<const std::byte> start) noexcept {
    for (const Kind& kind : kinds) {
        if (starts_with(start, kind.magic)) {
            return kind.name;
        }
    }
    // Protocols 2 to 5 start with their number; the one before it has no magic.
    if (start.size() >= 2 && byte_at(start, 0) == 0x80 && byte_at(start, 1) >= 2 && byte_at(start, 1) <= 5) {
        return "a pickle";
    }
    return is_safetensors(start) ? "a safetensors file" : "";
}

}  // namespace tandem::npy
