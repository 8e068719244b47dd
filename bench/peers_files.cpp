// What a filesystem gives: the calls themselves, in parallel.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "peers.hpp"

namespace tandem::bench {
namespace {

int must(int result, const char* call) {
    if (result < 0) throw std::system_error(errno, std::generic_category(), call);
    return result;
}

// Calls `move(memory, offset, bytes)` for all pieces of [0, total), each thread with memory of its own.
void in_pieces(std::size_t total, int threads, std::size_t piece_bytes,
               const std::function<ssize_t(std::byte*, std::size_t, std::size_t)>& move) {
    std::atomic<std::size_t> next{0};
    std::atomic<bool> failed{false};
    std::vector<std::thread> group;
    for (int i = 0; i < threads; ++i) {
        group.emplace_back([&] {
            auto* const memory = static_cast<std::byte*>(std::aligned_alloc(4096, piece_bytes));
            std::fill_n(memory, piece_bytes, std::byte{1});
            for (std::size_t at = 0; (at = next.fetch_add(piece_bytes)) < total;) {
                const std::size_t bytes = std::min(piece_bytes, total - at);
                if (move(memory, at, bytes) != static_cast<ssize_t>(bytes)) failed = true;
            }
            std::free(memory);
        });
    }
    for (std::thread& thread : group)
        thread.join();
    if (failed) throw std::runtime_error("a peer's read or write failed");
}

}  // namespace

Candidate parallel_read(const std::string& path, int threads, std::size_t piece_bytes, bool around_page_cache) {
    return {around_page_cache ? "parallel O_DIRECT pread" : "parallel pread", [=] {
                const int file = must(::open(path.c_str(), O_RDONLY | (around_page_cache ? O_DIRECT : 0)), "open");
                struct stat status {};
                must(::fstat(file, &status), "fstat");
                in_pieces(static_cast<std::size_t>(status.st_size), threads, piece_bytes,
                          [&](std::byte* memory, std::size_t at, std::size_t bytes) {
                              // Whole blocks are asked for; the file's end gives fewer.
                              const std::size_t blocks = (bytes + 4095) / 4096 * 4096;
                              return ::pread(file, memory, blocks, static_cast<off_t>(at));
                          });
                ::close(file);
            }};
}

Candidate parallel_write(const std::string& folder, std::size_t bytes, int threads, std::size_t piece_bytes, bool flushes) {
    return {flushes ? "parallel pwrite and fsync" : "parallel pwrite", [=] {
                const int file = must(::open(folder.c_str(), O_TMPFILE | O_WRONLY, 0600), "open(O_TMPFILE)");
                in_pieces(bytes, threads, piece_bytes, [&](const std::byte* memory, std::size_t at, std::size_t part) {
                    return ::pwrite(file, memory, part, static_cast<off_t>(at));
                });
                if (flushes) must(::fsync(file), "fsync");
                ::close(file);
            }};
}

}  // namespace tandem::bench
