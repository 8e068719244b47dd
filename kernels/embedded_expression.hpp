#pragma once
// kernels/expression_functions.h as text, embedded in the library by kernels/CMakeLists.txt.

namespace tandem::embedded {

/// What device sources of expressions begin with, behind their language's own definitions.
const char* expression_functions();

}  // namespace tandem::embedded
