#include "core/npy/type_code.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "core/printable.hpp"

namespace tandem::npy {
namespace {

constexpr char native_order = std::endian::native == std::endian::little ? '<' : '>';

struct Alias {
    std::string_view name;
    std::string_view code;
};

// Names that NumPy reads beside the library's own. Those whose width depends on the platform are as on 64-bit Unix.
constexpr std::array names{
    Alias{"half", "f2"},       Alias{"single", "f4"},      Alias{"double", "f8"},      Alias{"float", "f8"},
    Alias{"complex", "c16"},   Alias{"csingle", "c8"},     Alias{"cdouble", "c16"},    Alias{"byte", "i1"},
    Alias{"ubyte", "u1"},      Alias{"short", "i2"},       Alias{"ushort", "u2"},      Alias{"intc", "i4"},
    Alias{"uintc", "u4"},      Alias{"int", "i8"},         Alias{"uint", "u8"},        Alias{"long", "i8"},
    Alias{"ulong", "u8"},      Alias{"longlong", "i8"},    Alias{"ulonglong", "u8"},   Alias{"intp", "i8"},
    Alias{"uintp", "u8"},      Alias{"bool_", "b1"},       Alias{"str", "U"},          Alias{"bytes", "S"},
    Alias{"void", "V"},        Alias{"object", "O"},       Alias{"longdouble", "f16"}, Alias{"clongdouble", "c32"},
    Alias{"float128", "f16"},  Alias{"complex256", "c32"}, Alias{"float96", "f12"},    Alias{"complex192", "c24"},
    Alias{"datetime64", "M8"}, Alias{"timedelta64", "m8"},
};

// Single letters, which may stand behind an order.
constexpr std::array letters{
    Alias{"?", "b1"},  Alias{"b", "i1"},  Alias{"B", "u1"}, Alias{"h", "i2"}, Alias{"H", "u2"},  Alias{"i", "i4"},
    Alias{"I", "u4"},  Alias{"l", "i8"},  Alias{"L", "u8"}, Alias{"q", "i8"}, Alias{"Q", "u8"},  Alias{"p", "i8"},
    Alias{"P", "u8"},  Alias{"e", "f2"},  Alias{"f", "f4"}, Alias{"d", "f8"}, Alias{"g", "f16"}, Alias{"F", "c8"},
    Alias{"D", "c16"}, Alias{"G", "c32"}, Alias{"M", "M8"}, Alias{"m", "m8"}, Alias{"c", "S1"},
};

template <std::size_t count>
std::string_view look_up(const std::array<Alias, count>& table, std::string_view text) {
    for (const Alias& alias : table) {
        if (alias.name == text) {
            return alias.code;
        }
    }
    return text;
}

bool is_unit(std::string_view text) {
    constexpr std::array<std::string_view, 13> units{"Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"};
    return std::find(units.begin(), units.end(), text) != units.end();
}

// The unit in "[25s]" as NumPy writes it, without a multiple of one; false where NumPy does not know it.
bool read_unit(std::string_view brackets, std::string& unit) {
    if (brackets.empty() || brackets == "[generic]") {
        return true;
    }
    if (brackets.size() < 3 || brackets.front() != '[' || brackets.back() != ']') {
        return false;
    }
    const std::string_view inside = brackets.substr(1, brackets.size() - 2);
    std::int32_t multiple = 1;
    const auto [end, error] = std::from_chars(inside.data(), inside.data() + inside.size(), multiple);
    const bool has_multiple = end != inside.data();
    if (has_multiple && (error != std::errc() || multiple < 0)) {
        return false;
    }
    std::string_view name = inside.substr(static_cast<std::size_t>(end - inside.data()));
    if (name == "\xce\xbcs") {  // with a Greek mu
        name = "us";
    }
    if (!is_unit(name)) {
        return false;
    }
    unit = multiple == 1 ? std::string(name) : fmt::format("{}{}", multiple, name);
    return true;
}

class CodeReader {
public:
    explicit CodeReader(std::string_view text) : text_(text) { code_.type.descr = std::string(text); }

    TypeCode read() {
        read_parts();
        if (!code_.problem.empty()) {
            code_.kind = '\0';
        }
        return std::move(code_);
    }

private:
    void refuse(std::string_view needed, std::string_view found) {
        code_.problem = fmt::format("{} needed, {} ({}) found", needed, found, in_quotes(text_));
    }

