#pragma once
// Work that is recorded once and done many times.

#include <cstddef>
#include <memory>
#include <string>

#include <tandem/queue.hpp>

namespace tandem {

struct GraphState;

/// What `Queue::record_graph` has recorded. A handle: copies refer to the same one. Keeps the memory and the kernels that it uses
/// alive. One thread at a time. One that was moved from, or made by default, is none: replaying it throws invalid_argument.
class Graph {
public:
    Graph() = default;

    /// Operations that were recorded.
    [[nodiscard]] std::size_t size() const noexcept;
    /// How it is replayed: "CUDA graph" or "one by one".
    [[nodiscard]] std::string method() const;

    /// For core/ alone.
    explicit Graph(std::shared_ptr<GraphState> state) noexcept : state_(std::move(state)) {}
    [[nodiscard]] const std::shared_ptr<GraphState>& state() const noexcept { return state_; }

private:
    std::shared_ptr<GraphState> state_;
};

}  // namespace tandem
