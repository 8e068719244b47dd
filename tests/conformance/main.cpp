// Runs the conformance suite for one device and one memory kind:
//   tandem_conformance --device SPEC [--kind KIND] [--window-bytes N] [--large] [doctest's options]
// The tests of arrays beyond 1 GiB run with --large, and then alone: they take gigabytes, and many more under a sanitizer. A
// device that is not there is a failure, never a skip.

#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>

#include "core/device_state.hpp"
#include "core/driver.hpp"
#include "fixture.hpp"
#include "known_gaps.hpp"

namespace tandem::test {
namespace {

Options& mutable_options() {
    static Options options;
    return options;
}

// As open_device, but with the device's largest allocation made small, so that arrays of a few kilobytes consist of many windows.
Device open_with_windows(std::size_t window_bytes) {
    DeviceInfo info = open_device(options().device).info();
    info.max_window_bytes = window_bytes;
    for (const auto& registration : driver::registrations()) {
        if (info.backend == registration.name) return Device(std::make_shared<DeviceState>(registration.backend().open(info)));
    }
    throw Error(ErrorCode::internal, "backend not registered");
}

bool set_kind(std::string_view name) {
    for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pinned, MemoryKind::shared, MemoryKind::adopted}) {
        if (name != to_string(kind)) continue;
        mutable_options().kind = kind;
        return true;
    }
    return false;
}

bool is_gap_here(const KnownGap& gap) {
    const bool is_backend = device().info().backend == gap.backend || std::string_view(gap.backend) == "any";
    return is_backend && std::string_view(gap.kind) == to_string(options().kind);
}

int run(int argc, char** argv) {
    // Devices stay open for the whole process.
    static const Device opened = device();

    std::string excluded;
    for (const KnownGap& gap : known_gaps) {
        if (is_gap_here(gap)) excluded += std::string(excluded.empty() ? "" : ",") + gap.test_case;
    }
    doctest::Context context(argc, argv);
    if (options().large) {
        context.addFilter("test-suite", "large");
    } else {
        context.addFilter("test-suite-exclude", options().kind == MemoryKind::adopted ? "large" : "large,adoption");
    }
    if (!excluded.empty()) context.addFilter("test-case-exclude", excluded.c_str());
    int status = context.run();
    if (context.shouldExit()) return status;

    for (const KnownGap& gap : known_gaps) {
        if (!is_gap_here(gap)) continue;
        doctest::Context alone;
        alone.addFilter("test-case", gap.test_case);
        std::ostringstream failures;  // which are expected, and would read as real ones
        alone.setCout(&failures);
        if (alone.run() == 0) {
            std::printf("unexpected pass: \"%s\" is a known gap of %s/%s (%s)\n", gap.test_case, gap.backend, gap.kind,
                        gap.reason);
            status = 1;
        } else {
            std::printf("known gap: \"%s\": %s\n", gap.test_case, gap.reason);
        }
    }
    return status;
}

}  // namespace

const Options& options() {
    return mutable_options();
}

Device device() {
    static const Device opened =
        options().window_bytes != 0 ? open_with_windows(options().window_bytes) : open_device(options().device);
    return opened;
}

Buffer make_buffer(std::size_t size_bytes) {
    if (options().kind != MemoryKind::adopted) return {device(), size_bytes, options().kind};
    constexpr std::size_t page = 4096, lead = 80;
    // Not operator new, whose failure a sanitizer takes for the program's.
    void* memory = std::aligned_alloc(page, (lead + size_bytes + page - 1) / page * page);
    if (memory == nullptr) throw std::bad_alloc();
    const std::shared_ptr<std::byte[]> pages(static_cast<std::byte*>(memory), &std::free);
    return adopt_bytes(device(), std::span(pages.get() + lead, size_bytes), {.owner = pages});
}

Array make_array(DType dtype, Shape shape, Order order) {
    // For what empty() refuses, adopted memory is the caller's own.
    if (options().kind != MemoryKind::adopted) return empty(device(), dtype, std::move(shape), options().kind, order);
    const auto count = static_cast<std::size_t>(element_count(shape, size_bytes(dtype)));
    return {make_buffer(count * size_bytes(dtype)), dtype, std::move(shape), 0, order};
}

bool is_host_memory_native() {
    return device().info().backend == "host" || (device().info().type == DeviceType::cpu && device().info().shares_host_memory);
}

Buffer buffer_with(std::span<const std::byte> bytes) {
    Buffer buffer = make_buffer(bytes.size());
    HostView view = buffer.map(Access::write);
    if (!bytes.empty()) std::memcpy(view.data(), bytes.data(), bytes.size());
    view.unmap();
    return buffer;
}

Bytes bytes_of(const Buffer& buffer) {
    HostView view = buffer.map(Access::read);
    Bytes bytes(view.data(), view.data() + view.size_bytes());
    view.unmap();
    return bytes;
}

Bytes elements_of(const Buffer& buffer, const Array& array) {
    const Bytes bytes = bytes_of(buffer);
    const std::size_t item_bytes = size_bytes(array.dtype());
    Bytes elements;
    std::vector<std::int64_t> index(array.dimensions(), 0);
    for (std::int64_t i = 0; i < array.count(); ++i) {
        auto offset = static_cast<std::int64_t>(array.offset_bytes());
        for (std::size_t d = 0; d < index.size(); ++d)
            offset += index[d] * array.strides_bytes()[d];
        const std::byte* element = bytes.data() + offset;
        elements.insert(elements.end(), element, element + item_bytes);
        for (std::size_t d = index.size(); d-- > 0;) {
            if (++index[d] < array.shape()[d]) break;
            index[d] = 0;
        }
    }
    return elements;
}

}  // namespace tandem::test

int main(int argc, char** argv) {
    using namespace tandem;
    test::Options& options = test::mutable_options();
    for (int i = 1; i < argc; ++i)
        options.large = options.large || std::strcmp(argv[i], "--large") == 0;
    for (int i = 1; i + 1 < argc; ++i) {
        if (std::strcmp(argv[i], "--device") == 0) options.device = argv[i + 1];
        if (std::strcmp(argv[i], "--window-bytes") == 0) options.window_bytes = std::strtoull(argv[i + 1], nullptr, 10);
        if (std::strcmp(argv[i], "--kind") == 0 && !test::set_kind(argv[i + 1])) {
            std::fprintf(stderr, "unknown memory kind %s\n", argv[i + 1]);
            return 2;
        }
    }
    if (options.device.empty()) {
        std::fprintf(stderr, "usage: %s --device SPEC [--kind KIND] [--window-bytes N]\n", argv[0]);
        return 2;
    }
    try {
        return test::run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
