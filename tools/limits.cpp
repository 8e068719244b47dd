#include "tools/limits.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <system_error>
#include <thread>

#include <fmt/format.h>
#include <tandem/tandem.hpp>

#include "core/posix_file.hpp"

namespace tandem::command {
namespace {

constexpr std::size_t block_bytes = 4096;  // what O_DIRECT asks for of addresses, offsets and sizes
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20U;
constexpr std::size_t min_copied_bytes = std::size_t{256} << 20U;
constexpr std::size_t piece_bytes = std::size_t{4} << 20U;

struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte, Free>;

// Memory that has been written to, since pages that were not are one page of zeros to who reads them; in huge pages, where there
// are any, as its limit is not to be that of address translation.
Memory touched_memory(std::size_t size_bytes) {
    const std::size_t alignment = size_bytes < huge_page_bytes ? block_bytes : huge_page_bytes;
    const std::size_t whole_bytes = (size_bytes + alignment - 1) / alignment * alignment;
    Memory memory(static_cast<std::byte*>(std::aligned_alloc(alignment, whole_bytes)));
    if (memory == nullptr) throw std::bad_alloc();
    if (alignment == huge_page_bytes) ::madvise(memory.get(), whole_bytes, MADV_HUGEPAGE);
    std::memset(memory.get(), 1, whole_bytes);
    return memory;
}

// Past the caches, which `memcpy` does only for sizes that it takes from what the processor says of its caches: virtual ones say
// too much. Both are at the start of a block.
void copy_memory(std::byte* destination, const std::byte* source, std::size_t size_bytes) {
#if defined(__SSE2__)
    const std::size_t whole_bytes = size_bytes / sizeof(__m128i) * sizeof(__m128i);
    for (std::size_t offset = 0; offset < whole_bytes; offset += sizeof(__m128i)) {
        const __m128i piece = _mm_load_si128(reinterpret_cast<const __m128i*>(source + offset));
        _mm_stream_si128(reinterpret_cast<__m128i*>(destination + offset), piece);
    }
    _mm_sfence();
    std::memcpy(destination + whole_bytes, source + whole_bytes, size_bytes - whole_bytes);
#else
    std::memcpy(destination, source, size_bytes);
#endif
}

// Calls `work(thread)` on so many threads, 0 to threads - 1.
template <class Work>
void on_threads(unsigned threads, const Work& work) {
    std::vector<std::jthread> group;
    for (unsigned thread = 1; thread < threads; ++thread)
        group.emplace_back(work, thread);
    work(0U);
}

// Calls `move(memory, offset, size)`, which says how many bytes it moved, for all pieces of [0, size_bytes), on threads that take
// the next one each. What fails first is thrown as an error of `path`.
template <class Move>
void in_pieces(std::uint64_t size_bytes, const std::vector<Memory>& pieces, const std::filesystem::path& path, const Move& move) {
    std::atomic<std::uint64_t> next{0};
    std::atomic<int> failure{0};
    on_threads(static_cast<unsigned>(pieces.size()), [&](unsigned thread) {
        for (std::uint64_t offset = 0; failure == 0 && (offset = next.fetch_add(piece_bytes)) < size_bytes;) {
            const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, size_bytes - offset));
            const ssize_t moved = move(pieces[thread].get(), offset, size);
            if (moved != static_cast<ssize_t>(size)) failure = moved < 0 ? errno : EIO;
        }
    });
    if (failure != 0) throw io_error(path, "read or write in parallel", failure);
}

std::shared_ptr<std::vector<Memory>> pieces_for(unsigned threads) {
    auto pieces = std::make_shared<std::vector<Memory>>();
    for (unsigned thread = 0; thread < threads; ++thread)
        pieces->push_back(touched_memory(piece_bytes));
    return pieces;
}

Contender parallel_read(const ScratchFile& file, unsigned threads, int flags) {
    Contender contender;
    contender.size_bytes = file.offset_bytes() + file.size_bytes();
    contender.run = [&file, flags, bytes = contender.size_bytes, pieces = pieces_for(threads)] {
        const FileDescriptor descriptor = open_file(file.path(), O_RDONLY | flags);
        in_pieces(bytes, *pieces, file.path(), [&](std::byte* memory, std::uint64_t offset, std::size_t) {
            // Whole pieces are asked for, as O_DIRECT wants them; the file's end gives fewer.
            return ::pread(descriptor.number(), memory, piece_bytes, static_cast<off_t>(offset));
        });
    };
    return contender;
}

Array bytes_of(const Device& device, std::uint64_t size_bytes, MemoryKind kind) {
    return empty(device, uint8, {static_cast<std::int64_t>(size_bytes)}, kind);
}

