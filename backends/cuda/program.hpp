#pragma once
// Callers' own kernels on a CUDA device.

#include <array>
#include <cstdint>
#include <memory>

#include "backends/cuda/api.hpp"
#include "core/driver.hpp"

namespace tandem::cuda {

class Device;

/// A module with one kernel of it. Thread safe: a launch changes nothing here.
class Program final : public driver::Kernel {
public:
    /// From the image where the device takes it, else from the source. Native calls: those of the compiler, cuModuleLoadData,
    /// cuModuleGetFunction, cuFuncGetAttribute, cuFuncSetAttribute, cuOccupancyMaxPotentialBlockSize, cuFuncGetParamInfo.
    static std::shared_ptr<Program> compile(std::shared_ptr<Device> device, const driver::CompileRequest& request);

    Program(std::shared_ptr<Device> device, CUmodule module, CUfunction function, KernelInfo info);
    ~Program() override;

    /// Native calls: cuLaunchKernel. The context is current.
    void launch(CUstream stream, const driver::Launch& launch) const;

private:
    std::shared_ptr<Device> device_;
    CUmodule module_;
    CUfunction function_;
};

/// Native calls: cuGraphInstantiate, cuGraphLaunch, cuGraphExecDestroy.
class Recording final : public driver::Recording {
public:
    /// Takes `graph` over.
    Recording(std::shared_ptr<Device> device, CUgraph graph);
    ~Recording() override;

    [[nodiscard]] const char* method() const noexcept override { return "CUDA graph"; }
    [[nodiscard]] CUgraphExec native() const noexcept { return executable_; }

private:
    std::shared_ptr<Device> device_;
    CUgraphExec executable_ = nullptr;
};

}  // namespace tandem::cuda
