#include "core/share/descriptor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "tandem/error.hpp"

namespace tandem {
namespace {

__extension__ using Wide = __int128;  // a forged descriptor's numbers may be anything

constexpr std::array<char, 8> magic = {'T', 'A', 'N', 'D', 'E', 'M', 'S', 'H'};
constexpr std::uint32_t format_version = 2;
constexpr std::size_t version_at = magic.size();
constexpr std::size_t length_at = version_at + sizeof(std::uint32_t);
constexpr std::size_t checksum_at = length_at + sizeof(std::uint32_t);

// Numbers in the machine's byte order: a descriptor never leaves it.
class Writer {
public:
    template <class T>
    void put(const T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        const auto* first = reinterpret_cast<const std::byte*>(&value);
        bytes_.insert(bytes_.end(), first, first + sizeof value);
    }
    void put_digits(const std::string& digits) {
        std::array<std::uint8_t, 16> values{};
        for (std::size_t i = 0; i < digits.size() / 2 && i < values.size(); ++i)
            values[i] = static_cast<std::uint8_t>(std::stoul(digits.substr(2 * i, 2), nullptr, 16));
        put(values);
    }
    std::vector<std::byte>& bytes() noexcept { return bytes_; }

private:
    std::vector<std::byte> bytes_;
};

class Reader {
public:
    explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    template <class T>
    T get() {
        static_assert(std::is_trivially_copyable_v<T>);
        if (bytes_.size() - at_ < sizeof(T)) {
            throw Error(ErrorCode::bad_file, fmt::format("share descriptor: offset {}: {} bytes needed, {} found", at_, sizeof(T),
                                                         bytes_.size() - at_));
        }
        T value;
        std::memcpy(&value, bytes_.data() + at_, sizeof value);
        at_ += sizeof value;
        return value;
    }
    std::string get_digits() {
        std::string digits;
        for (const std::uint8_t value : get<std::array<std::uint8_t, 16>>())
            digits += fmt::format("{:02x}", value);
        return digits;
    }
    [[nodiscard]] std::size_t left_bytes() const noexcept { return bytes_.size() - at_; }

private:
    std::span<const std::byte> bytes_;
    std::size_t at_ = 0;
};

std::uint32_t checksum(std::span<const std::byte> bytes) {
    constexpr std::array<unsigned char, sizeof(std::uint32_t)> nothing{};
    const auto add = [](uLong sum, const void* data, std::size_t size) {
        return ::crc32(sum, static_cast<const Bytef*>(data), static_cast<uInt>(size));
    };
    uLong sum = add(0, bytes.data(), checksum_at);
    sum = add(sum, nothing.data(), nothing.size());
    const std::size_t rest = checksum_at + nothing.size();
    return static_cast<std::uint32_t>(add(sum, bytes.data() + rest, bytes.size() - rest));
}

[[noreturn]] void refuse(std::string_view what, std::uint64_t needed, std::uint64_t found) {
    throw Error(ErrorCode::bad_file, fmt::format("share descriptor: {}: {} needed at most, {} found", what, needed, found));
}

template <class Enum>
Enum get_enum(Reader& reader, std::string_view what, Enum last) {
    const auto value = reader.get<std::uint8_t>();
    if (value > static_cast<std::uint8_t>(last)) refuse(what, static_cast<std::uint8_t>(last), value);
    return static_cast<Enum>(value);
}

}  // namespace

std::string_view to_string(ShareMethod method) noexcept {
    switch (method) {
        case ShareMethod::device_memory:
            return "device memory";
        case ShareMethod::ipc_handle:
            return "ipc handle";
        case ShareMethod::host_memory:
            return "host memory";
    }
    return "?";
}

void check_inside(ErrorCode code, std::string_view what, DType dtype, const Shape& shape, const Strides& strides_bytes,
                  std::size_t offset_bytes, std::size_t size_bytes) {
    if (strides_bytes.size() != shape.size()) {
        throw Error(code == ErrorCode::bad_file ? code : ErrorCode::invalid_argument,
                    fmt::format("{} of shape {}: {} strides for {} dimensions", what, to_string(shape), strides_bytes.size(),
                                shape.size()));
    }
    if (element_count(shape, tandem::size_bytes(dtype)) == 0) return;
    Wide lowest = static_cast<Wide>(offset_bytes);
    Wide end = lowest + static_cast<Wide>(tandem::size_bytes(dtype));
    for (std::size_t d = 0; d < shape.size(); ++d) {
        const Wide span = static_cast<Wide>(strides_bytes[d]) * (shape[d] - 1);
        (span < 0 ? lowest : end) += span;
    }
    if (lowest >= 0 && end <= static_cast<Wide>(size_bytes)) return;
    static constexpr Wide largest = std::numeric_limits<std::int64_t>::max();
    const auto shown = [](Wide value) { return static_cast<std::int64_t>(std::clamp<Wide>(value, -largest, largest)); };
    throw Error(code, fmt::format("{} of {} {} at offset {}: bytes {} to {} needed, 0 to {} found", what, to_string(dtype),
                                  to_string(shape), offset_bytes, shown(lowest), shown(end), size_bytes));
}

std::string normal_uuid(std::string_view text) {
    std::string digits;
    for (const char c : text) {
        if (c == '-') continue;
        if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return {};
        digits += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return digits.size() == 32 ? digits : std::string();
}

std::string random_id() {
    std::array<std::uint8_t, 16> values{};
    if (::getrandom(values.data(), values.size(), 0) != static_cast<ssize_t>(values.size()))
        throw Error(ErrorCode::io, "getrandom of 16 bytes failed", errno);
    std::string digits;
    for (const std::uint8_t value : values)
        digits += fmt::format("{:02x}", value);
    return digits;
}

ShareMethod ShareDescriptor::method() const noexcept {
    return state_->range.method;
}
DType ShareDescriptor::dtype() const noexcept {
    return state_->dtype;
}
const Shape& ShareDescriptor::shape() const noexcept {
    return state_->shape;
}
const Strides& ShareDescriptor::strides_bytes() const noexcept {
    return state_->strides_bytes;
}
std::size_t ShareDescriptor::offset_bytes() const noexcept {
    return state_->offset_bytes;
}
std::size_t ShareDescriptor::size_bytes() const noexcept {
    return state_->range.size_bytes;
}
MemoryKind ShareDescriptor::kind() const noexcept {
    return state_->kind;
}
bool ShareDescriptor::is_writable() const noexcept {
    return state_->range.is_writable;
}
int ShareDescriptor::exporter_pid() const noexcept {
    return state_->exporter.pid;
}
const std::string& ShareDescriptor::device_uuid() const noexcept {
    return state_->range.device_uuid;
}
const std::string& ShareDescriptor::memory_id() const noexcept {
    return state_->memory_id;
}

std::vector<int> ShareDescriptor::file_descriptors() const {
    if (!state_->file.is_open()) return {};
    return {state_->file.number()};
}

std::vector<std::byte> ShareDescriptor::to_bytes() const {
    const State& state = *state_;
    Writer writer;
    writer.put(magic);
    writer.put(format_version);
    writer.put(std::uint32_t{0});  // length
    writer.put(std::uint32_t{0});  // checksum
    writer.put(static_cast<std::uint8_t>(state.range.method));
    writer.put(static_cast<std::uint8_t>(state.kind));
    writer.put(static_cast<std::uint8_t>(state.dtype));
    writer.put(static_cast<std::uint8_t>(state.range.is_writable));
    writer.put(static_cast<std::uint8_t>(!state.range.device_uuid.empty()));
    writer.put_digits(state.range.device_uuid);
    writer.put_digits(state.memory_id);
    writer.put(static_cast<std::int32_t>(state.exporter.pid));
    writer.put(state.exporter.start_time);
    writer.put(state.exporter.pid_namespace);
    writer.put(static_cast<std::uint64_t>(state.range.size_bytes));
    writer.put(static_cast<std::uint64_t>(state.range.base_offset_bytes));
    writer.put(static_cast<std::uint64_t>(state.offset_bytes));
    writer.put(state.range.handle);
    writer.put(static_cast<std::uint8_t>(state.shape.size()));
    for (const std::int64_t length : state.shape)
        writer.put(length);
    for (const std::int64_t stride : state.strides_bytes)
        writer.put(stride);
    std::vector<std::byte> bytes = std::move(writer.bytes());
    const auto store = [&](std::size_t at, std::uint32_t value) { std::memcpy(bytes.data() + at, &value, sizeof value); };
    store(length_at, static_cast<std::uint32_t>(bytes.size()));
    store(checksum_at, checksum(bytes));
    return bytes;
}

ShareDescriptor ShareDescriptor::from_bytes(std::span<const std::byte> bytes, const std::vector<int>& file_descriptors) {
    std::vector<FileDescriptor> files;
    try {
        files.reserve(file_descriptors.size());
    } catch (...) {
        for (const int number : file_descriptors)
            const FileDescriptor closed(number);
        throw;
    }
    for (const int number : file_descriptors)
        files.emplace_back(number);

    if (bytes.size() > max_bytes) refuse("length in bytes", max_bytes, bytes.size());
    Reader reader(bytes);
    if (reader.get<std::array<char, 8>>() != magic)
        throw Error(ErrorCode::bad_file, "share descriptor: offset 0: TANDEMSH needed, something else found");
    if (const auto version = reader.get<std::uint32_t>(); version != format_version) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("share descriptor: format version {} needed, {} found: the other process runs another version",
                                format_version, version));
    }
    if (const auto length = reader.get<std::uint32_t>(); length != bytes.size())
        throw Error(ErrorCode::bad_file, fmt::format("share descriptor: {} bytes needed, {} found", length, bytes.size()));
    const auto stated = reader.get<std::uint32_t>();
    if (const std::uint32_t found = checksum(bytes); stated != found) {
        throw Error(ErrorCode::bad_file, fmt::format("share descriptor: checksum {:08x} needed, {:08x} found", stated, found));
    }