// Both ends of a link. The host's end stays mapped: an OpenCL driver may move pinned memory that is not to the device.
struct Link {
    Link(const Device& device, std::uint64_t size_bytes)
        : on_device(bytes_of(device, size_bytes, MemoryKind::device)),
          pinned(bytes_of(device, size_bytes, MemoryKind::pinned).map<std::uint8_t>(Access::read_write)),
          queue(device) {
        std::fill(pinned.begin(), pinned.end(), std::uint8_t{1});
    }

    Array on_device;
    HostArray<std::uint8_t> pinned;
    Queue queue;
};

}  // namespace

Contender memory_copy(std::uint64_t size_bytes, unsigned threads) {
    struct Pair {
        Memory source, destination;
    };
    const auto bytes = static_cast<std::size_t>(size_bytes);
    const auto pair = std::make_shared<Pair>(Pair{touched_memory(bytes), touched_memory(bytes)});
    Contender contender;
    contender.name = "host memory copy";
    // A short copy would take less time than its threads take to begin.
    const std::size_t times = std::max<std::size_t>(1, min_copied_bytes / bytes);
    contender.size_bytes = 2 * times * size_bytes;
    contender.run = [pair, bytes, threads, times] {
        on_threads(threads, [&](unsigned thread) {
            // Parts begin at whole blocks.
            const auto begin_of = [&](std::size_t part) {
                return std::min(bytes, (bytes / block_bytes * part / threads) * block_bytes);
            };
            const std::size_t begin = begin_of(thread);
            const std::size_t end = thread + 1 == threads ? bytes : begin_of(std::size_t{thread} + 1);
            for (std::size_t i = 0; i < times; ++i)
                copy_memory(pair->destination.get() + begin, pair->source.get() + begin, end - begin);
        });
    };
    return contender;
}

Contender warm_read(const ScratchFile& file, unsigned threads) {
    Contender contender = parallel_read(file, threads, 0);
    contender.name = "warm file read";
    contender.prepare = [&file] { return file.make_warm(); };
    return contender;
}

Contender cold_read(const ScratchFile& file, unsigned threads) {
    Contender contender = parallel_read(file, threads, O_DIRECT);
    contender.name = "cold file read";
    contender.prepare = [&file]() -> std::string {
        if (std::string reason = file.make_cold(); !reason.empty()) return reason;
        const FileDescriptor descriptor(::open(file.path().c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
        return descriptor.is_open() ? "" : fmt::format("open with O_DIRECT: {}", std::generic_category().message(errno));
    };
    return contender;
}

Contender file_write(const std::filesystem::path& folder, std::uint64_t size_bytes, unsigned threads, bool flushes) {
    Contender contender;
    contender.name = flushes ? "file write and flush" : "file write";
    contender.size_bytes = size_bytes;
    const std::filesystem::path path = folder / "limit.bin";
    contender.run = [path, size_bytes, flushes, pieces = pieces_for(threads)] {
        const FileDescriptor descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
        if (!descriptor.is_open()) throw io_error(path, "open", errno);
        in_pieces(size_bytes, *pieces, path, [&](const std::byte* memory, std::uint64_t offset, std::size_t size) {
            return ::pwrite(descriptor.number(), memory, size, static_cast<off_t>(offset));
        });
        if (flushes && ::fsync(descriptor.number()) != 0) throw io_error(path, "fsync", errno);
    };
    contender.settle = [path] { std::filesystem::remove(path); };
    return contender;
}

Contender copy_to_device(const Device& device, std::uint64_t size_bytes) {
    Contender contender;
    contender.name = "pinned copy to the device";
    contender.size_bytes = size_bytes;
    contender.run = [link = std::make_shared<Link>(device, size_bytes)] {
        copy(link->queue, link->pinned.span(), link->on_device);
        link->queue.synchronize();
    };
    return contender;
}

Contender copy_from_device(const Device& device, std::uint64_t size_bytes) {
    Contender contender;
    contender.name = "pinned copy from the device";
    contender.size_bytes = size_bytes;
    contender.run = [link = std::make_shared<Link>(device, size_bytes)] {
        copy(link->queue, link->on_device, link->pinned.span());
        link->queue.synchronize();
    };
    return contender;
}

Contender copy_in_device(const Device& device, std::uint64_t size_bytes) {
    Contender contender;
    contender.name = "copy in the device's memory";
    contender.size_bytes = 2 * size_bytes;
    contender.run = [queue = std::make_shared<Queue>(device), source = bytes_of(device, size_bytes, MemoryKind::device),
                     destination = bytes_of(device, size_bytes, MemoryKind::device)] {
        copy(*queue, source, destination);
        queue->synchronize();
    };
    return contender;
}

}  // namespace tandem::command
