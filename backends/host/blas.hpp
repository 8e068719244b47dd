#pragma once
// Linear algebra through the system's BLAS, opened at run time, or by loops of the library's own.

#include <string>

#include "core/driver.hpp"

namespace tandem::host {

/// Runs `call` on the calling thread, and the BLAS's own; returns when it is done. Loops of the library's own do what no system
/// BLAS does: float16, and counts beyond 32 bits.
/// Native calls: cblas_?axpy, ?scal, ?dot, ?nrm2, i?amax, ?gemv, ?gemm.
void run(const driver::BlasVector& call);
void run(const driver::BlasGemv& call);
void run(const driver::BlasGemm& call);

/// Which BLAS was taken, in words: "OpenBLAS (libopenblas.so.0)".
std::string blas_library();

/// For tests: from now on, whether the library's own loops are taken even where there is a BLAS. Thread safe.
void use_plain_blas(bool is_plain) noexcept;

}  // namespace tandem::host