    void read_parts() {
        if (text_.find(',') != std::string_view::npos || text_.starts_with('(')) {
            return refuse("a list of (name, type) pairs", "several types in one string");
        }
        if (!text_.empty() && text_.front() >= '0' && text_.front() <= '9') {
            return refuse("a (type, shape) tuple", "a count before a type");
        }
        std::string_view rest = text_;
        const bool ordered = !rest.empty() && std::string_view("<>|=").find(rest.front()) != std::string_view::npos;
        const char order = ordered ? rest.front() : '=';
        rest.remove_prefix(ordered ? 1 : 0);
        if (!ordered) {
            // NumPy's own spelling of the library's types; "f32" and the like are not among them.
            const std::optional<DType> dtype = parse_dtype(rest);
            if (dtype && to_string(*dtype) == rest) {
                return set_dtype(*dtype, order);
            }
            rest = look_up(names, rest);
        }
        rest = look_up(letters, rest);
        for (const std::string_view name : {"datetime64[", "timedelta64["}) {
            if (rest.starts_with(name)) {
                return set_time(name.front() == 'd' ? 'M' : 'm', rest.substr(name.size() - 1), order);
            }
        }
        if (rest.empty()) {
            return refuse("a type code such as '<f4'", "none");
        }
        switch (rest.front()) {
            case 'M':
            case 'm':
                if (rest.size() < 2 || rest[1] != '8') {
                    return refuse("a type code such as '<M8[ns]'", "an unknown one");
                }
                return set_time(rest.front(), rest.substr(2), order);
            case 'S':
            case 'a':
                return set_flexible('S', rest.substr(1), order);
            case 'U':
            case 'V':
                return set_flexible(rest.front(), rest.substr(1), order);
            case 'O':
                return refuse("a type of plain bytes", "Python objects, which are never unpickled");
            default:
                return set_number(rest, order);
        }
    }

    void set_number(std::string_view code, char order) {
        if (code == "f16" || code == "c32" || code == "f12" || code == "c24") {
            return refuse("a type that is the same on every machine, such as '<f8'",
                          code.front() == 'f' ? "a long double" : "a complex long double");
        }
        const std::optional<DType> dtype = parse_dtype(fmt::format("={}", code));
        if (!dtype) {
            return refuse("a type code such as '<f4'", "an unknown one");
        }
        set_dtype(*dtype, order);
    }

    void set_dtype(DType dtype, char order) {
        const std::size_t component = component_bytes(dtype);
        if (component > 1 && order == '|') {
            return refuse("a byte order ('<' or '>') for a number of several bytes", "none");
        }
        code_.type.dtype = dtype;
        code_.type.item_bytes = size_bytes(dtype);
        code_.type.swapped = component > 1 && is_swapped(order);
        code_.kind = numpy_code(dtype)[1];
        code_.sized = true;
    }

    void set_time(char kind, std::string_view brackets, char order) {
        if (!read_unit(brackets, code_.type.unit)) {
            return refuse("a unit of time such as [ns] or [25s]", "an unknown one");
        }
        set_dtype(DType::int64, order);
        code_.kind = kind;
    }

    void set_flexible(char kind, std::string_view digits, char order) {
        std::uint64_t width = 0;
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), width);
        const std::uint64_t unit_bytes = kind == 'U' ? 4 : 1;
        const std::uint64_t most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / unit_bytes;
        const bool is_number = digits.empty() || (error != std::errc::invalid_argument && end == digits.data() + digits.size());
        if (!is_number) {
            return refuse(fmt::format("a width behind {}", kind), "something else");
        }
        if (error == std::errc::result_out_of_range || width > most) {
            return refuse("an item of at most 2^63 - 1 bytes", "a longer one");
        }
        code_.kind = kind;
        code_.sized = width > 0;
        code_.type.item_bytes = width * unit_bytes;
        code_.type.swapped = kind == 'U' && is_swapped(order);
    }

    // Without an order, and with '|' where that is accepted, NumPy takes this machine's.
    static bool is_swapped(char order) { return (order == '<' || order == '>') && order != native_order; }

    std::string_view text_;
    TypeCode code_;
};

}  // namespace

TypeCode parse_type_code(std::string_view code) {
    return CodeReader(code).read();
}

}  // namespace tandem::npy