    auto state = std::make_shared<State>();
    driver::SharedRange& range = state->range;
    range.method = get_enum(reader, "share method", ShareMethod::host_memory);
    state->kind = get_enum(reader, "memory kind", MemoryKind::adopted);
    state->dtype = get_enum(reader, "dtype", static_cast<DType>(dtype_count - 1));
    const auto get_bool = [&](std::string_view what) {
        const auto value = reader.get<std::uint8_t>();
        if (value > 1) refuse(what, 1, value);
        return value == 1;
    };
    range.is_writable = get_bool("whether it is writable");
    const bool has_uuid = get_bool("whether there is a UUID");
    range.device_uuid = reader.get_digits();
    if (!has_uuid) {
        if (range.device_uuid != std::string(32, '0'))
            throw Error(ErrorCode::bad_file, "share descriptor: no UUID needed, one found");
        range.device_uuid.clear();
    }
    state->memory_id = reader.get_digits();
    state->exporter.pid = reader.get<std::int32_t>();
    state->exporter.start_time = reader.get<std::uint64_t>();
    state->exporter.pid_namespace = reader.get<std::uint32_t>();
    if (state->exporter.pid < 0) throw Error(ErrorCode::bad_file, "share descriptor: the exporter's pid is negative");
    constexpr std::uint64_t largest = std::numeric_limits<std::int64_t>::max();
    const auto get_size = [&](std::string_view what, std::uint64_t most) {
        const auto value = reader.get<std::uint64_t>();
        if (value > most) refuse(what, most, value);
        return static_cast<std::size_t>(value);
    };
    range.size_bytes = get_size("bytes of the range", largest);
    range.base_offset_bytes = get_size("offset of the range", range.method == ShareMethod::ipc_handle ? largest : 0);
    if (range.base_offset_bytes > largest - range.size_bytes)
        refuse("end of the range", largest - range.size_bytes, range.base_offset_bytes);
    state->offset_bytes = get_size("offset of the array", range.size_bytes);
    range.handle = reader.get<std::array<std::byte, 64>>();
    const auto dimensions = reader.get<std::uint8_t>();
    if (dimensions > max_dimensions) refuse("dimensions", max_dimensions, dimensions);
    const std::size_t left = std::size_t{2} * dimensions * sizeof(std::int64_t);
    if (reader.left_bytes() != left) {
        throw Error(ErrorCode::bad_file, fmt::format("share descriptor: {} bytes needed for {} dimensions, {} found", left,
                                                     dimensions, reader.left_bytes()));
    }
    state->shape.resize(dimensions);
    state->strides_bytes.resize(dimensions);
    for (std::int64_t& length : state->shape)
        length = reader.get<std::int64_t>();
    for (std::int64_t& stride : state->strides_bytes)
        stride = reader.get<std::int64_t>();
    try {
        check_inside(ErrorCode::bad_file, "share descriptor: array", state->dtype, state->shape, state->strides_bytes,
                     state->offset_bytes, range.size_bytes);
    } catch (const Error& error) {
        if (error.code() == ErrorCode::bad_file) throw;
        throw Error(ErrorCode::bad_file, fmt::format("share descriptor: {}", error.what()));
    }

