#pragma once
// From arrays to calls that kernels can run: cut along the windows of the operands' memory, and to the dimensions that a kernel
// walks.

#include <type_traits>
#include <vector>

#include "core/driver.hpp"
#include "core/queue_state.hpp"
#include "tandem/array.hpp"

namespace tandem {

// Walks are driver::Walk and expression::Walk: what is a template here exists for these two.

/// What takes the pieces of a call, and submits them.
template <class Walk>
class PieceSinkOf {
public:
    PieceSinkOf() = default;
    virtual ~PieceSinkOf() = default;
    PieceSinkOf(const PieceSinkOf&) = delete;
    PieceSinkOf& operator=(const PieceSinkOf&) = delete;

    /// Each operand lies in one window.
    virtual void take(const Walk& piece) = 0;
    /// One element, of which at least one operand has bytes on both sides of a window's end.
    virtual void take_straddling(const Walk& element) = 0;
};
using PieceSink = PieceSinkOf<driver::Walk>;

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
template <class Walk>
void merge_dimensions(Walk& call) noexcept;

/// Gives `sink` the pieces of `call`, whose dimensions are merged, that its operands' windows ask for.
template <class Walk>
void split(const std::type_identity_t<Walk>& call, PieceSinkOf<Walk>& sink);

/// Gives `sink` the pieces of a walk over operands of one shape, given by their strides in bytes, in the order in which the first
/// one's memory runs. `call` has their memory and offsets.
template <class Walk>
void split_strided(std::type_identity_t<Walk> call, const Shape& shape, const std::vector<const Strides*>& strides_bytes,
                   PieceSinkOf<Walk>& sink);

}  // namespace tandem
