// The parser's and typer's rules, against NumPy's own tables; and every operation on every pair of dtypes, on the host.

#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "core/expression/parser.hpp"
#include "core/expression/program.hpp"
#include "tests/support/expression_cases.hpp"
#include "tests/unit/expect_error.hpp"

using namespace tandem;
using namespace tandem::expression;
using nlohmann::json;
using tandem::test::expect_error;

namespace {

const json& tables() {
    static const json read = json::parse(std::ifstream(TANDEM_EXPRESSIONS_FILE));
    return read;
}

DType dtype_named(const json& name) {
    return *parse_dtype(name.get<std::string>());
}

// The type of the value that `text` assigns to "out", which is complex128 and takes everything.
ValueType type_of(const std::string& text, std::vector<OperandType> operands) {
    operands.push_back({"out", {complex128, false}, true});
    const Program program = make_program("test", text, parse("test", text), std::move(operands));
    return program.stores.at(0).type;
}

// The tree in full parentheses.
std::string written(const SyntaxTree& tree, std::int32_t at) {
    const Node& node = tree.nodes[static_cast<std::size_t>(at)];
    if (node.kind == Node::Kind::name) return node.name;
    if (node.kind == Node::Kind::literal) return std::to_string(node.literal.integer);
    std::string text;
    switch (node.kind) {
        case Node::Kind::plus:
            text = "plus";
            break;
        case Node::Kind::logical_not:
            text = "lnot";
            break;
        case Node::Kind::logical_and:
            text = "land";
            break;
        case Node::Kind::logical_or:
            text = "lor";
            break;
        case Node::Kind::cast:
            text = to_string(node.dtype);
            break;
        default:
            text = function_name(node.op);
    }
    text += '(';
    for (std::size_t i = 0; i < 3 && node.arguments[i] >= 0; ++i)
        text += (i == 0 ? "" : " ") + written(tree, node.arguments[i]);
    return text + ")";
}

std::string tree_of(const std::string& text) {
    const SyntaxTree tree = parse("test", "o = " + text);
    return written(tree, tree.statements.at(0).value);
}

}  // namespace

TEST_CASE("expression: operators bind as documented") {
    CHECK(tree_of("a + b * c") == "add(a mul(b c))");
    CHECK(tree_of("(a + b) * c") == "mul(add(a b) c)");
    CHECK(tree_of("a - b - c") == "sub(sub(a b) c)");
    CHECK(tree_of("a / b // c % d") == "mod(floordiv(div(a b) c) d)");
    CHECK(tree_of("-a ** b") == "neg(pow(a b))");
    CHECK(tree_of("a ** -b ** c") == "pow(a neg(pow(b c)))");
    CHECK(tree_of("a << b + c") == "shl(a add(b c))");
    CHECK(tree_of("a & b << c") == "and(a shl(b c))");
    CHECK(tree_of("a | b ^ c & d") == "or(a xor(b and(c d)))");
    CHECK(tree_of("a & b == c") == "eq(and(a b) c)");
    CHECK(tree_of("a < b && c >= d || !e") == "lor(land(lt(a b) ge(c d)) lnot(e))");
    CHECK(tree_of("a ? b : c ? d : e") == "where(a b where(c d e))");
    CHECK(tree_of("where(a, b, c)") == "where(a b c)");
    CHECK(tree_of("~a + +b") == "add(not(a) plus(b))");
    CHECK(tree_of("i8(a) + float32(b)") == "add(int8(a) float32(b))");
    CHECK(tree_of("min(a, max(b, 0x1F))") == "min(a max(b 31))");
    CHECK(tree_of("abs + sqrt(abs)") == "add(abs sqrt(abs))");
}

