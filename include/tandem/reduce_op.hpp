#pragma once
// What arrays are reduced to.

#include <cstdint>
#include <string_view>

#include <tandem/dtype.hpp>

namespace tandem {

// The one list of reductions; kernels and backends expand it.
#define TANDEM_FOR_EACH_REDUCE_OP(X) X(sum) X(min) X(max)

enum class ReduceOp : std::uint8_t {
#define TANDEM_X(name) name,
    TANDEM_FOR_EACH_REDUCE_OP(TANDEM_X)
#undef TANDEM_X
};

inline constexpr int reduce_op_count = 0
#define TANDEM_X(name) +1
    TANDEM_FOR_EACH_REDUCE_OP(TANDEM_X)
#undef TANDEM_X
    ;

/// "sum", "min" or "max".
constexpr std::string_view to_string(ReduceOp op) noexcept {
    switch (op) {
#define TANDEM_X(name)   \
    case ReduceOp::name: \
        return #name;
        TANDEM_FOR_EACH_REDUCE_OP(TANDEM_X)
#undef TANDEM_X
    }
    return "?";
}

/// The dtype of what elements of `dtype` are reduced to: sums of bool and of signed integers are int64, of unsigned ones uint64;
/// everything else keeps its own.
constexpr DType result_dtype(ReduceOp op, DType dtype) noexcept {
    if (op != ReduceOp::sum) return dtype;
    switch (dtype) {
        case DType::boolean:
        case DType::int8:
        case DType::int16:
        case DType::int32:
            return DType::int64;
        case DType::uint8:
        case DType::uint16:
        case DType::uint32:
            return DType::uint64;
        default:
            return dtype;
    }
}

}  // namespace tandem
