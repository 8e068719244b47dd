#include "core/adoption.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/address_space.hpp"
#include "core/device_state.hpp"
#include "core/driver.hpp"
#include "core/elementwise.hpp"
#include "core/posix_file.hpp"
#include "core/transport/file_transfer.hpp"
#include "tandem/error.hpp"
#include "tandem/ops.hpp"

namespace tandem {
namespace {

// A copy that stands in for memory the device can't work on. Its contents are the caller's to fill.
Buffer make_mirror(const Device& device, const driver::HostRange& range, bool may_write, const AdoptOptions& options,
                   const std::string& why_not) {
    std::shared_ptr<driver::Memory> memory = device.state()->allocate(range.size_bytes, options.fallback);
    memory->set_residency({ZeroCopy::no, fmt::format("copied to {}: {}", memory->residency().description, why_not)});
    memory->mirrored = range.data;
    memory->is_writable = may_write;
    memory->owner = options.owner;
    return {device, std::move(memory), range.size_bytes, MemoryKind::adopted};
}

void check_options(const AdoptOptions& options) {
    if (options.fallback == MemoryKind::adopted)
        throw Error(ErrorCode::invalid_argument, "adopt: the fallback can't be adopted memory itself");
}

// Throws unsupported where zero copy is required: `what` can't be had in place, and why.
void check_copy_allowed(const AdoptOptions& options, const Device& device, const std::string& what, const std::string& why_not) {
    if (!options.require_zero_copy) return;
    throw Error(ErrorCode::unsupported, fmt::format("{}: {} can't be used without a copy: {}", device.spec(), what, why_not));
}

// `range` in place, held by `options.owner`, for the device to write to where `may_write`. Nothing where the device can't, with
// the reason in `why_not`.
std::optional<Buffer> adopt_in_place(const Device& device, const driver::HostRange& range, bool may_write,
                                     const AdoptOptions& options, std::string& why_not) {
    check_options(options);
    std::shared_ptr<driver::Memory> memory;
    try {
        memory = device.state()->native->adopt(range);
    } catch (const Error& error) {
        if (error.code() == ErrorCode::out_of_memory)
            throw Error(error.code(), fmt::format("{}: {}", device.spec(), error.what()), error.native_code());
        if (error.code() != ErrorCode::unsupported) throw;
        why_not = error.what();
    }
    const bool is_certain = memory != nullptr && memory->residency().zero_copy == ZeroCopy::yes;
    if (!is_certain)
        check_copy_allowed(options, device, fmt::format("{} bytes", range.size_bytes),
                           memory == nullptr ? why_not : memory->residency().description);
    if (memory == nullptr) return {};
    memory->is_writable = may_write;
    memory->owner = options.owner;
    return Buffer(device, std::move(memory), range.size_bytes, MemoryKind::adopted);
}

Buffer adopt_range(const Device& device, std::byte* data, std::size_t size_bytes, bool may_write, const AdoptOptions& options) {
    if (size_bytes == 0) return {device, nullptr, 0, MemoryKind::adopted};
    // A range that wraps around the address space ends before it begins.
    const bool wraps = reinterpret_cast<std::uintptr_t>(data) > UINTPTR_MAX - size_bytes;
    const RangeFacts facts = wraps ? RangeFacts{.is_mapped = false} : facts_of(data, size_bytes);
    if (!facts.is_mapped || (may_write && !facts.is_writable)) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("adopt of {} bytes at {}: not all of it is memory that this process can {}", size_bytes,
                                fmt::ptr(data), facts.is_mapped ? "write to" : "read"));
    }
    const driver::HostRange range{data, size_bytes, facts.is_writable, facts.is_file, facts.is_private_file};
    std::string why_not;
    if (auto buffer = adopt_in_place(device, range, may_write, options, why_not)) return std::move(*buffer);
    Buffer buffer = make_mirror(device, range, may_write, options, why_not);
    device.state()->write(buffer.memory(), 0, data, size_bytes);
    return buffer;
}

// The bytes that an array at `data` takes, which may begin before it.
template <class Data>
Array adopt_strided(const Device& device, Data* data, DType dtype, Shape shape, const std::optional<Strides>& given,
                    const AdoptOptions& options) {
    constexpr bool may_write = !std::is_const_v<Data>;
    const std::int64_t count = element_count(shape, size_bytes(dtype));
    const Strides strides = given.value_or(dense_strides(shape, size_bytes(dtype)));
    if (strides.size() != shape.size()) {
        throw Error(ErrorCode::invalid_argument, fmt::format("adopt: {} strides for shape {}", strides.size(), to_string(shape)));
    }
    std::int64_t before = 0, after = 0, reach = 0;
    bool overflows = false;
    for (std::size_t d = 0; d < shape.size() && count != 0; ++d) {
        std::int64_t span = 0;
        std::int64_t& side = strides[d] < 0 ? before : after;
        overflows |= __builtin_mul_overflow(strides[d], shape[d] - 1, &span) || __builtin_add_overflow(side, span, &side);
    }
    overflows |= __builtin_sub_overflow(after, before, &reach) ||
                 __builtin_add_overflow(reach, static_cast<std::int64_t>(size_bytes(dtype)), &reach);
    if (overflows) {
        throw Error(ErrorCode::out_of_range,
                    fmt::format("adopt of shape {}: its strides reach beyond any memory", to_string(shape)));
    }
    const std::size_t size = count == 0 ? 0 : static_cast<std::size_t>(reach);
    auto* first = const_cast<std::byte*>(static_cast<const std::byte*>(static_cast<const void*>(data))) + before;
    const Buffer buffer = adopt_range(device, first, size, may_write, options);
    return {buffer, dtype, std::move(shape), strides, static_cast<std::size_t>(-before)};
}

}  // namespace