TEST_CASE("expression: errors name the column, what was expected and what was found") {
    const auto refused = [](const std::string& text, std::initializer_list<std::string_view> parts) {
        CAPTURE(text);
        expect_error(ErrorCode::invalid_argument, parts, [&] { return parse("elementwise", text); });
    };
    refused("", {"elementwise: column 1: expected the name of an output, found the end of the expression"});
    refused("3 = a", {"column 1: expected the name of an output, found '3'"});
    refused("o a", {"column 3: expected '=', found 'a'"});
    refused("o = ", {"column 5: expected an operand, found the end of the expression"});
    refused("o = a +", {"column 8: expected an operand"});
    refused("o = a b", {"column 7: expected an operator or the end of the expression, found 'b'"});
    refused("o = (a", {"column 7: expected ')', found the end"});
    refused("o = a ? b", {"column 10: expected ':'"});
    refused("o = a < b < c", {"column 11: comparisons don't chain"});
    refused("o = a @ b", {"column 7: '@' starts nothing"});
    refused("o = \x01", {"column 5: '\\x01' starts nothing"});
    refused("o = 1.5x", {"column 5: '1.5x' is not a number"});
    refused("o = 0x", {"column 5: '0x' is not a number"});
    refused("o = 1e", {"column 5: '1e' is not a number"});
    refused("o = 18446744073709551616", {"column 5:", "larger than 64 bits"});
    refused("o = 1e999", {"column 5:", "outside of what float64 holds"});
    refused("o = frob(a)", {"column 5: there is no function 'frob'"});
    refused("o = min(a)", {"column 10: min takes 2 arguments, found 1"});
    refused("o = sqrt()", {"column 10: sqrt takes 1 argument, found 0"});
    refused("o = sqrt(a, b)", {"column 13:", "sqrt takes 1 argument"});
    refused("true = a", {"column 1: 'true' can't be assigned to"});
    refused("o = a;;", {"column 7: expected the name of an output"});
    refused("o = " + std::string(100, '(') + "a" + std::string(100, ')'), {"nested deeper than"});
    refused("o = " + std::string(1000, '-') + "a", {"nested deeper than"});
    std::string chain = "o = a";
    for (int i = 0; i < 1000; ++i)
        chain += " ** a";
    refused(chain, {"nested deeper than"});
    std::string sum = "o = a";
    for (int i = 0; i < 1000; ++i)
        sum += "+a";
    refused(sum, {"more than 1024 operations"});
    refused("o = a" + std::string(9000, ' '), {"9005 bytes, at most 8192"});
    CHECK(parse("elementwise", "o = a; p = o;").statements.size() == 2);
}

TEST_CASE("expression: types are promoted as NumPy does") {
    REQUIRE(tables()["promote"].size() == 14 * 14);
    for (const json& row : tables()["promote"]) {
        CAPTURE(row.dump());
        CHECK(promote(dtype_named(row[0]), dtype_named(row[1])) == dtype_named(row[2]));
    }
    for (const json& row : tables()["same_kind"]) {
        CAPTURE(row.dump());
        CHECK(is_same_kind(dtype_named(row[0]), dtype_named(row[1])) == row[2].get<bool>());
    }
    // bfloat16, which NumPy lacks: as float16, and both together float32.
    CHECK(promote(bfloat16, bfloat16) == bfloat16);
    CHECK(promote(bfloat16, float16) == float32);
    CHECK(promote(float16, bfloat16) == float32);
    CHECK(promote(bfloat16, boolean) == bfloat16);
    CHECK(promote(uint8, bfloat16) == bfloat16);
    CHECK(promote(bfloat16, int16) == float32);
    CHECK(promote(bfloat16, int32) == float64);
    CHECK(promote(bfloat16, float32) == float32);
    CHECK(promote(bfloat16, float64) == float64);
    CHECK(promote(complex64, bfloat16) == complex64);
}

