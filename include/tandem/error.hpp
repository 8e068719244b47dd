#pragma once
// What goes wrong, as a value: every failure of the library is one `tandem::Error`.

#include <stdexcept>
#include <string>
#include <string_view>

namespace tandem {

/// The kind of a failure; what a caller can decide on without reading the message.
enum class ErrorCode {
    invalid_argument,  ///< the call can't mean anything: wrong dtype pair, shapes that differ, a null pointer
    out_of_range,      ///< an index, an offset or a size beyond what it refers to
    out_of_memory,     ///< host or device memory, or a limit on it, ran out
    unavailable,       ///< a backend, device or vendor library is not on this machine
    unsupported,       ///< this device or build can't do it, however often it is asked
    build_failed,      ///< a kernel did not compile; the message carries the compiler's log
    device_lost,       ///< the device faulted or hung; its context can't be used further
    bad_file,          ///< a file's content is not what it must be
    io,                ///< the operating system refused to open, read, write or rename
    cancelled,         ///< the caller asked for the end of it
    timed_out,         ///< the work was not done in the time that the caller gave; it goes on
    internal,          ///< a defect in tandem or in a driver
};

/// The name of `code` as it is written above.
std::string_view to_string(ErrorCode code) noexcept;

/// The one exception type that tandem throws.
///
/// `what()` is one line: operation, operands, sizes, device and the native name of the error, for example
/// `cuda:0: cuMemAlloc of 4096 bytes: CUDA_ERROR_OUT_OF_MEMORY`. Only `build_failed` messages run over
/// several lines, since they carry the compiler's log.
class Error : public std::runtime_error {
public:
    Error(ErrorCode code, const std::string& message, int native_code = 0)
        : std::runtime_error(message), code_(code), native_code_(native_code) {}

    [[nodiscard]] ErrorCode code() const noexcept { return code_; }

    /// The `CUresult`, `cl_int` or `errno` behind the failure; 0 where there is none.
    [[nodiscard]] int native_code() const noexcept { return native_code_; }

private:
    ErrorCode code_;
    int native_code_;
};

}  // namespace tandem
