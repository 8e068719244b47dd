#include <optional>
#include <stdexcept>

#include "kernel_sources.hpp"

namespace tandem::test {
namespace {

std::int64_t count() {
    return options().window_bytes == 0 ? 10'007 : 1000;
}

bool all_are(const Array& array, float expected) {
    const std::vector<float> values = values_of<float>(array);
    return std::all_of(values.begin(), values.end(), [&](float value) { return value == expected; });
}

Array filled(float with) {
    return array_of(std::vector<float>(static_cast<std::size_t>(count()), with));
}

}  // namespace

TEST_CASE("what is recorded is done with each replay, and not before") {
    const Kernel kernel = axpy_kernel();
    Queue queue(device());
    const Array ones = filled(1.0F), y = filled(0.0F), doubled = filled(0.0F), copied = filled(0.0F);
    float factor = 1.0F;
    const Graph graph = queue.record_graph([&] {
        for (int i = 0; i < 10; ++i)
            queue.launch(kernel, count(), {read(ones), read_write(y), value(factor), value(count())});
        twice(queue, y, doubled);
        copy(queue, doubled, copied);
    });
    factor = 100.0F;
    CHECK(graph.size() >= 12);
    CHECK_FALSE(graph.method().empty());
    if (device().info().backend == "cuda") CHECK(graph.method() == "CUDA graph");
    queue.synchronize();
    CHECK(all_are(y, 0.0F));
    CHECK(all_are(copied, 0.0F));
    queue.replay(graph);
    CHECK(all_are(y, 10.0F));
    CHECK(all_are(copied, 20.0F));
    for (int i = 0; i < 3; ++i)
        queue.replay(graph);
    twice(queue, y);  // in order with what is not recorded
    queue.replay(graph);
    CHECK(all_are(y, 90.0F));
    CHECK(all_are(copied, 180.0F));
    // On another queue of the device, by a copy of the handle.
    Queue other(device());
    const Graph same = graph;
    other.replay(same);
    CHECK(all_are(y, 100.0F));
}

TEST_CASE("a graph keeps what it uses alive, and its replays keep the graph") {
    Queue queue(device());
    const Array y = filled(0.0F);
    Graph graph = queue.record_graph([&] {
        queue.launch(axpy_kernel(), count(), {read(filled(3.0F)), read_write(y), value(2.0F), value(count())});
    });
    for (int i = 0; i < 10; ++i)
        queue.replay(graph);
    graph = Graph();
    CHECK(all_are(y, 60.0F));
}

TEST_CASE("launches and operations alone, each with the values of its own") {
    const Kernel kernel = axpy_kernel();
    Queue queue(device());
    const Array ones = filled(1.0F), twos = filled(2.0F), y = filled(0.0F), z = filled(0.0F);
    const Graph graph = queue.record_graph([&] {
        for (int i = 1; i <= 4; ++i)
            queue.launch(kernel, count(),
                         {read(i % 2 == 0 ? twos : ones), read_write(y), value(static_cast<float>(i)), value(count())});
        twice(queue, y, z);
    });
    CHECK(graph.size() == 5);
    // What was recorded is not what the kernel is used for meanwhile.
    queue.launch(kernel, count(), {read(twos), read_write(y), value(0.5F), value(count())});
    for (int i = 0; i < 30; ++i)
        queue.replay(graph);
    CHECK(all_are(y, 1.0F + 30.0F * 16.0F));  // 1 + 2 * 2 + 3 + 2 * 4
    CHECK(all_are(z, 2.0F + 60.0F * 16.0F));
}

TEST_CASE("operations of the library with layouts of their own are recorded too") {
    Queue queue(device());
    const Array wide = make_array(float32, {20, 30}), tall = make_array(float32, {30, 20});
    const std::vector<float> values = ramp(600);
    {
        auto view = wide.map<float>(Access::write);
        std::copy(values.begin(), values.end(), view.begin());
    }
    Array total;
    const Graph graph = queue.record_graph([&] {
        add(queue, wide.transpose(), wide.transpose(), tall);
        total = sum(queue, tall);
    });
    queue.replay(graph);
    queue.replay(graph);
    const std::vector<float> result = values_of<float>(tall);
    for (std::size_t row = 0; row < 20; ++row) {
        for (std::size_t column = 0; column < 30; ++column)
            REQUIRE(result[column * 20 + row] == 2.0F * values[row * 30 + column]);
    }
    CHECK(total.map<float>(Access::read)[0] == 2.0F * 599.0F * 300.0F);
}

TEST_CASE("what can't be recorded is refused, and the queue goes on") {
    const Kernel kernel = axpy_kernel();
    Queue queue(device());
    const Array ones = filled(1.0F), y = filled(0.0F);
    std::vector<float> host(static_cast<std::size_t>(count()), 5.0F);
    const auto launch = [&] { queue.launch(kernel, count(), {read(ones), read_write(y), value(1.0F), value(count())}); };
    const Event before = queue.record();
    const auto refused = [&](const char* words, const std::function<void()>& what) {
        CHECK_ERROR(ErrorCode::invalid_argument, words, (void)queue.record_graph([&] {
            launch();
            what();
        }));
    };
    refused("waiting for the queue can't be recorded", [&] { queue.synchronize(); });
    refused("an event can't be recorded", [&] { (void)queue.record(); });
    refused("waiting for an event can't be recorded", [&] { queue.wait(before); });
    refused("a copy from the host can't be recorded", [&] { copy(queue, host, y); });
    refused("a copy to the host can't be recorded", [&] { copy(queue, y, host); });
    refused("can't be recorded", [&] { (void)y.map<float>(Access::read); });
    refused("a recording within a recording", [&] { (void)queue.record_graph([] {}); });
    const Graph graph = queue.record_graph(launch);
    refused("a replay can't be recorded", [&] { queue.replay(graph); });
    CHECK_THROWS_AS((void)queue.record_graph([] { throw std::logic_error("the caller's own"); }), std::logic_error);
    launch();
    CHECK(all_are(y, 1.0F));  // nothing of what was refused was done
    {
        const auto view = y.map<float>(Access::read);
        CHECK_ERROR(ErrorCode::invalid_argument, "is mapped for the host", queue.replay(graph));
    }
    queue.replay(graph);
    CHECK(all_are(y, 2.0F));
}

TEST_CASE("a queue that does not outlast its recording is an error") {
    const Kernel kernel = axpy_kernel();
    const Array ones = filled(1.0F), y = filled(0.0F);
    std::optional<Queue> queue;
    std::optional<Queue> other;
    const auto launch = [&](Queue& on) { on.launch(kernel, count(), {read(ones), read_write(y), value(1.0F), value(count())}); };
    float expected = 0.0F;
    const auto refused = [&](const std::function<void()>& end) {
        for (const bool throws : {false, true}) {
            queue.emplace(device());
            other.reset();
            launch(*queue);  // done whatever becomes of the recording
            expected += 1.0F;
            const auto record = [&] {
                (void)queue->record_graph([&] {
                    launch(*queue);
                    end();
                    if (throws) throw std::logic_error("the caller's own");
                });
            };
            if (throws) {
                CHECK_THROWS_AS(record(), std::logic_error);
            } else {
                CHECK_ERROR(ErrorCode::invalid_argument, "destroyed by what it was to record", record());
            }
            CHECK(all_are(y, expected));
        }
    };
    refused([&] { queue.reset(); });
    refused([&] { other.emplace(std::move(*queue)); });
    refused([&] {
        other.emplace(std::move(*queue));
        queue.reset();
        launch(*other);
    });
    refused([&] {
        other.emplace(device());
        *other = std::move(*queue);
    });
    refused([&] { *queue = Queue(device()); });
    refused([&] {
        other.emplace(std::move(*queue));
        *queue = std::move(*other);
    });
    // One that was moved before is as good as any.
    Queue moved = std::move(*queue);
    const Graph graph = moved.record_graph([&] { launch(moved); });
    moved.replay(graph);
    CHECK(all_are(y, expected + 1.0F));
    CHECK_ERROR(ErrorCode::invalid_argument, "empty", (void)moved.record_graph({}));
    CHECK_ERROR(ErrorCode::invalid_argument, "empty", (void)moved.record_graph(std::function<void()>()));
    moved.replay(graph);
    CHECK(all_are(y, expected + 2.0F));
}

TEST_CASE("graphs that are none, of nothing, or of another device") {
    Queue queue(device());
    CHECK_ERROR(ErrorCode::invalid_argument, "no graph", queue.replay(Graph()));
    const Graph nothing = queue.record_graph([] {});
    CHECK(nothing.size() == 0);
    queue.replay(nothing);
    queue.synchronize();
    for (const BackendInfo& backend : list_backends()) {
        if (backend.devices.empty() || backend.name == device().info().backend) continue;
        Queue other(open_device(backend.devices.front().spec));
        CHECK_ERROR(ErrorCode::invalid_argument, "the graph is on " + device().spec(), other.replay(nothing));
    }
}

}  // namespace tandem::test
