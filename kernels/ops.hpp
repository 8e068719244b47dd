#pragma once
// The list of elementwise operations. To add one: a line here, and NAME.hpp (what it computes), NAME.cu, NAME.cl and NAME.cpp
// beside this file; kernels/CMakeLists.txt and the backends expand the list.

#include <cstdint>
#include <string_view>

namespace tandem {

// Columns: name (also of its files), number of inputs.
#define TANDEM_FOR_EACH_OP(X) \
    X(add, 2)                 \
    X(twice, 1)               \
    X(copy, 1)                \
    X(byteswap, 1)

enum class Op : std::uint8_t {
#define TANDEM_X(name, inputs) name,
    TANDEM_FOR_EACH_OP(TANDEM_X)
#undef TANDEM_X
};

inline constexpr int op_count = 0
#define TANDEM_X(name, inputs) +1
    TANDEM_FOR_EACH_OP(TANDEM_X)
#undef TANDEM_X
    ;

constexpr int input_count(Op op) noexcept {
    switch (op) {
#define TANDEM_X(name, inputs) \
    case Op::name:             \
        return inputs;
        TANDEM_FOR_EACH_OP(TANDEM_X)
#undef TANDEM_X
    }
    return 0;
}

constexpr std::string_view to_string(Op op) noexcept {
    switch (op) {
#define TANDEM_X(name, inputs) \
    case Op::name:             \
        return #name;
        TANDEM_FOR_EACH_OP(TANDEM_X)
#undef TANDEM_X
    }
    return "?";
}

}  // namespace tandem
