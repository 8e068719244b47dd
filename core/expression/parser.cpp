#include "core/expression/parser.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>

#include "core/expression/lexer.hpp"
#include "core/printable.hpp"

namespace tandem::expression {
namespace {

struct Function {
    std::string_view name;
    int arguments;
    StepOp op;
};

constexpr std::array functions{
    Function{"abs", 1, StepOp::absolute},
    Function{"sqrt", 1, StepOp::square_root},
    Function{"exp", 1, StepOp::exponential},
    Function{"log", 1, StepOp::logarithm},
    Function{"sin", 1, StepOp::sine},
    Function{"cos", 1, StepOp::cosine},
    Function{"tan", 1, StepOp::tangent},
    Function{"tanh", 1, StepOp::hyperbolic_tangent},
    Function{"floor", 1, StepOp::floor},
    Function{"ceil", 1, StepOp::ceiling},
    Function{"trunc", 1, StepOp::truncate},
    Function{"round", 1, StepOp::round},
    Function{"real", 1, StepOp::real_part},
    Function{"imag", 1, StepOp::imaginary_part},
    Function{"conj", 1, StepOp::conjugate},
    Function{"min", 2, StepOp::minimum},
    Function{"max", 2, StepOp::maximum},
    Function{"minimum", 2, StepOp::minimum},
    Function{"maximum", 2, StepOp::maximum},
    Function{"pow", 2, StepOp::power},
    Function{"floor_divide", 2, StepOp::floor_divide},
    Function{"where", 3, StepOp::select},
};

const Function* find_function(std::string_view name) noexcept {
    for (const Function& function : functions) {
        if (function.name == name) return &function;
    }
    return nullptr;
}

// The dtype that a cast names: "float32", "f32"; "i8" is one byte here, as the library's short names have it, and not NumPy's
// code.
std::optional<DType> cast_type(std::string_view name) noexcept {
    struct Short {
        std::string_view name;
        DType dtype;
    };
    static constexpr Short shorts[] = {
        {"i8", DType::int8},       {"i16", DType::int16},       {"i32", DType::int32},   {"i64", DType::int64},
        {"u8", DType::uint8},      {"u16", DType::uint16},      {"u32", DType::uint32},  {"u64", DType::uint64},
        {"f16", DType::float16},   {"bf16", DType::bfloat16},   {"f32", DType::float32}, {"f64", DType::float64},
        {"c64", DType::complex64}, {"c128", DType::complex128},
    };
    for (const Short& candidate : shorts) {
        if (candidate.name == name) return candidate.dtype;
    }
    for (int i = 0; i < dtype_count; ++i) {
        if (to_string(static_cast<DType>(i)) == name) return static_cast<DType>(i);
    }
    return std::nullopt;
}

// One level of binary operators.
struct Operator {
    std::string_view symbol;
    int level;  // the higher, the tighter
    Node::Kind kind;
    StepOp op;
};
constexpr int comparison_level = 3;
constexpr int tightest_level = 9;
constexpr std::array operators{
    Operator{"||", 1, Node::Kind::logical_or, StepOp::bit_or},
    Operator{"&&", 2, Node::Kind::logical_and, StepOp::bit_and},
    Operator{"<", 3, Node::Kind::operation, StepOp::less},
    Operator{"<=", 3, Node::Kind::operation, StepOp::less_equal},
    Operator{">", 3, Node::Kind::operation, StepOp::greater},
    Operator{">=", 3, Node::Kind::operation, StepOp::greater_equal},
    Operator{"==", 3, Node::Kind::operation, StepOp::equal},
    Operator{"!=", 3, Node::Kind::operation, StepOp::not_equal},
    Operator{"|", 4, Node::Kind::operation, StepOp::bit_or},
    Operator{"^", 5, Node::Kind::operation, StepOp::bit_xor},
    Operator{"&", 6, Node::Kind::operation, StepOp::bit_and},
    Operator{"<<", 7, Node::Kind::operation, StepOp::shift_left},
    Operator{">>", 7, Node::Kind::operation, StepOp::shift_right},
    Operator{"+", 8, Node::Kind::operation, StepOp::add},
    Operator{"-", 8, Node::Kind::operation, StepOp::subtract},
    Operator{"*", 9, Node::Kind::operation, StepOp::multiply},
    Operator{"/", 9, Node::Kind::operation, StepOp::divide},
    Operator{"//", 9, Node::Kind::operation, StepOp::floor_divide},
    Operator{"%", 9, Node::Kind::operation, StepOp::remainder},
};

class Parser {
public:
    Parser(std::string_view operation, std::string_view text)
        : operation_(operation), lexer_(operation, text), token_(lexer_.next()) {}

