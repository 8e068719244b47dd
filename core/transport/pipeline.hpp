#pragma once
// Chunks on their way through a device: loaded, worked on and saved side by side.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/transport/meter.hpp"
#include "core/transport/sink.hpp"
#include "core/transport/source.hpp"
#include "tandem/stream.hpp"

namespace tandem {

/// No chunk of one array is larger: the link is as fast with these as with larger ones, and the first result comes sooner.
inline constexpr std::size_t max_chunk_bytes = std::size_t{64} << 20U;

/// How arrays of `shape`, dense in `order`, are cut: along `axis`, whose elements lie furthest apart.
struct Chunking {
    /// One chunk is loaded while another is worked on and a third is saved.
    static constexpr std::size_t sets = 3;

    Shape shape{};
    Order order = Order::c;
    std::size_t axis = 0;
    std::int64_t total_length = 0;  ///< of the axis
    std::int64_t length = 1;        ///< of a chunk; the last one may be shorter
    std::int64_t begin = 0;         ///< what lies before is done
};

struct ChunkInput {
    std::shared_ptr<Source> source;
    DType dtype = DType::uint8;
    bool is_swapped = false;
};

/// Where results go: into a sink, into an array, or nowhere.
struct ChunkOutput {
    Sink* sink = nullptr;
    std::uint64_t sink_offset_bytes = 0;  ///< of the first chunk
    DType dtype = DType::uint8;
    bool is_input = false;         ///< the first input's array is the output's too, and goes back in the input's byte order
    std::optional<Array> array{};  ///< of the chunking's shape
};

/// Bytes of the ring that transfers of `device` use.
std::size_t transfer_ring_bytes(const Device& device);

/// Calls `function` for each chunk, in order and on the calling thread, while two other threads and their helpers load and save.
/// Waits for all of it. `meter` counts the inputs' bytes. The first failure ends everything and is thrown.
void run_pipeline(Queue& queue, const std::vector<ChunkInput>& inputs, const Chunking& chunking, const ChunkOutput& output,
                  const StreamFunction& function, const TransferOptions& options, Meter& meter);

}  // namespace tandem
