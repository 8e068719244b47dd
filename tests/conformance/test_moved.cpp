// What was moved from is empty, in the way that its header says; nothing that is done with it is undefined.
#include <type_traits>

#include "fixture.hpp"

// NOLINTBEGIN(bugprone-use-after-move): that is what this is about

namespace tandem::test {
namespace {

template <class T>
constexpr bool moves_quietly = std::is_nothrow_move_constructible_v<T>&& std::is_nothrow_move_assignable_v<T>;
static_assert(moves_quietly<Device> && moves_quietly<Queue> && moves_quietly<Event> && moves_quietly<Buffer> &&
              moves_quietly<Array> && moves_quietly<HostView> && moves_quietly<HostArray<float>>);

void check_is_default(const Array& array) {
    const Array none;
    CHECK(array.dtype() == none.dtype());
    CHECK(array.shape() == none.shape());
    CHECK(array.strides_bytes() == none.strides_bytes());
    CHECK(array.offset_bytes() == 0);
    CHECK(array.count() == 0);
    CHECK(array.size_bytes() == 0);
    CHECK(array.is_dense(Order::c));
    CHECK(array.is_dense(Order::fortran));
    CHECK(array.kind() == none.kind());
    CHECK(array.zero_copy() == none.zero_copy());
    CHECK(array.residency() == none.residency());
    CHECK(array.memory() == nullptr);
    CHECK(array.map<float>(Access::read_write).size() == 0);
    CHECK(array.slice(0, 0, 5).count() == 0);
    CHECK(array.reshape({4, 0}).count() == 0);
    CHECK_ERROR(ErrorCode::invalid_argument, "no device", (void)array.device());
    Queue queue(device());
    CHECK_ERROR(ErrorCode::invalid_argument, "no device", twice(queue, array));
    CHECK_ERROR(ErrorCode::invalid_argument, "no device", copy(queue, array, array));
    CHECK_ERROR(ErrorCode::invalid_argument, "no device", (void)empty_like(array));
}

}  // namespace

TEST_CASE("an array that was moved from is Array()") {
    check_is_default(Array());
    std::vector<std::int16_t> values{1, 2, 3, 4, 5, 6};
    Queue queue(device());
    Array first = make_array(int16, {2, 3}).transpose();
    copy(queue, values, first);
    Array second(std::move(first));
    check_is_default(first);
    CHECK(to_vector<std::int16_t>(queue, second) == values);
    Array third = make_array(float32, {7});
    third = std::move(second);
    check_is_default(second);
    CHECK(third.shape() == Shape{3, 2});
    CHECK_FALSE(third.is_dense(Order::c));
    CHECK(to_vector<std::int16_t>(queue, third) == values);
    Array& itself = third;
    third = std::move(itself);
    CHECK(to_vector<std::int16_t>(queue, third) == values);
    first = third;  // it may be used again
    CHECK(to_vector<std::int16_t>(queue, first) == values);
}

TEST_CASE("a buffer that was moved from has zero bytes of its device") {
    const Bytes expected = make_elements(uint8, 1000, 1);
    Buffer first = buffer_with(expected);
    Buffer second(std::move(first));
    Buffer third = make_buffer(10);
    third = std::move(second);
    for (const Buffer* moved : {&first, &second}) {
        CHECK(moved->size_bytes() == 0);
        CHECK(moved->memory() == nullptr);
        CHECK(moved->device() == device());
        CHECK(moved->zero_copy() == ZeroCopy::yes);
        CHECK(moved->residency() == "no bytes");
        CHECK(moved->host_address() == nullptr);
        CHECK(moved->map(Access::read_write).size_bytes() == 0);
        CHECK(Array(*moved, float32, {3, 0}).count() == 0);
        CHECK_ERROR(ErrorCode::out_of_range, "a buffer of 0", Array(*moved, uint8, {1}));
    }
    CHECK(bytes_of(third) == expected);
    Buffer& itself = third;
    third = std::move(itself);
    CHECK(bytes_of(third) == expected);
}

TEST_CASE("a queue that was moved from says so") {
    Queue first(device());
    Queue second(std::move(first));
    Queue third(device());
    third = std::move(second);
    const Array array = make_array(float32, {10}), none = make_array(float32, {0});
    std::vector<float> host(10);
    const std::string told = "this queue was moved from";
    for (Queue* moved : {&first, &second}) {
        CHECK_ERROR(ErrorCode::invalid_argument, told, moved->synchronize());
        CHECK_ERROR(ErrorCode::invalid_argument, told, (void)moved->record());
        CHECK_ERROR(ErrorCode::invalid_argument, told, moved->wait(Event()));
        CHECK_ERROR(ErrorCode::invalid_argument, told, moved->wait(third.record()));
        CHECK_ERROR(ErrorCode::invalid_argument, told, add(*moved, array, array, array));
        CHECK_ERROR(ErrorCode::invalid_argument, told, twice(*moved, none));
        CHECK_ERROR(ErrorCode::invalid_argument, told, copy(*moved, array, array));
        CHECK_ERROR(ErrorCode::invalid_argument, told, copy(*moved, host, array));
        CHECK_ERROR(ErrorCode::invalid_argument, told, copy(*moved, array, host));
        CHECK_ERROR(ErrorCode::invalid_argument, told, (void)to_vector<float>(*moved, array));
        CHECK_ERROR(ErrorCode::invalid_argument, told, (void)prefetch(*moved, array, Location::device));
        CHECK(moved->device().spec().empty());
    }
    twice(third, array);
    third.synchronize();
    first = std::move(third);
    twice(first, array);
    first.synchronize();
}

TEST_CASE("a device that was moved from says so") {
    Device first = device();
    const Device second(std::move(first));
    CHECK(second == device());
    CHECK_FALSE(first == second);
    CHECK(first.spec().empty());
    CHECK(first.info().name.empty());
    CHECK(first.info().memory_bytes == 0);
    const std::string told = "this device was moved from";
    CHECK_ERROR(ErrorCode::invalid_argument, told, Queue{first});
    CHECK_ERROR(ErrorCode::invalid_argument, told, Buffer(first, 10, MemoryKind::device));
    CHECK_ERROR(ErrorCode::invalid_argument, told, Buffer(first, 0, MemoryKind::device));
    CHECK_ERROR(ErrorCode::invalid_argument, told, (void)empty(first, float32, {3}));
    std::vector<float> mine(3), nothing;
    CHECK_ERROR(ErrorCode::invalid_argument, told, (void)adopt(first, mine));
    CHECK_ERROR(ErrorCode::invalid_argument, told, (void)adopt(first, nothing));
    first = second;
    CHECK(first == device());
}

TEST_CASE("a mapped array that was unmapped or moved from is an empty range") {
    const Array array = make_array(float32, {16});
    auto first = array.map<float>(Access::write);
    std::fill(first.begin(), first.end(), 1.0F);
    auto second = std::move(first);
    CHECK(second.size() == 16);
    second.unmap();
    for (const auto* ended : {&first, &second}) {
        CHECK(ended->size() == 0);
        CHECK(ended->data() == nullptr);
        CHECK(ended->begin() == ended->end());
        CHECK(ended->span().empty());
        for (const float value : *ended)
            FAIL_CHECK(value);
    }
    first = array.map<float>(Access::read);
    CHECK(first[15] == 1.0F);
}

}  // namespace tandem::test

// NOLINTEND(bugprone-use-after-move)