    SyntaxTree run() {
        do {
            if (token_.kind == TokenKind::end && !tree_.statements.empty()) break;  // behind a last ';'
            statement();
        } while (take(";"));
        if (token_.kind != TokenKind::end) fail("an operator or the end of the expression");
        return std::move(tree_);
    }

private:
    // Counts how deep the calls are.
    class Level {
    public:
        Level(Parser& parser, const Token& at) : parser_(parser) {
            if (++parser_.depth_ <= max_nesting) return;
            refuse_at(parser_.operation_, at.position, fmt::format("nested deeper than {} levels", max_nesting));
        }
        ~Level() { --parser_.depth_; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;

    private:
        Parser& parser_;
    };

    [[noreturn]] void fail(std::string_view expected) const {
        refuse_at(operation_, token_.position, fmt::format("expected {}, found {}", expected, describe(token_)));
    }

    bool is(std::string_view symbol) const noexcept { return token_.kind == TokenKind::symbol && token_.text == symbol; }
    Token advance() {
        const Token taken = token_;
        token_ = lexer_.next();
        return taken;
    }
    bool take(std::string_view symbol) {
        if (!is(symbol)) return false;
        token_ = lexer_.next();
        return true;
    }
    void expect(std::string_view symbol) {
        if (!take(symbol)) fail(fmt::format("'{}'", symbol));
    }

    std::int32_t add(Node node) {
        if (tree_.nodes.size() == max_nodes)
            refuse_at(operation_, node.position, fmt::format("more than {} operations and operands", max_nodes));
        tree_.nodes.push_back(std::move(node));
        return static_cast<std::int32_t>(tree_.nodes.size() - 1);
    }
    std::int32_t operation(StepOp op, std::size_t position, std::array<std::int32_t, 3> arguments) {
        return add({.kind = Node::Kind::operation, .op = op, .position = position, .arguments = arguments});
    }

    void statement() {
        if (token_.kind != TokenKind::name) fail("the name of an output");
        const Token name = advance();
        if (!is_operand_name(name.text))
            refuse_at(operation_, name.position, fmt::format("'{}' can't be assigned to", name.text));
        expect("=");
        const std::int32_t value = expression();
        tree_.statements.push_back({std::string(name.text), name.position, value, tree_.nodes.size()});
    }

    std::int32_t expression() {
        const Level level(*this, token_);
        const std::int32_t condition = binary(1);
        if (!is("?")) return condition;
        const Token question = advance();
        const std::int32_t yes = expression();
        expect(":");
        const std::int32_t no = expression();
        return operation(StepOp::select, question.position, {condition, yes, no});
    }

    std::int32_t binary(int level) {
        if (level > tightest_level) return unary();
        std::int32_t left = binary(level + 1);
        bool is_first = true;
        while (const Operator* found = find_operator(level)) {
            if (level == comparison_level && !is_first)
                refuse_at(operation_, token_.position, "comparisons don't chain: write (a < b) && (b < c)");
            is_first = false;
            const Token symbol = advance();
            const std::int32_t right = binary(level + 1);
            left = add({.kind = found->kind, .op = found->op, .position = symbol.position, .arguments = {left, right, -1}});
        }
        return left;
    }

    const Operator* find_operator(int level) const noexcept {
        if (token_.kind != TokenKind::symbol) return nullptr;
        for (const Operator& candidate : operators) {
            if (candidate.level == level && candidate.symbol == token_.text) return &candidate;
        }
        return nullptr;
    }

