#include <array>
#include <bit>

#include <tandem/dtype.hpp>

namespace tandem {
namespace {

constexpr char native_order = std::endian::native == std::endian::little ? '<' : '>';

struct Row {
    DType dtype;
    std::string_view name;
    std::string_view code;  // NumPy's, without an order; empty for bfloat16
};

constexpr std::array<Row, dtype_count> rows{{
#define TANDEM_X(name, type, code) Row{DType::name, #name, code},
    TANDEM_FOR_EACH_DTYPE(TANDEM_X)
#undef TANDEM_X
}};

// The enumerator of bool can't be called that.
constexpr std::string_view name_of(const Row& row) {
    return row.dtype == DType::boolean ? std::string_view("bool") : row.name;
}

// Whether `text` is the short form of `name`: the kind's letter and the bits, "f32" for "float32", "bf16" for "bfloat16".
constexpr bool is_short_form(std::string_view text, std::string_view name) {
    const std::size_t digits = name.find_first_of("0123456789");
    if (digits == std::string_view::npos) {
        return false;
    }
    const std::string_view letters = name.starts_with("bf") ? name.substr(0, 2) : name.substr(0, 1);
    return text.starts_with(letters) && text.substr(letters.size()) == name.substr(digits);
}

static_assert(is_short_form("bf16", "bfloat16") && is_short_form("c64", "complex64") && !is_short_form("b16", "bfloat16"));

}  // namespace

std::string_view to_string(DType dtype) noexcept {
    for (const Row& row : rows) {
        if (row.dtype == dtype) {
            return name_of(row);
        }
    }
    return "unknown";
}

std::string_view numpy_code(DType dtype) noexcept {
    constexpr bool little = std::endian::native == std::endian::little;
    if (dtype == DType::bfloat16) {
        return little ? "<V2" : ">V2";
    }
    switch (dtype) {
#define TANDEM_X(name, type, code) \
    case DType::name:              \
        return sizeof(type) == 1 ? "|" code : little ? "<" code : ">" code;
        TANDEM_FOR_EACH_DTYPE(TANDEM_X)
#undef TANDEM_X
    }
    return "";
}

std::optional<DType> parse_dtype(std::string_view text) noexcept {
    for (const Row& row : rows) {
        if (text == name_of(row)) {
            return row.dtype;
        }
    }
    // NumPy's codes come before the short forms: "i8" and "u8" are 8 bytes, as every .npy file has them.
    const char order = text.empty() ? '\0' : text.front();
    const bool ordered = order == '<' || order == '>' || order == '=' || order == '|';
    const std::string_view code = ordered ? text.substr(1) : text;
    for (const Row& row : rows) {
        const bool order_fits = !ordered || size_bytes(row.dtype) == 1 || order == native_order || order == '=';
        if (!row.code.empty() && code == row.code && order_fits) {
            return row.dtype;
        }
    }
    for (const Row& row : rows) {
        if (is_short_form(text, row.name)) {
            return row.dtype;
        }
    }
    return std::nullopt;
}

}  // namespace tandem