std::string improper_reason(DType dtype, bool is_swapped) {
    if (is_swapped) return "its elements are big-endian, and are swapped while loading";
    if (dtype == boolean) return "its bools may be bytes other than 0 and 1, and are made so while loading";
    return {};
}

Array copy_improper(const Device& device, const MappedFile& file, const AdoptOptions& options, const std::string& reason,
                    const std::function<Array()>& load) {
    const std::string name = printable_path(file.path());
    check_options(options);
    check_copy_allowed(options, device, name, reason);
    if (file.access() == FileAccess::read_write)
        throw Error(ErrorCode::unsupported, fmt::format("{}: {} can't be written to in place: {}", device.spec(), name, reason));
    Array array = load();
    array.set_residency(ZeroCopy::no, fmt::format("{}: {}", array.residency(), reason));
    if (array.count() != 0) array.memory()->is_writable = file.access() != FileAccess::read;
    return array;
}

void make_proper(Queue& queue, const Array& array, bool is_swapped) {
    if (array.count() == 0) return;
    if (is_swapped) byteswap(queue, array, array);
    if (array.dtype() == boolean) run_elementwise(queue, Op::copy, {&array}, array);
}

void make_proper(const Array& array, bool is_swapped) {
    if (improper_reason(array.dtype(), is_swapped).empty()) return;
    Queue queue(array.device());
    make_proper(queue, array, is_swapped);
    queue.synchronize();
}

Buffer adopt_file(const Device& device, const MappedFile& file, std::uint64_t offset_bytes, std::uint64_t size_bytes,
                  const AdoptOptions& options) {
    if (size_bytes == 0) return {device, nullptr, 0, MemoryKind::adopted};
    if (!file.is_mapped()) {
        throw Error(ErrorCode::io,
                    fmt::format("{}: it was opened without a mapping, since the address space has no room for its {} bytes",
                                printable_path(file.path()), file.size_bytes()));
    }
    AdoptOptions kept = options;
    using Kept = std::pair<MappedFile, std::shared_ptr<const void>>;
    kept.owner = std::make_shared<const Kept>(file, options.owner);
    const std::string& not_mapped = file.why_in_memory();
    if (file.in_memory()) check_copy_allowed(options, device, printable_path(file.path()), not_mapped);
    const bool may_write = file.access() != FileAccess::read;
    const bool is_private = file.access() == FileAccess::copy_on_write;
    const driver::HostRange range{const_cast<std::byte*>(file.bytes().data()) + offset_bytes,
                                  static_cast<std::size_t>(size_bytes), may_write || file.in_memory(), !file.in_memory(),
                                  is_private && !file.in_memory()};
    std::string why_not;
    if (auto buffer = adopt_in_place(device, range, may_write, kept, why_not)) {
        if (file.in_memory())
            buffer->memory()->set_residency({ZeroCopy::no, fmt::format("copied: {}; {}", not_mapped, buffer->residency())});
        return std::move(*buffer);
    }
    Buffer buffer = make_mirror(device, range, may_write, kept, why_not);
    load_bytes(file, offset_bytes, Array(buffer, uint8, {static_cast<std::int64_t>(size_bytes)}));
    return buffer;
}

Buffer adopt_bytes(const Device& device, std::span<std::byte> bytes, const AdoptOptions& options) {
    return adopt_range(device, bytes.data(), bytes.size(), true, options);
}

Buffer adopt_bytes(const Device& device, std::span<const std::byte> bytes, const AdoptOptions& options) {
    return adopt_range(device, const_cast<std::byte*>(bytes.data()), bytes.size(), false, options);
}

Buffer adopt_bytes(const Device& device, const MappedFile& file, const AdoptOptions& options) {
    return adopt_file(device, file, 0, file.size_bytes(), options);
}

Array adopt(const Device& device, void* data, DType dtype, Shape shape, const std::optional<Strides>& strides_bytes,
            const AdoptOptions& options) {
    return adopt_strided(device, data, dtype, std::move(shape), strides_bytes, options);
}

Array adopt(const Device& device, const void* data, DType dtype, Shape shape, const std::optional<Strides>& strides_bytes,
            const AdoptOptions& options) {
    return adopt_strided(device, data, dtype, std::move(shape), strides_bytes, options);
}

namespace {

Grant grant_of(std::string reason_against) {
    return {true, reason_against.empty(), std::move(reason_against)};
}

}  // namespace

Grant prefetch(Queue& queue, const Array& array, Location where) {
    check_same_device("prefetch", queue, array);
    if (array.count() == 0) return grant_of("there are no bytes");
    const ByteRange bytes = byte_range(array);
    QueueState::Submission submission(queue.state(), array.size_bytes());
    submission.use(array.memory());
    return grant_of(submission.native().prefetch(*array.memory(), static_cast<std::size_t>(bytes.first),
                                                 static_cast<std::size_t>(bytes.end - bytes.first), where));
}

Grant advise(const Array& array, MemoryAdvice advice) {
    if (array.count() == 0) return grant_of("there are no bytes");
    const ByteRange bytes = byte_range(array);
    return grant_of(array.device().state()->native->advise(*array.memory(), static_cast<std::size_t>(bytes.first),
                                                           static_cast<std::size_t>(bytes.end - bytes.first), advice));
}

}  // namespace tandem
