#include "core/instruction_set.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tandem {
namespace {

#if defined(__x86_64__)
// clang's __builtin_cpu_supports does not know it.
bool cpu_supports_f16c() noexcept {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

InstructionSet look_up() noexcept {
#if defined(__x86_64__)
    __builtin_cpu_init();
    [[maybe_unused]] const bool has_v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                                         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && cpu_supports_f16c();
    [[maybe_unused]] const bool has_v4 = has_v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                                         __builtin_cpu_supports("avx512vl");
#if defined(TANDEM_HAS_x86_64_v4)
    if (has_v4) return InstructionSet::x86_64_v4;
#endif
#if defined(TANDEM_HAS_x86_64_v3)
    if (has_v3) return InstructionSet::x86_64_v3;
#endif
#endif
    return InstructionSet::baseline;
}

}  // namespace

InstructionSet best_instruction_set() noexcept {
    static const InstructionSet best = look_up();
    return best;
}

}  // namespace tandem