    std::int32_t unary() {
        const Level level(*this, token_);
        if (is("-") || is("+") || is("~") || is("!")) {
            const Token symbol = advance();
            const std::int32_t argument = unary();
            if (symbol.text == "-") return operation(StepOp::negate, symbol.position, {argument, -1, -1});
            if (symbol.text == "~") return operation(StepOp::invert, symbol.position, {argument, -1, -1});
            return add({.kind = symbol.text == "+" ? Node::Kind::plus : Node::Kind::logical_not,
                        .position = symbol.position,
                        .arguments = {argument, -1, -1}});
        }
        const std::int32_t base = primary();
        if (!is("**")) return base;
        const Token symbol = advance();
        const std::int32_t exponent = unary();
        return operation(StepOp::power, symbol.position, {base, exponent, -1});
    }

    std::int32_t primary() {
        if (token_.kind == TokenKind::symbol && take("(")) {
            const std::int32_t inner = expression();
            expect(")");
            return inner;
        }
        if (token_.kind == TokenKind::name) {
            const Token name = advance();
            if (is("(")) return call(name);
            if (name.text == "true" || name.text == "false") {
                return add({.kind = Node::Kind::literal,
                            .position = name.position,
                            .literal = {{DType::boolean, false}, {}, name.text == "true" ? 1U : 0U}});
            }
            return add({.kind = Node::Kind::name, .position = name.position, .name = std::string(name.text)});
        }
        if (token_.kind == TokenKind::symbol || token_.kind == TokenKind::end) fail("an operand");
        return number(advance());
    }

    std::int32_t number(const Token& token) {
        Literal literal;
        if (token.kind == TokenKind::integer) {
            const bool is_hexadecimal = token.text.starts_with("0x") || token.text.starts_with("0X");
            const char* first = token.text.data() + (is_hexadecimal ? 2 : 0);
            const char* last = token.text.data() + token.text.size();
            if (std::from_chars(first, last, literal.integer, is_hexadecimal ? 16 : 10).ec != std::errc())
                refuse_at(operation_, token.position, fmt::format("{} is larger than 64 bits hold", printable(token.text)));
            literal.type = {literal.integer > std::uint64_t{INT64_MAX} ? DType::uint64 : DType::int64, true};
        } else {
            double value = 0;
            const std::size_t suffix = token.kind == TokenKind::imaginary ? 1 : 0;
            if (std::from_chars(token.text.data(), token.text.data() + token.text.size() - suffix, value).ec != std::errc())
                refuse_at(operation_, token.position, fmt::format("{} is outside of what float64 holds", printable(token.text)));
            literal.real = suffix != 0 ? std::complex<double>(0, value) : std::complex<double>(value, 0);
            literal.type = {suffix != 0 ? DType::complex128 : DType::float64, true};
        }
        return add({.kind = Node::Kind::literal, .position = token.position, .literal = literal});
    }

    std::int32_t call(const Token& name) {
        const Function* function = find_function(name.text);
        const std::optional<DType> dtype = function == nullptr ? cast_type(name.text) : std::nullopt;
        if (function == nullptr && !dtype)
            refuse_at(operation_, name.position, fmt::format("there is no function '{}'", printable(name.text, 64)));
        const int expected = function != nullptr ? function->arguments : 1;
        std::array<std::int32_t, 3> arguments{-1, -1, -1};
        int count = 0;
        expect("(");
        if (!is(")")) {
            do {
                if (count == expected)
                    fail(fmt::format("')', since {} takes {} argument{}", name.text, expected, expected == 1 ? "" : "s"));
                arguments[static_cast<std::size_t>(count++)] = expression();
            } while (take(","));
        }
        if (count < expected && is(")")) {
            refuse_at(operation_, token_.position,
                      fmt::format("{} takes {} argument{}, found {}", name.text, expected, expected == 1 ? "" : "s", count));
        }
        expect(")");
        if (dtype) return add({.kind = Node::Kind::cast, .dtype = *dtype, .position = name.position, .arguments = arguments});
        return operation(function->op, name.position, arguments);
    }

    std::string_view operation_;
    Lexer lexer_;
    Token token_;
    SyntaxTree tree_;
    int depth_ = 0;
};

}  // namespace

bool is_operand_name(std::string_view name) noexcept {
    if (name.empty() || name == "true" || name == "false") return false;
    for (const char c : name) {
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!is_letter && (c < '0' || c > '9')) return false;
    }
    return name.front() < '0' || name.front() > '9';
}

SyntaxTree parse(std::string_view operation, std::string_view text) {
    return Parser(operation, text).run();
}

}  // namespace tandem::expression
