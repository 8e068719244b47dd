#pragma once
// What publishers and those who attach say to each other, as bytes. Nothing that comes from the other side is trusted.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <tandem/dtype.hpp>
#include <tandem/error.hpp>
#include <tandem/shape.hpp>
#include <tandem/share.hpp>

namespace tandem {

/// Bytes of the longest name of a publisher, and of an array's key.
inline constexpr std::size_t max_name_bytes = 100;

/// Asks for an array.
struct GetRequest {
    std::string key;
};

/// Asks for what is published under the key behind `after`, or under the first.
struct NextRequest {
    std::optional<std::string> after;
};

/// An array. Beside it travel the descriptor's file descriptors, and the fence's behind them.
struct ArrayReply {
    std::vector<std::byte> descriptor;
    bool has_fence = false;
};

/// What there is to know of an array without attaching it.
struct EntryReply {
    std::string key;
    DType dtype = DType::uint8;
    Shape shape;
    std::uint64_t size_bytes = 0;  ///< of the memory that is shared
    ShareMethod method = ShareMethod::host_memory;
    MemoryKind kind = MemoryKind::device;
    bool is_writable = true;
    bool has_fence = false;
    std::string device;  ///< the publisher's, such as "cuda:0"
};

/// There is no further array.
struct EndReply {};

/// The request can't be served.
struct ErrorReply {
    ErrorCode code = ErrorCode::internal;
    std::string text;
};

using Message = std::variant<GetRequest, NextRequest, ArrayReply, EntryReply, EndReply, ErrorReply>;

/// `message` as at most `max_packet_bytes`; longer texts are cut.
std::vector<std::byte> to_bytes(const Message& message);

/// Reads what `to_bytes` wrote, whoever did. Throws bad_file with what was needed and found, at which offset; unsupported for
/// another version of the format.
Message parse_message(std::span<const std::byte> bytes);

/// Why `name` can't be a publisher's or a key; empty where it can. A key may be empty, which the caller allows for.
std::string name_problem(std::string_view name);

}  // namespace tandem
