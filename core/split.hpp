#pragma once
// From arrays to calls that kernels can run: cut along the windows of the operands' memory, and to the dimensions that a kernel
// walks.

#include <vector>

#include "core/driver.hpp"
#include "core/queue_state.hpp"
#include "tandem/array.hpp"

namespace tandem {

/// What takes the pieces of a call, and submits them.
class PieceSink {
public:
    PieceSink() = default;
    virtual ~PieceSink() = default;
    PieceSink(const PieceSink&) = delete;
    PieceSink& operator=(const PieceSink&) = delete;

    /// Each operand lies in one window.
    virtual void take(const driver::Walk& piece) = 0;
    /// One element, of which at least one operand has bytes on both sides of a window's end.
    virtual void take_straddling(const driver::Walk& element) = 0;
};

/// Memory of one window that stands in for elements that lie across a window's end, allocated when it is first asked for.
class StraddleScratch {
public:
    static constexpr std::size_t slot_bytes = 16;

    StraddleScratch(QueueState::Submission& submission, driver::Device& device) : submission_(submission), device_(device) {}

    /// Queues copies of the operands from `first` on, which may cross windows, and returns the element with the scratch memory as
    /// all its operands.
    driver::Walk fetch(const driver::Walk& element, int first);

private:
    QueueState::Submission& submission_;
    driver::Device& device_;
    std::shared_ptr<driver::Memory> memory_;
};

/// Drops dimensions of one element, merges those that lie densely behind each other in every operand, and notes whether the call
/// is contiguous.
void merge_dimensions(driver::Walk& call) noexcept;

/// Gives `sink` the pieces of `call`, whose dimensions are merged, that its operands' windows ask for.
void split(const driver::Walk& call, PieceSink& sink);

/// Gives `sink` the pieces of a walk over `operands`, arrays of one shape, in the order in which the first one's memory runs.
/// `call` has their dtype, memory and offsets.
void split_strided(driver::Walk call, const std::vector<const Array*>& operands, PieceSink& sink);

}  // namespace tandem