TEST_CASE("expression: weak numbers take the type of what they meet, as NEP 50 has it") {
    for (const json& row : tables()["weak"]) {
        CAPTURE(row.dump());
        const std::vector<OperandType> array{{"a", {dtype_named(row[0]), false}, true}};
        const std::string number = row[1];
        CHECK(type_of("out = a + " + number, array) == ValueType{dtype_named(row[2]), false});
        CHECK(type_of("out = " + number + " + a", array) == ValueType{dtype_named(row[2]), false});
        CHECK(type_of("out = a / " + number, array) == ValueType{dtype_named(row[3]), false});
    }
    const std::vector<OperandType> array{
        {"a", {bfloat16, false}, true}, {"s", {float64, true}, false}, {"t", {float64, false}, false}};
    CHECK(type_of("out = a * s + t", array) == ValueType{float64, false});
    CHECK(type_of("out = a * (s + 1); u = t; out = out * u", array).dtype == complex128);
    CHECK(type_of("out = a * (s + sqrt(2)) + 0 * bf16(t)", array) == ValueType{bfloat16, false});
}

TEST_CASE("expression: what types lack, and operands that don't fit the text") {
    const auto refused = [](const std::string& text, std::initializer_list<std::string_view> parts) {
        CAPTURE(text);
        expect_error(ErrorCode::invalid_argument, parts, [&] {
            return make_program("elementwise", text, parse("elementwise", text),
                                {{"out", {float32, false}, true},
                                 {"b", {boolean, false}, true},
                                 {"i", {int32, false}, true},
                                 {"u", {uint64, false}, true},
                                 {"f", {float32, false}, true},
                                 {"z", {complex64, false}, true},
                                 {"s", {int64, true}, false}});
        });
    };
    refused("out = nope", {"column 7: 'nope' is not among the operands, which are out, b, i, u, f, z, s"});
    refused("out = z < f", {"column 9: < needs numbers that have an order, found complex64 and float32"});
    refused("out = min(z, f)", {"column 7: min needs numbers that have an order"});
    refused("out = z // f", {"column 9: // needs real numbers, found complex64 and float32"});
    refused("out = z % 2", {"% needs real numbers"});
    refused("out = f & i", {"column 9: & needs integers, found float32 and int32"});
    refused("out = i | u", {"| needs integers that one integer type holds, found int32 and uint64"});
    refused("out = f << 1", {"<< needs integers"});
    refused("out = ~f", {"column 7: ~ needs integers, found float32"});
    refused("out = b - b", {"column 9: - needs numbers, for bools there is ^, found bool and bool"});
    refused("out = -b", {"column 7: - needs numbers, for bools there is !, found bool"});
    refused("out = +b", {"column 7: + needs numbers"});
    refused("out = tanh(z)", {"column 7: tanh needs real numbers"});
    refused("out = floor(z)", {"column 7: floor needs real numbers"});
    refused("out = z", {"column 1: out, which is float32, does not take complex64 by \"same kind\" casting: write float32(...)"});
    refused("i = f", {"column 1: i, which is int32, does not take float32"});
    refused("u = i", {"column 1: u, which is uint64, does not take int32"});
    refused("b = i", {"b, which is bool, does not take int32"});
    refused("b = 1", {"b, which is bool, does not take int64"});
    refused("s = f", {"column 1: 's' is a number: only arrays can be assigned to"});
    refused("t = f; out = f", {"column 1: 't' is neither an operand nor used later"});
    refused("t = f; t = i; out = t", {"column 1: 't' is neither an operand nor used later"});
    refused("out = b + i + f + real(z)", {"the operand 'u' is not used in \"out = b + i + f + real(z)\""});
    std::string many = "out = f*0";
    for (int i = 1; i < 18; ++i)
        many += " + (f + " + std::to_string(i) + ")";
    refused(many + "; b = b; i = i + s; u = u; z = z", {"different numbers in one expression, at most 16"});
    std::vector<OperandType> arrays;
    std::string sum = "a0 = 0";
    for (int i = 0; i < 11; ++i) {
        arrays.push_back({"a" + std::to_string(i), {float32, false}, true});
        sum += " + a" + std::to_string(i);
    }
    expect_error(ErrorCode::invalid_argument, {"11 arrays in one expression, at most 10"},
                 [&] { return make_program("elementwise", sum, parse("elementwise", sum), arrays); });
    const std::string none = "t = 1; t = t";
    expect_error(ErrorCode::invalid_argument, {"neither an operand nor used later"},
                 [&] { return make_program("elementwise", none, parse("elementwise", none), {}); });
}

