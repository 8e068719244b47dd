#pragma once
// Which of the instruction sets that the host's kernels are compiled for this processor has.

namespace tandem {

enum class InstructionSet : unsigned char { baseline, x86_64_v3, x86_64_v4 };

/// The best that there is, and that kernels are built for. Looked up once; thread safe.
InstructionSet best_instruction_set() noexcept;

}  // namespace tandem
