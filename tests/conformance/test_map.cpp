// What the host may see when, and what the device may do meanwhile: the rules of `map`, for every kind.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "fixture.hpp"

namespace tandem::test {
namespace {

ZeroCopy expected_zero_copy() {
    if (is_host_memory_native()) return ZeroCopy::yes;
    const bool is_cuda = device().info().backend == "cuda";
    switch (options().kind) {
        case MemoryKind::pinned:
            return is_cuda ? ZeroCopy::yes : ZeroCopy::driver_decides;
        case MemoryKind::shared:
            return ZeroCopy::driver_decides;
        case MemoryKind::adopted:
            return is_cuda ? ZeroCopy::yes : ZeroCopy::no;
        default:
            return ZeroCopy::no;
    }
}

}  // namespace

TEST_CASE("a buffer says truthfully where its bytes are") {
    const Buffer buffer = make_buffer(10'000);
    INFO(buffer.residency());
    CHECK(buffer.zero_copy() == expected_zero_copy());
    CHECK(buffer.residency().find(device().spec()) != std::string::npos);
    const Array array(buffer, uint8, {10'000});
    CHECK(array.zero_copy() == buffer.zero_copy());
    CHECK(array.residency() == buffer.residency());
    CHECK(array.slice(0, 5, 10).residency() == buffer.residency());
    const HostView view = buffer.map(Access::read);
    if (buffer.zero_copy() == ZeroCopy::yes) {
        CHECK(view.in_place());
        if (buffer.host_address() != nullptr) CHECK(view.data() == buffer.host_address());
    }
}

TEST_CASE("a host address that lasts shows what the device has written, without a map") {
    const Buffer buffer = buffer_with(make_elements(int32, 1000, 1));
    std::byte* address = buffer.host_address();
    if (is_host_memory_native() && options().kind != MemoryKind::device) REQUIRE(address != nullptr);
    if (address == nullptr) return;
    const Array array(buffer, int32, {1000});
    Bytes expected = bytes_of(buffer);
    Queue queue(device());
    twice(queue, array);
    queue.synchronize();
    for (std::size_t i = 0; i < expected.size(); i += 4) {
        std::uint32_t value = 0;
        std::memcpy(&value, expected.data() + i, 4);
        value *= 2;
        std::memcpy(expected.data() + i, &value, 4);
    }
    CHECK(std::memcmp(address, expected.data(), expected.size()) == 0);
}

TEST_CASE("work on what is mapped is refused, unless both only read") {
    Queue queue(device());
    const Array array = make_array(float32, {1000}), out = make_array(float32, {1000});
    std::vector<float> host(1000, 1.0F);
    copy(queue, host, array);
    {
        const auto view = array.map<float>(Access::write);
        CHECK_ERROR(ErrorCode::invalid_argument, "mapped", twice(queue, array, out));
        CHECK_ERROR(ErrorCode::invalid_argument, "mapped", twice(queue, out, array));
        CHECK_ERROR(ErrorCode::invalid_argument, "mapped", add(queue, out, array, out));
        CHECK_ERROR(ErrorCode::invalid_argument, "mapped", copy(queue, array, out));
        CHECK_ERROR(ErrorCode::invalid_argument, "mapped", copy(queue, host, array));
        CHECK_ERROR(ErrorCode::invalid_argument, "mapped", copy(queue, array, host));
        std::fill(view.begin(), view.end(), 3.0F);
    }
    {
        const auto view = array.map<float>(Access::read);
        twice(queue, array, out);
        CHECK_ERROR(ErrorCode::invalid_argument, "mapped", twice(queue, array));
        CHECK(view[999] == 3.0F);
    }
    twice(queue, array);
    CHECK(array.map<float>(Access::read)[0] == 6.0F);
    CHECK(out.map<float>(Access::read)[999] == 6.0F);
}

TEST_CASE("what is not mapped of a buffer can be worked on") {
    Queue queue(device());
    const Array array = make_array(int32, {2000});
    std::vector<std::int32_t> host(2000);
    std::iota(host.begin(), host.end(), 0);
    copy(queue, host, array);
    {
        const auto view = array.slice(0, 0, 1000).map<std::int32_t>(Access::read_write);
        twice(queue, array.slice(0, 1000, 2000));
        queue.synchronize();
        for (std::int32_t& value : view)
            value = -value;
    }
    const auto result = array.map<std::int32_t>(Access::read);
    std::int64_t wrong = 0;
    for (std::int32_t i = 0; i < 2000; ++i)
        wrong += result[static_cast<std::size_t>(i)] != (i < 1000 ? -i : 2 * i);
    CHECK(wrong == 0);
}

TEST_CASE("two views: both for reading, or apart") {
    const Buffer buffer = buffer_with(make_elements(uint8, 5000, 7));
    const Array array(buffer, uint8, {5000});
    {
        const HostView one = buffer.map(Access::read), two = buffer.map(Access::read);
        CHECK(std::memcmp(one.data(), two.data(), 5000) == 0);
        CHECK_ERROR(ErrorCode::invalid_argument, "another view", (void)buffer.map(Access::write));
        CHECK_ERROR(ErrorCode::invalid_argument, "another view",
                    (void)array.slice(0, 4999, 5000).map<std::uint8_t>(Access::read_write));
    }
    const auto low = array.slice(0, 0, 2500).map<std::uint8_t>(Access::read_write);
    const auto high = array.slice(0, 2500, 5000).map<std::uint8_t>(Access::read_write);
    CHECK_ERROR(ErrorCode::invalid_argument, "another view", (void)buffer.map(Access::read));
    std::swap(low[0], high[0]);
}

TEST_CASE("prefetch and advice say whether they did anything") {
    Queue queue(device());
    const Array array = make_array(float32, {100'000});
    std::vector<float> host(100'000, 1.5F);
    copy(queue, host, array);
    for (const Location where : {Location::device, Location::host, Location::device}) {
        const Grant outcome = prefetch(queue, array, where);
        CHECK(outcome.granted == outcome.reason.empty());
        if (is_host_memory_native()) CHECK(outcome.reason == "both sides use it in place");
        if (device().info().backend == "cuda") CHECK(outcome.granted == (options().kind == MemoryKind::shared));
        twice(queue, array);
    }
    for (const MemoryAdvice advice :
         {MemoryAdvice::read_mostly, MemoryAdvice::prefer_device, MemoryAdvice::prefer_host, MemoryAdvice::normal}) {
        const Grant outcome = advise(array, advice);
        CHECK(outcome.granted == outcome.reason.empty());
        CHECK(outcome.granted == (device().info().backend == "cuda" && options().kind == MemoryKind::shared));
        twice(queue, array);
    }
    CHECK(array.map<float>(Access::read)[99'999] == 1.5F * 128);
    CHECK_FALSE(prefetch(queue, make_array(float32, {0}), Location::device).granted);
}

TEST_CASE("kinds meet in one operation") {
    Queue queue(device());
    const Array mine = make_array(int64, {1003});
    std::vector<std::int64_t> ones(1003, 1);
    copy(queue, ones, mine);
    for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pinned, MemoryKind::shared}) {
        Array other;
        try {
            other = empty(device(), int64, {1003}, kind);
        } catch (const Error& error) {
            CHECK(error.code() == ErrorCode::unsupported);
            continue;
        }
        add(queue, mine, mine, other);
        copy(queue, other, mine);
    }
    const auto view = mine.map<std::int64_t>(Access::read);
    CHECK(std::all_of(view.begin(), view.end(),
                      [&](std::int64_t value) { return value == view[0] && (value == 8 || value == 4); }));
}

}  // namespace tandem::test
