#pragma once
// Cutting an elementwise call along the windows of its operands' memory.

#include "core/driver.hpp"
#include "core/queue_state.hpp"

namespace tandem {

/// Drops dimensions of one element, merges those that lie densely behind each other in every operand, and notes whether the call
/// is contiguous.
void merge_dimensions(driver::Elementwise& call) noexcept;

/// Submits `call`, whose dimensions are merged, in as many pieces as its operands' windows ask for; an element that lies across a
/// window's end goes through `scratch`. `scratch` is made by the call itself where one is needed.
void submit_split(QueueState::Submission& submission, driver::Device& device, const driver::Elementwise& call,
                  std::shared_ptr<driver::Memory>& scratch);

}  // namespace tandem
