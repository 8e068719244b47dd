#include "tandem/graph.hpp"

#include <fmt/format.h>

#include "core/device_state.hpp"
#include "core/recorder.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

[[noreturn]] void refuse_recording(const char* what) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} can't be recorded: a graph holds launches, operations and copies within the device", what));
}

// Submits calls one by one.
struct Replay {
    driver::Queue& queue;

    void operator()(const Recorder::Copy& copy) const {
        queue.copy(*copy.destination, copy.destination_offset_bytes, *copy.source, copy.source_offset_bytes, copy.size_bytes);
    }
    void operator()(const driver::Elementwise& call) const { queue.run(call); }
    void operator()(const driver::Reduce& call) const { queue.reduce(call); }
    void operator()(const Recorder::Launch& call) const {
        driver::Launch launch = call.launch;
        launch.arguments = call.arguments;
        queue.launch(launch);
    }
};

}  // namespace

void Recorder::write(driver::Memory& /*destination*/, std::size_t /*offset_bytes*/, const void* /*source*/,
                     std::size_t /*size_bytes*/) {
    refuse_recording("a copy from the host");
}

void Recorder::read(const driver::Memory& /*source*/, std::size_t /*offset_bytes*/, void* /*destination*/,
                    std::size_t /*size_bytes*/) {
    refuse_recording("a copy to the host");
}

void Recorder::copy(driver::Memory& destination, std::size_t destination_offset_bytes, const driver::Memory& source,
                    std::size_t source_offset_bytes, std::size_t size_bytes) {
    if (is_native_) native_.copy(destination, destination_offset_bytes, source, source_offset_bytes, size_bytes);
    calls_.emplace_back(Copy{&destination, destination_offset_bytes, &source, source_offset_bytes, size_bytes});
}

void Recorder::run(const driver::Elementwise& call) {
    if (is_native_) native_.run(call);
    calls_.emplace_back(call);
}

void Recorder::reduce(const driver::Reduce& call) {
    if (is_native_) native_.reduce(call);
    calls_.emplace_back(call);
}

bool Recorder::copy_between(driver::Memory& /*destination*/, std::size_t /*destination_offset_bytes*/,
                            const driver::Memory& /*source*/, std::size_t /*source_offset_bytes*/, std::size_t /*size_bytes*/) {
    refuse_recording("a copy between devices");
}

void Recorder::blas(const driver::BlasVector& /*call*/) {
    refuse_recording("linear algebra");
}

void Recorder::blas(const driver::BlasGemv& /*call*/) {
    refuse_recording("linear algebra");
}

void Recorder::blas(const driver::BlasGemm& /*call*/) {
    refuse_recording("linear algebra");
}

void Recorder::launch(const driver::Launch& launch) {
    if (is_native_) native_.launch(launch);
    Launch own{launch, {launch.arguments.begin(), launch.arguments.end()}, {}};
    own.launch.arguments = {};
    for (driver::KernelArgument& argument : own.arguments) {
        if (argument.kind != driver::KernelArgument::Kind::value) continue;
        const auto* bytes = static_cast<const std::byte*>(argument.value);
        own.values.emplace_back(bytes, bytes + argument.size_bytes);
        argument.value = own.values.back().data();  // stays where it is when the lists move
    }
    calls_.emplace_back(std::move(own));
}

std::string Recorder::prefetch(driver::Memory& /*memory*/, std::size_t /*offset_bytes*/, std::size_t /*size_bytes*/,
                               Location /*where*/) {
    refuse_recording("a prefetch");
}

std::unique_ptr<driver::Event> Recorder::record() {
    refuse_recording("an event");
}

void Recorder::wait_for(const driver::Event& /*event*/) {
    refuse_recording("waiting for an event");
}

void Recorder::synchronize() {
    refuse_recording("waiting for the queue");
}

std::unique_ptr<driver::Recording> Recorder::end(bool is_wanted) {
    return is_native_ ? native_.end_recording(is_wanted) : nullptr;
}

Graph Queue::record_graph(const std::function<void()>& work) {
    if (!work) throw Error(ErrorCode::invalid_argument, "record_graph: there is no function to record: it is empty");
    (void)state();  // throws where the queue was moved from
    // `work` may do away with this object, which is not touched behind it.
    const std::shared_ptr<QueueState> queue = state_;
    auto graph = std::make_shared<GraphState>();
    graph->device = device_.state();
    std::unique_ptr<Recorder> recorder;
    queue->begin_recording([&]() -> driver::Queue& {
        recorder = std::make_unique<Recorder>(*queue->native());
        return *recorder;
    });
    const auto give_up = [&] {
        (void)recorder->end(false);
        queue->end_recording(graph->memory, graph->things);
        if (!queue->is_left() || queue->is_abandoned()) return;
        try {
            queue->synchronize();  // which the queue's own end could not
        } catch (...) {            // NOLINT(bugprone-empty-catch): as where a queue ends
        }
    };
    try {
        work();
    } catch (...) {
        give_up();
        throw;
    }
    if (queue->is_left()) {
        give_up();
        throw Error(ErrorCode::invalid_argument,
                    "record_graph: the queue was moved, assigned to, given up or destroyed by what it was to record");
    }
    queue->end_recording(graph->memory, graph->things);
    graph->native = recorder->end(true);
    graph->calls = std::move(recorder->calls());
    return Graph(std::move(graph));
}

void Queue::replay(const Graph& graph) {
    QueueState& queue = state();
    const std::shared_ptr<GraphState>& own = graph.state();
    if (own == nullptr)
        throw Error(ErrorCode::invalid_argument, "replay: this is no graph: it was moved from, or never recorded");
    if (own->device != device_.state()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("replay: the graph is on {}, the queue on {}", own->device->native->info().spec, device_.spec()));
    }
    for (const auto& memory : own->memory) {
        if (!memory->mapped.are_none())
            throw Error(ErrorCode::invalid_argument,
                        "replay: memory that the graph uses is mapped for the host; end that view first");
    }
    if (own->calls.empty()) return;
    std::size_t work_bytes = 0;
    for (const auto& memory : own->memory)
        work_bytes += memory->size_bytes();
    QueueState::Submission submission(queue, work_bytes);
    if (submission.is_recorded()) refuse_recording("a replay");
    for (const auto& memory : own->memory)
        submission.use(memory);
    submission.keep(own);
    if (own->native != nullptr) {
        submission.native().replay(*own->native);
    } else {
        for (const Recorder::Call& call : own->calls)
            std::visit(Replay{submission.native()}, call);
    }
}

std::size_t Graph::size() const noexcept {
    return state_ == nullptr ? 0 : state_->calls.size();
}

std::string Graph::method() const {
    return state_ == nullptr || state_->native == nullptr ? "one by one" : state_->native->method();
}

}  // namespace tandem