    const std::size_t needed = range.method == ShareMethod::ipc_handle || range.size_bytes == 0 ? 0 : 1;
    if (files.size() != needed) {
        throw Error(ErrorCode::invalid_argument, fmt::format("share descriptor of {}: {} file descriptors needed, {} found",
                                                             to_string(range.method), needed, files.size()));
    }
    if (needed != 0) {
        if (::fcntl(files[0].number(), F_GETFD) < 0) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("share descriptor: {} is no open file descriptor", files[0].number()), errno);
        }
        state->file = std::move(files[0]);
    }
    return ShareDescriptor(std::move(state));
}

ShareDescriptor ShareDescriptor::from_cuda_ipc_handle(const CudaIpcHandle& handle, DType dtype, Shape shape,
                                                      const std::optional<Strides>& strides_bytes) {
    auto state = std::make_shared<State>();
    const std::size_t item_bytes = tandem::size_bytes(dtype);
    const bool is_empty = element_count(shape, item_bytes) == 0;
    state->strides_bytes = strides_bytes.value_or(dense_strides(shape, item_bytes));
    const std::size_t most = handle.allocation_bytes != 0 ? handle.allocation_bytes : std::numeric_limits<std::int64_t>::max();
    check_inside(ErrorCode::out_of_range, "CUDA IPC handle: array", dtype, shape, state->strides_bytes, handle.offset_bytes,
                 most);
    driver::SharedRange& range = state->range;
    range.method = ShareMethod::ipc_handle;
    range.is_writable = handle.is_writable;
    range.device_uuid = normal_uuid(handle.device_uuid);
    if (range.device_uuid.empty() && !handle.device_uuid.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("CUDA IPC handle: a UUID of 32 hexadecimal digits needed, \"{}\" found", handle.device_uuid));
    }
    // The range is the array's own bytes: what lies beside them in the allocation is somebody else's.
    std::size_t before = 0, after = is_empty ? 0 : item_bytes;
    for (std::size_t d = 0; d < shape.size() && !is_empty; ++d) {
        const std::int64_t span = state->strides_bytes[d] * (shape[d] - 1);
        if (span < 0) before += static_cast<std::size_t>(-span);
        if (span > 0) after += static_cast<std::size_t>(span);
    }
    range.base_offset_bytes = handle.offset_bytes - before;
    range.size_bytes = before + after;
    std::copy(handle.handle.begin(), handle.handle.end(), range.handle.begin());
    state->offset_bytes = before;
    state->dtype = dtype;
    state->shape = std::move(shape);
    if (handle.exporter_pid != 0) {
        // One that is not there has ended, as attaching tells.
        const ProcessIdentity ended{handle.exporter_pid, 0, own_identity().pid_namespace};
        state->exporter = find_process(handle.exporter_pid).value_or(ended);
    }
    state->memory_id = random_id();
    return ShareDescriptor(std::move(state));
}

}  // namespace tandem
