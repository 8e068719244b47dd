#include "core/share/message.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>

#include "core/printable.hpp"
#include "core/share/socket.hpp"

namespace tandem {
namespace {

constexpr std::array<char, 4> magic{'t', 'd', 'm', 's'};
constexpr std::uint16_t format_version = 1;
constexpr std::size_t max_text_bytes = 2048;
constexpr std::uint8_t error_code_count = static_cast<std::uint8_t>(ErrorCode::internal) + 1;
constexpr std::uint8_t kind_count = static_cast<std::uint8_t>(MemoryKind::adopted) + 1;
constexpr std::uint8_t method_count = static_cast<std::uint8_t>(ShareMethod::host_memory) + 1;

// Both sides are one machine's: numbers have its byte order.
class Writer {
public:
    template <class Number>
    requires std::is_arithmetic_v<Number>
    void number(Number value) {
        const auto* first = reinterpret_cast<const std::byte*>(&value);
        bytes_.insert(bytes_.end(), first, first + sizeof value);
    }
    void bytes(std::span<const std::byte> content) {
        number(static_cast<std::uint32_t>(content.size()));
        bytes_.insert(bytes_.end(), content.begin(), content.end());
    }
    void text(std::string_view content) {
        content = content.substr(0, max_text_bytes);
        bytes(std::as_bytes(std::span(content.data(), content.size())));
    }
    std::vector<std::byte> take() { return std::move(bytes_); }

private:
    std::vector<std::byte> bytes_;
};

class Reader {
public:
    explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    template <class Number>
    requires std::is_arithmetic_v<Number> Number number() {
        Number value{};
        const std::span<const std::byte> found = take(sizeof value);
        std::memcpy(&value, found.data(), sizeof value);
        return value;
    }
    std::span<const std::byte> bytes(std::size_t max_bytes) {
        const auto size_bytes = number<std::uint32_t>();
        if (size_bytes > max_bytes) {
            throw Error(ErrorCode::bad_file, fmt::format("message, offset {}: at most {} bytes needed, a length of {} found",
                                                         at_ - sizeof size_bytes, max_bytes, size_bytes));
        }
        return take(size_bytes);
    }
    std::string text(std::size_t max_bytes = max_text_bytes) {
        const std::span<const std::byte> found = bytes(max_bytes);
        return {reinterpret_cast<const char*>(found.data()), found.size()};
    }
    std::string key() {
        const std::size_t offset = at_;
        std::string key = text(max_name_bytes);
        const std::string problem = key.empty() ? std::string() : name_problem(key);
        if (!problem.empty()) throw Error(ErrorCode::bad_file, fmt::format("message, offset {}: key: {}", offset, problem));
        return key;
    }
    // One of the first `count` values of an enumeration.
    template <class Enumeration>
    Enumeration one_of(std::uint8_t count, std::string_view what) {
        const auto value = number<std::uint8_t>();
        if (value >= count) {
            throw Error(ErrorCode::bad_file, fmt::format("message, offset {}: {} below {} needed, {} found", at_ - 1, what,
                                                         unsigned{count}, unsigned{value}));
        }
        return static_cast<Enumeration>(value);
    }
    bool flag() { return one_of<std::uint8_t>(2, "a flag") != 0; }
    Shape shape(DType dtype) {
        const std::size_t offset = at_;
        Shape shape(one_of<std::uint8_t>(max_dimensions + 1, "a number of dimensions"));
        for (std::int64_t& extent : shape)
            extent = number<std::int64_t>();
        try {
            static_cast<void>(element_count(shape, size_bytes(dtype)));
        } catch (const Error& error) {
            throw Error(ErrorCode::bad_file, fmt::format("message, offset {}: {}", offset, error.what()));
        }
        return shape;
    }
    void end() const {
        if (at_ == bytes_.size()) return;
        throw Error(ErrorCode::bad_file,
                    fmt::format("message, offset {}: its end needed, {} bytes found", at_, bytes_.size() - at_));
    }
    [[nodiscard]] std::size_t offset_bytes() const noexcept { return at_; }

private:
    std::span<const std::byte> take(std::size_t count) {
        if (count > bytes_.size() - at_) {
            throw Error(ErrorCode::bad_file,
                        fmt::format("message, offset {}: {} bytes needed, {} found", at_, count, bytes_.size() - at_));
        }
        const std::span<const std::byte> taken = bytes_.subspan(at_, count);
        at_ += count;
        return taken;
    }

