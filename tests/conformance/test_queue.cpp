#include <algorithm>
#include <chrono>
#include <future>
#include <numeric>
#include <thread>

#include "fixture.hpp"

namespace tandem::test {
namespace {

// Elements of arrays that work takes a while on. Where every few elements are a window of their own, and so a command, fewer do.
std::int64_t many() {
    return options().window_bytes == 0 ? 1'000'003 : 20'011;
}

// Work that takes a while on any device: many passes over a few megabytes.
void add_long_work(Queue& queue, const Array& array) {
    for (int i = 0; i < 50; ++i)
        twice(queue, array);
}

}  // namespace

TEST_CASE("work runs in order") {
    Queue queue(device());
    const Array array = make_array(int64, {100'003});
    std::vector<std::int64_t> ones(100'003, 1), result(100'003);
    copy(queue, ones, array);
    for (int i = 0; i < 40; ++i)
        twice(queue, array);
    copy(queue, array, result);
    queue.synchronize();
    CHECK(std::all_of(result.begin(), result.end(), [](std::int64_t value) { return value == std::int64_t{1} << 40; }));
}

TEST_CASE("memory that nothing else holds lives until its work is done") {
    Queue queue(device());
    std::vector<std::int32_t> ones(static_cast<std::size_t>(many()), 1), result(ones.size());
    Array sum = make_array(int32, {many()});
    copy(queue, ones, sum);
    for (int i = 0; i < 20; ++i) {
        const Array source = make_array(int32, sum.shape());
        Array next = make_array(int32, sum.shape());
        copy(queue, ones, source);
        add(queue, sum, source, next);
        sum = next;  // the last sum and `source` are dropped while the queue works on them
    }
    copy(queue, sum, result);
    queue.synchronize();
    CHECK(std::all_of(result.begin(), result.end(), [](std::int32_t value) { return value == 21; }));
}

TEST_CASE("a dropped queue finishes its work") {
    const Array array = make_array(int32, {many()});
    std::vector<std::int32_t> threes(static_cast<std::size_t>(many()), 3);
    {
        Queue queue(device());
        copy(queue, threes, array);
        for (int i = 0; i < 4; ++i)
            twice(queue, array);
    }
    const auto view = array.map<std::int32_t>(Access::read);
    CHECK(std::all_of(view.begin(), view.end(), [](std::int32_t value) { return value == 48; }));
}

TEST_CASE("events: done after wait, and they outlive their queue") {
    Event event;
    CHECK(event.is_done());
    event.wait();
    const Array array = make_array(float32, {4 * many()});
    {
        Queue queue(device());
        add_long_work(queue, array);
        event = queue.record();
        event.wait();
        CHECK(event.is_done());
        add_long_work(queue, array);
        event = queue.record();
    }
    CHECK(event.is_done());
    event.wait();
}

TEST_CASE("a queue waits for another one's event") {
    Queue first(device()), second(device());
    const Array array = make_array(int64, {many()});
    std::vector<std::int64_t> ones(static_cast<std::size_t>(many()), 1), result(ones.size());
    for (int round = 0; round < 5; ++round) {
        copy(first, ones, array);
        for (int i = 0; i < 20; ++i)
            twice(first, array);
        second.wait(first.record());
        for (int i = 0; i < 20; ++i)
            twice(second, array);
        copy(second, array, result);
        second.synchronize();
        CHECK(std::all_of(result.begin(), result.end(), [](std::int64_t value) { return value == std::int64_t{1} << 40; }));
        second.wait(second.record());
        second.wait(Event());
    }
}

TEST_CASE("a queue waits for an event of another backend") {
    for (const BackendInfo& backend : list_backends()) {
        if (backend.devices.empty() || backend.name == device().info().backend) continue;
        Queue other(open_device(backend.devices.front().spec));
        Queue queue(device());
        const Array there = empty(other.device(), float32, {1000});
        twice(other, there);
        queue.wait(other.record());
        other.wait(queue.record());
        queue.synchronize();
    }
}

TEST_CASE("a map waits for the work on its buffer, and sees the result") {
    Queue busy(device()), queue(device());
    const Array other = make_array(float32, {8 * many()});
    const Array array = make_array(int32, {1000});
    std::vector<std::int32_t> ones(1000, 1);
    add_long_work(busy, other);
    copy(queue, ones, array);
    for (int i = 0; i < 10; ++i)
        twice(queue, array);
    CHECK(array.map<std::int32_t>(Access::read)[999] == 1024);
    busy.synchronize();
}

TEST_CASE("a map waits for work that another thread is waiting for") {
    const auto count = static_cast<std::size_t>(many());
    const std::vector<std::int64_t> ones(count, 1);
    for (int round = 0; round < 10; ++round) {
        CAPTURE(round);
        const Array array = make_array(int64, {many()});
        std::promise<void> submitted;
        std::thread owner([&] {
            Queue queue(device());
            copy(queue, ones, array);
            for (int i = 0; i < 40; ++i)
                twice(queue, array);
            submitted.set_value();
            if (round % 2 == 0) queue.synchronize();  // else the queue waits when it goes
        });
        submitted.get_future().wait();
        std::this_thread::sleep_for(std::chrono::milliseconds(1 + round / 2));
        bool is_finished = false;
        {
            const auto view = array.map<std::int64_t>(Access::read);
            const auto is_done = [](std::int64_t value) { return value == std::int64_t{1} << 40; };
            is_finished = std::all_of(view.begin(), view.end(), is_done);
        }
        owner.join();
        CHECK(is_finished);
    }
}

TEST_CASE("a moved queue keeps its work, an assigned one finishes its own") {
    const Array array = make_array(int32, {100'003});
    std::vector<std::int32_t> ones(100'003, 1);
    Queue first(device());
    copy(first, ones, array);
    Queue second(std::move(first));
    twice(second, array);
    second = Queue(device());
    twice(second, array);
    second.synchronize();
    CHECK(array.map<std::int32_t>(Access::read)[100'002] == 4);
}

TEST_CASE("many queues from many threads, with buffers coming and going") {
    std::vector<std::thread> threads;
    std::vector<int> wrong(4, 0);
    for (std::size_t t = 0; t < wrong.size(); ++t) {
        threads.emplace_back([&wrong, t] {
            Queue queue(device());
            for (int round = 0; round < 20; ++round) {
                const std::int64_t size = 1000 + 777 * round;
                const Array a = make_array(int32, {size});
                const Array b = make_array(int32, {size});
                std::vector<std::int32_t> values(static_cast<std::size_t>(size));
                std::iota(values.begin(), values.end(), static_cast<int>(t) * 1000);
                copy(queue, values, a);
                add(queue, a, a, b);
                twice(queue, b);
                const auto view = b.map<std::int32_t>(Access::read);
                for (std::size_t i = 0; i < view.size(); ++i)
                    wrong[t] += view[i] != 4 * values[i];
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("one array read by several queues at once") {
    const Array shared = make_array(int32, {10'007});
    {
        auto view = shared.map<std::int32_t>(Access::write);
        std::iota(view.begin(), view.end(), 0);
    }
    std::vector<std::thread> threads;
    std::vector<int> wrong(4, 0);
    for (std::size_t t = 0; t < wrong.size(); ++t) {
        threads.emplace_back([&shared, &wrong, t] {
            Queue queue(device());
            for (int round = 0; round < 20; ++round) {
                const Array out = empty_like(shared);
                twice(queue, shared, out);
                const auto view = out.map<std::int32_t>(Access::read);
                for (std::size_t i = 0; i < view.size(); ++i)
                    wrong[t] += view[i] != 2 * static_cast<std::int32_t>(i);
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    CHECK(wrong == std::vector<int>(4, 0));
}

}  // namespace tandem::test
