#include <fmt/format.h>

#include "core/expression/evaluate.hpp"
#include "core/expression/parser.hpp"
#include "tandem/error.hpp"
#include "tandem/expression.hpp"

namespace tandem {

Scalar::Scalar(Scalar value, DType dtype) : dtype_(dtype) {
    using namespace expression;
    if (is_complex(value.dtype_) && !is_complex(dtype)) {
        throw Error(ErrorCode::invalid_argument, fmt::format("Scalar: {} does not hold a complex number", to_string(dtype)));
    }
    // The same conversion as everywhere: that of an expression which consists of the number alone.
    const OperandType out{"out", {dtype, false}, true};
    const OperandType in{"value", {value.dtype_, value.is_weak_}, false};
    const std::string text = fmt::format("out = {}(value)", to_string(dtype));
    const std::string plain = "out = value";
    const bool is_checked = value.is_weak_ && is_integer(value.dtype_) && is_integer(dtype);
    const std::string& chosen = is_checked ? plain : text;
    const Program program = make_program("Scalar", chosen, parse("Scalar", chosen), {out, in});
    std::vector<ScalarBytes> scalars(2);
    scalars[1].bytes = value.bytes_;
    const std::vector<std::uint64_t> words = evaluate_uniforms("Scalar", program, scalars);
    if (carrier(dtype) == dtype) {
        std::memcpy(bytes_.data(), words.data(), size_bytes(dtype));
        return;
    }
    float carried = 0;
    std::memcpy(&carried, words.data(), sizeof carried);
    if (dtype == float16) {
        set(Float16(carried).bits);
    } else {
        set(BFloat16(carried).bits);
    }
}

}  // namespace tandem