    std::span<const std::byte> bytes_;
    std::size_t at_ = 0;
};

void write(Writer& writer, const GetRequest& request) {
    writer.text(request.key);
}
void write(Writer& writer, const NextRequest& request) {
    writer.number(static_cast<std::uint8_t>(request.after.has_value()));
    writer.text(request.after.value_or(""));
}
void write(Writer& writer, const ArrayReply& reply) {
    writer.number(static_cast<std::uint8_t>(reply.has_fence));
    writer.bytes(reply.descriptor);
}
void write(Writer& writer, const EntryReply& reply) {
    writer.text(reply.key);
    writer.number(static_cast<std::uint8_t>(reply.dtype));
    writer.number(static_cast<std::uint8_t>(reply.shape.size()));
    for (const std::int64_t extent : reply.shape)
        writer.number(extent);
    writer.number(reply.size_bytes);
    writer.number(static_cast<std::uint8_t>(reply.method));
    writer.number(static_cast<std::uint8_t>(reply.kind));
    writer.number(static_cast<std::uint8_t>(reply.is_writable));
    writer.number(static_cast<std::uint8_t>(reply.has_fence));
    writer.text(reply.device);
}
void write(Writer& /*writer*/, const EndReply& /*reply*/) {}
void write(Writer& writer, const ErrorReply& reply) {
    writer.number(static_cast<std::uint8_t>(reply.code));
    writer.text(reply.text);
}

void read(Reader& reader, GetRequest& request) {
    request.key = reader.key();
}
void read(Reader& reader, NextRequest& request) {
    const bool has_key = reader.flag();
    std::string key = reader.key();
    if (has_key) request.after = std::move(key);
}
void read(Reader& reader, ArrayReply& reply) {
    reply.has_fence = reader.flag();
    const std::span<const std::byte> descriptor = reader.bytes(ShareDescriptor::max_bytes);
    reply.descriptor.assign(descriptor.begin(), descriptor.end());
}
void read(Reader& reader, EntryReply& reply) {
    reply.key = reader.key();
    reply.dtype = reader.one_of<DType>(dtype_count, "a dtype");
    reply.shape = reader.shape(reply.dtype);
    reply.size_bytes = reader.number<std::uint64_t>();
    reply.method = reader.one_of<ShareMethod>(method_count, "a method");
    reply.kind = reader.one_of<MemoryKind>(kind_count, "a memory kind");
    reply.is_writable = reader.flag();
    reply.has_fence = reader.flag();
    reply.device = printable(reader.text());
}
void read(Reader& /*reader*/, EndReply& /*reply*/) {}
void read(Reader& reader, ErrorReply& reply) {
    reply.code = reader.one_of<ErrorCode>(error_code_count, "an error code");
    reply.text = printable(reader.text());
}

// The message of the type with that index in the variant.
template <std::size_t index = 0>
Message read_type(Reader& reader, std::size_t type) {
    if constexpr (index < std::variant_size_v<Message>) {
        if (type != index) return read_type<index + 1>(reader, type);
        std::variant_alternative_t<index, Message> message;
        read(reader, message);
        return message;
    } else {
        throw Error(ErrorCode::bad_file, fmt::format("message, offset {}: a type below {} needed, {} found",
                                                     reader.offset_bytes() - sizeof(std::uint16_t), index, type));
    }
}

}  // namespace

std::vector<std::byte> to_bytes(const Message& message) {
    Writer writer;
    for (const char letter : magic)
        writer.number(letter);
    writer.number(format_version);
    writer.number(static_cast<std::uint16_t>(message.index()));
    std::visit([&writer](const auto& content) { write(writer, content); }, message);
    return writer.take();
}

Message parse_message(std::span<const std::byte> bytes) {
    Reader reader(bytes);
    for (const char letter : magic) {
        if (reader.number<char>() != letter) {
            throw Error(ErrorCode::bad_file, "message, offset 0: \"tdms\" needed, something else found");
        }
    }
    const auto version = reader.number<std::uint16_t>();
    if (version != format_version) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("message, offset {}: version {} needed, {} found", magic.size(), format_version, version));
    }
    const auto type = reader.number<std::uint16_t>();
    Message message = read_type(reader, type);
    reader.end();
    return message;
}

std::string name_problem(std::string_view name) {
    if (name.empty()) return "a name needed, none found";
    if (name.size() > max_name_bytes)
        return fmt::format("a name of at most {} bytes needed, {} found", max_name_bytes, name.size());
    if (name.front() == '.') return fmt::format("{}: a name that does not start with a dot is needed", in_quotes(name));
    const auto is_wrong = [](char letter) {
        return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7F || letter == '/';
    };
    if (std::any_of(name.begin(), name.end(), is_wrong))
        return fmt::format("{}: a name without slashes and control characters is needed", in_quotes(name));
    return {};
}

}  // namespace tandem