TEST_CASE("expression: every operation on every pair of dtypes gives on the host what NumPy gives") {
    const Device device = open_device("host");
    Queue queue(device);
    REQUIRE(tables()["cases"].size() > 800);
    for (const json& one : tables()["cases"]) {
        test::run_case(queue, one, [&](DType dtype, const Shape& shape) { return empty(device, dtype, shape); });
        // The values' own types, before they are cast to the outputs'.
        std::vector<OperandType> operands;
        for (const char* which : {"outputs", "inputs"}) {
            for (const json& operand : one[which])
                operands.push_back({operand["name"].get<std::string>(), {dtype_named(operand["dtype"]), false}, true});
        }
        const std::string text = one["text"];
        CAPTURE(text);
        const Program program = make_program("test", text, parse("test", text), operands);
        for (const Store& store : program.stores)
            CHECK(store.type == operands[static_cast<std::size_t>(store.operand)].type);
    }
}

TEST_CASE("expression: uint64 and signed integers compare exactly") {
    const Device device = open_device("host");
    Queue queue(device);
    const std::vector<std::uint64_t> u{0, 1, 9007199254740993, 9007199254740992, UINT64_MAX, std::uint64_t{1} << 63U, 5};
    const std::vector<std::int64_t> i{-1, 1, 9007199254740992, 9007199254740993, -1, INT64_MIN, 6};
    const std::vector<int> order{1, 0, 1, -1, 1, 1, -1};  // u against i
    const Array a = empty(device, uint64, {7}), b = empty(device, int64, {7}), lt = empty(device, boolean, {7}),
                ge = empty(device, boolean, {7}), eq = empty(device, boolean, {7}), gt = empty(device, boolean, {7});
    copy(queue, u, a);
    copy(queue, i, b);
    elementwise(queue, "lt = a < b; ge = a >= b; eq = a == b; gt = b > a",
                {{"a", a}, {"b", b}, {"lt", lt}, {"ge", ge}, {"eq", eq}, {"gt", gt}});
    const auto less = to_vector<bool>(queue, lt), not_less = to_vector<bool>(queue, ge), equal = to_vector<bool>(queue, eq),
               swapped = to_vector<bool>(queue, gt);
    for (std::size_t k = 0; k < order.size(); ++k) {
        CAPTURE(k);
        CHECK(less[k] == (order[k] < 0));
        CHECK(not_less[k] == (order[k] >= 0));
        CHECK(equal[k] == (order[k] == 0));
        CHECK(swapped[k] == (order[k] < 0));
    }
}

TEST_CASE("expression: Scalar holds its number exactly, or says that it can't") {
    CHECK(Scalar(1).is_weak());
    CHECK(Scalar(1.5F).dtype() == float64);
    CHECK(Scalar(UINT64_MAX).dtype() == uint64);
    CHECK(!Scalar(true).is_weak());
    CHECK(Scalar(Float16(1.0F)).dtype() == float16);
    CHECK(Scalar(300, int16).bytes()[1] == std::byte{1});
    CHECK(Scalar(1.0, float16).bytes()[1] == std::byte{0x3c});
    CHECK(Scalar(1.0, bfloat16).bytes()[1] == std::byte{0x3f});
    CHECK(!Scalar(1.0, float32).is_weak());
    expect_error(ErrorCode::invalid_argument, {"Scalar", "300 does not fit int8"}, [] { return Scalar(300, int8); });
    expect_error(ErrorCode::invalid_argument, {"Scalar", "float32 does not hold a complex number"},
                 [] { return Scalar(std::complex<double>(1, 2), float32); });
}
