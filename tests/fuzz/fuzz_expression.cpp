// Fuzzes expressions, from the text to what the host makes of them: libFuzzer's entry, also driven by run_inputs.cpp.
//
// An input's first byte chooses the operands' dtypes; what follows is the text. Operands are a, b, c (arrays), s (a weak number)
// and out.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include <tandem/tandem.hpp>

using namespace tandem;

namespace {

void require(bool holds, const char* what) {
    if (!holds) {
        std::fprintf(stderr, "broken: %s\n", what);
        std::abort();
    }
}

struct Operands {
    static constexpr std::int64_t count = 5;
    Device device = open_device("host");
    Queue queue{device};
    std::array<std::array<std::optional<Array>, 3>, dtype_count> inputs;
    std::array<std::optional<Array>, dtype_count> outputs;

    const Array& get(std::optional<Array>& array, DType dtype) {
        if (!array) {
            array = empty(device, dtype, {count});
            std::vector<std::uint8_t> bytes(array->size_bytes());
            for (std::size_t i = 0; i < bytes.size(); ++i)
                bytes[i] = static_cast<std::uint8_t>(dtype == boolean ? i % 2 : i * 37 + 5);
            copy(queue, bytes, array->view_as(uint8));
            queue.synchronize();
        }
        return *array;
    }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static Operands operands;
    if (size == 0) return 0;
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    const auto dtype_at = [&](std::size_t i) { return static_cast<std::size_t>((data[0] * (2 * i + 1) + i) % dtype_count); };
    const auto input = [&](std::size_t i) -> const Array& {
        const std::size_t dtype = dtype_at(i);
        return operands.get(operands.inputs[dtype][i], static_cast<DType>(dtype));
    };
    const std::size_t out_dtype = dtype_at(3);
    const Array& out = operands.get(operands.outputs[out_dtype], static_cast<DType>(out_dtype));
    std::vector<NamedOperand> all{{"out", out}};
    // Only what the text may use: an operand that it does not name is an error, and would hide the others.
    const char* names[] = {"a", "b", "c"};
    for (std::size_t i = 0; i < 3; ++i) {
        if (text.find(names[i]) != std::string_view::npos) all.emplace_back(names[i], input(i));
    }
    if (text.find('s') != std::string_view::npos) all.emplace_back("s", 3);
    try {
        elementwise(operands.queue, text, all);
        operands.queue.synchronize();
    } catch (const Error& error) {
        const std::string message = error.what();
        require(error.code() == ErrorCode::invalid_argument, "the code is that of a wrong argument");
        require(message.starts_with("elementwise: "), "the message starts with the operation");
        require(message.size() < 2048, "the message is short");
        require(std::none_of(message.begin(), message.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }),
                "the message is printable");
    }
    return 0;
}
