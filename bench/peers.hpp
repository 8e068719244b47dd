#pragma once
// What the library is held against on each kind of device: code written by hand for the one case, without the library.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness.hpp"

namespace tandem {
class Array;
}

namespace tandem::bench {

/// `axpy` is out = alpha * a + b.
enum class Job : std::uint8_t { add, twice, axpy };

/// Hand-written ways to do one job on arrays of `count` float32 or float64, each repeated `repeats` times a run; they own their
/// arrays. The last of the device ones is a copy within the device of as many bytes as the job moves.
std::vector<Candidate> openmp_peers(Job job, bool float64, std::int64_t count, int repeats);
std::vector<Candidate> cuda_peers(Job job, bool float64, std::int64_t count, int repeats);
/// `platform` and `name` are DeviceInfo's.
std::vector<Candidate> opencl_peers(const std::string& platform, const std::string& name, Job job, bool float64,
                                    std::int64_t count, int repeats);

/// The driver's own copies of `bytes` between its pinned memory and the device: to it, and from it.
std::vector<Candidate> cuda_link(std::size_t bytes);
std::vector<Candidate> opencl_link(const std::string& platform, const std::string& name, std::size_t bytes);
/// The driver's own copy of `bytes` from one CUDA device to another, which may reach each other's memory or not: what it does then
/// goes through the host. Where `is_linked`, it throws if the two can't.
Candidate cuda_peer_copy(int from, int to, std::size_t bytes, bool is_linked);
/// Getting `bytes` of pinned memory from the driver; giving them back is not counted.
Candidate cuda_pinned_allocation(std::size_t bytes);
/// An OpenMP loop of `out = a + b` over memory that is there.
Candidate openmp_add(const float* a, const float* b, float* out, std::int64_t count);

/// Reading a whole file by `threads` threads that `pread` pieces of `piece_bytes` into memory of their own, around the page cache
/// (O_DIRECT) or through it.
Candidate parallel_read(const std::string& path, int threads, std::size_t piece_bytes, bool around_page_cache);
/// Writing `bytes` to a new file in `folder`, by `threads` threads that `pwrite` pieces of memory that is there; with `flushes`,
/// to the storage too. The file is gone afterwards.
Candidate parallel_write(const std::string& folder, std::size_t bytes, int threads, std::size_t piece_bytes, bool flushes);

/// Launches of a small kernel through the driver itself, `repeats` of them a run.
Candidate cuda_raw_launch(int repeats);
/// `launches` of the same kernel captured as a graph, which is launched `repeats` times a run and then waited for.
Candidate cuda_raw_graph(int launches, int repeats);
Candidate opencl_raw_launch(const std::string& platform, const std::string& name, int repeats);

/// c = a b of square row-major matrices by the vendor's library, called directly on these arrays' memory in a stream of its own,
/// `repeats` times a run; none on the host.
std::vector<Candidate> gemm_peers(const Array& a, const Array& b, const Array& c, int repeats);

}  // namespace tandem::bench
