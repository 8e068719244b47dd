#pragma once
// Callers' own functions on the host.

#include <memory>
#include <string>
#include <vector>

#include "core/driver.hpp"

namespace tandem::host {

class Program final : public driver::Kernel, public std::enable_shared_from_this<Program> {
public:
    static std::shared_ptr<Program> compile(const std::string& spec, const driver::CompileRequest& request);

    Program(std::string spec, KernelInfo info, HostFunction function, bool is_own)
        : driver::Kernel(std::move(info)), spec_(std::move(spec)), function_(std::move(function)), is_own_(is_own) {}

    /// True for the library's own functions, false for a caller's, which may take any time.
    [[nodiscard]] bool is_own() const noexcept { return is_own_; }

    /// Throws invalid_argument where the function has too few dimensions for the launch.
    void check(const driver::Launch& launch) const;

    /// A launch with arguments and values of its own.
    struct Call {
        Call(std::shared_ptr<const Program> called, const driver::Launch& launch);

        /// Runs the function over all items, on all threads where there are many. Throws device_lost with an exception's text.
        void run() const;

        std::shared_ptr<const Program> program;
        int dimensions;
        std::array<std::uint64_t, 3> items;
        std::vector<std::byte> values;       // one behind the other, each aligned for any type
        std::vector<std::size_t> positions;  // in `values`, of each
    };

private:
    std::string spec_;
    HostFunction function_;
    bool is_own_;
};

}  // namespace tandem::host
