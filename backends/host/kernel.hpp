#pragma once
// Running the kernels of kernels/*.cpp on the pool.

#include "core/driver.hpp"

namespace tandem::host {

/// Runs `call` on this thread and the pool's; returns when it is done.
void run(const driver::Elementwise& call);
void reduce(const driver::Reduce& call);

/// Copies bytes that don't overlap, by several threads where there are many.
void copy(std::byte* destination, const std::byte* source, std::size_t size_bytes);

}  // namespace tandem::host
