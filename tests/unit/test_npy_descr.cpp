#include <doctest/doctest.h>

#include <bit>
#include <string>
#include <string_view>

#include <tandem/error.hpp>
#include <tandem/npy_header.hpp>

#include "expect_error.hpp"

using tandem::DType;
using tandem::ErrorCode;
using tandem::Shape;
using tandem::npy::Field;
using tandem::npy::find_field;
using tandem::npy::Header;
using tandem::npy::ItemType;
using tandem::test::expect_error;

namespace {

constexpr bool little = std::endian::native == std::endian::little;

// A header whose 'descr' is `descr`, which starts at byte 20 of the file.
Header parse(std::string_view descr, std::string_view shape = "(3,)", char major = '\1') {
    std::string text = "{'descr': " + std::string(descr) + ", 'fortran_order': False, 'shape': " + std::string(shape) + "}";
    std::string file = "\x93NUMPY";
    file += major;
    file += '\0';
    for (std::size_t i = 0; i < (major == '\1' ? 2U : 4U); ++i) {
        file += static_cast<char>(static_cast<unsigned char>((text.size() >> (8 * i)) & 0xffU));
    }
    file += text;
    return tandem::npy::parse_header(std::as_bytes(std::span(file)), "a.npy");
}

ItemType type_of(std::string_view code) {
    return parse("'" + std::string(code) + "'").type;
}

void refuse(std::string_view descr, std::initializer_list<std::string_view> parts) {
    CAPTURE(descr);
    expect_error(ErrorCode::bad_file, {"a.npy: offset ", "needed", "found"}, [&] { return parse(descr); });
    expect_error(ErrorCode::bad_file, parts, [&] { return parse(descr); });
}

}  // namespace

TEST_CASE("npy descr: every number in both orders") {
    struct Case {
        const char* code;
        DType dtype;
    };
    for (const auto& [number_code, dtype] :
         {Case{"i2", tandem::int16}, Case{"i4", tandem::int32}, Case{"i8", tandem::int64}, Case{"u2", tandem::uint16},
          Case{"u4", tandem::uint32}, Case{"u8", tandem::uint64}, Case{"f2", tandem::float16}, Case{"f4", tandem::float32},
          Case{"f8", tandem::float64}, Case{"c8", tandem::complex64}, Case{"c16", tandem::complex128}}) {
        const std::string code = number_code;
        CAPTURE(code);
        for (const std::string order : {"<", ">", "=", ""}) {
            const ItemType type = type_of(order + code);
            CHECK(type.dtype == dtype);
            CHECK(type.item_bytes == tandem::size_bytes(dtype));
            CHECK(type.swapped == (order == (little ? ">" : "<")));
            CHECK(type.descr == order + code);
        }
        refuse("'|" + code + "'", {"offset 20", "byte order", code});
    }
}

TEST_CASE("npy descr: one-byte numbers have no order") {
    for (const std::string order : {"<", ">", "|", "=", ""}) {
        CHECK(type_of(order + "b1").dtype == tandem::boolean);
        CHECK(type_of(order + "i1").dtype == tandem::int8);
        CHECK(type_of(order + "u1").dtype == tandem::uint8);
        CHECK_FALSE(type_of(order + "u1").swapped);
    }
}

TEST_CASE("npy descr: NumPy's other names for numbers") {
    CHECK(type_of("float32").dtype == tandem::float32);
    CHECK(type_of("bool").dtype == tandem::boolean);
    CHECK(type_of("?").dtype == tandem::boolean);
    CHECK(type_of(">d").dtype == tandem::float64);
    CHECK(type_of(">d").swapped == little);
    CHECK(type_of("e").dtype == tandem::float16);
    CHECK(type_of("half").dtype == tandem::float16);
    CHECK(type_of("complex").dtype == tandem::complex128);
    // Rust's and C's short names are not NumPy's.
    refuse("'f32'", {"'f32'"});
    refuse("'<float32'", {"'<float32'"});
}

TEST_CASE("npy descr: long doubles are refused by name") {
    for (const char* code : {"<f16", ">f16", "f12", "longdouble", "float128", "g"}) {
        refuse("'" + std::string(code) + "'", {"a long double", code});
    }
    for (const char* code : {"<c32", "complex256", "G"}) {
        refuse("'" + std::string(code) + "'", {"a complex long double", code});
    }
    refuse("[('x', '<f16')]", {"offset 27", "a long double"});
}

TEST_CASE("npy descr: Python objects are refused wherever they are") {
    for (const char* descr : {"'|O'", "'O'", "'O8'", "'<O'", "'object'", "[('x', '<f4'), ('y', '|O')]", "[('x', [('y', 'O')])]",
                              "('|O', (2,))", "[('x', '|O', (2,))]", "[('', '|O', (2,))]"}) {
        refuse(descr, {"Python objects", "never unpickled"});
    }
}

TEST_CASE("npy descr: times are 64-bit integers with a unit") {
    for (const char kind : {'M', 'm'}) {
        const std::string code = std::string(1, kind) + "8";
        CHECK(type_of("<" + code).unit.empty());
        CHECK(type_of("<" + code).dtype == tandem::int64);
        CHECK(type_of("<" + code + "[ns]").unit == "ns");
        CHECK(type_of("<" + code + "[25s]").unit == "25s");
        CHECK(type_of("<" + code + "[1s]").unit == "s");
        CHECK(type_of("<" + code + "[generic]").unit.empty());
        CHECK(type_of(">" + code + "[ns]").swapped == little);
        CHECK(type_of(">" + code + "[ns]").item_bytes == 8);
        for (const char* unit : {"Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"}) {
            CHECK(type_of("<" + code + "[" + unit + "]").unit == unit);
        }
        for (const char* unit : {"[]", "[B]", "[25]", "[-2s]", "[2147483648s]", "[ns", "[ns]x", "[ns]//3", "[ s]", "[s/10]"}) {
            refuse("'<" + code + unit + "'", {"unit of time", unit});
        }
        refuse("'|" + code + "'", {"byte order"});
    }
    CHECK(type_of("datetime64[us]").unit == "us");
    CHECK(type_of("timedelta64").dtype == tandem::int64);
    refuse("'<M4'", {"<M4"});
}

TEST_CASE("npy descr: text and void are described") {
    CHECK(type_of("|S5").item_bytes == 5);
    CHECK_FALSE(type_of("|S5").dtype);
    CHECK_FALSE(type_of(">S5").swapped);
    CHECK(type_of("a4").item_bytes == 4);
    CHECK(type_of("<U5").item_bytes == 20);
    CHECK(type_of(">U5").swapped == little);
    CHECK(type_of("|V16").item_bytes == 16);
    // What bfloat16 and 8-bit floats arrive as; a caller may know better.
    CHECK(type_of("<V2").item_bytes == 2);
    CHECK(type_of("|V1").item_bytes == 1);
    CHECK_FALSE(type_of("<V2").dtype);
    refuse("'|S-1'", {"width"});
    refuse("'|S5x'", {"width"});
    refuse("'|S99999999999999999999'", {"2^63"});
    refuse("'<U2305843009213693952'", {"2^63"});
}

TEST_CASE("npy descr: items of no bytes take no space") {
    for (const char* code : {"|S0", "S", "<U0", "U", "|V0", "V"}) {
        const Header header = parse("'" + std::string(code) + "'", "(1000000,)");
        CHECK(header.type.item_bytes == 0);
        CHECK(header.data_bytes == 0);
        CHECK(header.shape == Shape{1000000});
    }
    expect_error(ErrorCode::bad_file, {"2^63"}, [] { return parse("'S0'", "(9223372036854775807, 2)"); });
}

TEST_CASE("npy descr: unknown codes") {
    for (const char* code :
         {"", "<", "|", "z4", "<i3", "<f1", "<b2", "<i16", "@f4", "!f4", "<f4 ", " <f4", "<<f4", "f4\\x00", "T"}) {
        refuse("'" + std::string(code) + "'", {"offset 20"});
    }
    refuse("'f4,i4'", {"several types in one string", "(name, type)"});
    refuse("'(2,)f4'", {"several types in one string"});
    refuse("'2f4'", {"(type, shape)"});
}

TEST_CASE("npy descr: structures lie one field after the other") {
    const Header header = parse("[('a', '<i4'), ('b', '>f8'), ('c', '|S3')]");
    CHECK(header.type.item_bytes == 15);
    CHECK(header.type.descr == "[('a', '<i4'), ('b', '>f8'), ('c', '|S3')]");
    CHECK_FALSE(header.type.dtype);
    CHECK_FALSE(header.type.swapped);
    CHECK(header.data_bytes == 45);
    REQUIRE(header.fields.size() == 3);
    CHECK(header.fields[1].name == "b");
    CHECK(header.fields[1].offset_bytes == 4);
    CHECK(header.fields[1].type.swapped == little);
    CHECK(header.fields[2].offset_bytes == 12);
    CHECK(parse("[]").fields.empty());
    CHECK(parse("[]").type.item_bytes == 0);
    CHECK(parse("[['x', '<f4']]").fields.size() == 1);
}

TEST_CASE("npy descr: padding moves offsets and is not listed") {
    const Header header = parse("[('a', '|i1'), ('', '|V7'), ('b', '<f8'), ('', '|V4')]");
    CHECK(header.type.item_bytes == 20);
    REQUIRE(header.fields.size() == 2);
    CHECK(header.fields[1].offset_bytes == 8);
    // Nothing but padding; a void with a name; a sub-array without one.
    CHECK(parse("[('', '|V8')]").fields.empty());
    CHECK(parse("[('', '|V8')]").type.item_bytes == 8);
    CHECK(parse("[('p', '|V8')]").fields.size() == 1);
    CHECK(parse("[('', '<f4', (2,)), ('a', '<i2')]").fields.front().offset_bytes == 8);
    // No padding: other types without a name are fields, as in NumPy.
    CHECK(parse("[('', '<f4')]").fields.size() == 1);
    CHECK(parse("[('', [('x', '<f4')])]").fields.size() == 1);
}

TEST_CASE("npy descr: titles") {
    const Header header = parse("[(('Title', 'a'), '<f4'), ((None, 'b'), '<f4')]");
    CHECK(header.fields[0].name == "a");
    CHECK(header.fields[0].title == "Title");
    CHECK(header.fields[1].title.empty());
    CHECK(find_field(header, "Title").name == "a");
}

TEST_CASE("npy descr: sub-arrays") {
    const ItemType type = parse("('<f4', (2, 3))").type;
    CHECK(type.dtype == tandem::float32);
    CHECK(type.item_bytes == 24);
    CHECK(type.subarray == Shape{2, 3});
    CHECK(parse("('<f4', (2, 3))").data_bytes == 72);
    CHECK(parse("('<f4', [2])").type.subarray == Shape{2});
    CHECK(parse("('<f4', 2)").type.subarray == Shape{2});
    CHECK(parse("('<f4', (2L,))").type.subarray == Shape{2});
    CHECK(parse("('<f4', 1)").type.subarray == Shape{});
    CHECK(parse("('<f4', ())").type.subarray == Shape{});
    CHECK(parse("('<f4', (1,))").type.subarray == Shape{1});
    CHECK(parse("('<f4', (0,))").type.item_bytes == 0);
    CHECK(parse("(('<f4', (2,)), (3,))").type.subarray == Shape{3, 2});
    CHECK(parse("('S', 5)").type.item_bytes == 5);
    CHECK(parse("('U', 5)").type.item_bytes == 20);
    const Header header = parse("[('m', '>f4', (2, 3)), ('s', [('x', '<f4')], (2,)), ('t', 'S', 3)]");
    CHECK(header.fields[0].type.subarray == Shape{2, 3});
    CHECK(header.fields[0].type.swapped == little);
    CHECK(header.fields[1].offset_bytes == 24);
    CHECK(header.fields[1].type.item_bytes == 8);
    CHECK(header.fields[1].fields.size() == 1);
    CHECK(header.fields[2].type.item_bytes == 3);
}

TEST_CASE("npy descr: sub-arrays that are none") {
    refuse("('<f4', (-1,))", {"offset 29", "-1"});
    refuse("('<f4', True)", {"True"});
    refuse("('<f4', (True,))", {"True"});
    refuse("('<f4', 2.0)", {"2.0"});
    refuse("('<f4', None)", {"None"});
    refuse("('<f4', '<f8')", {"'<f8'"});
    refuse("('<f4', {})", {"{}"});
    refuse("('<f4',)", {"a tuple of a type and a shape"});
    refuse("('<f4', 2, 3)", {"a tuple of a type and a shape"});
    refuse("('S', (5,))", {"width"});
    refuse("(('<f4', (0,)), 2)", {"width"});
    refuse("('<f4', (4294967296, 4294967296, 0))", {"2^63"});
    refuse("('<f4', (2305843009213693952,))", {"2^63"});
    expect_error(ErrorCode::bad_file, {"64 dimensions", "66 found"}, [] {
        return parse("('<f4', (1, 1))",
                     "(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "
                     "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)");
    });
}

TEST_CASE("npy descr: fields that are none") {
    refuse("['xf']", {"offset 21", "(name, type)"});
    refuse("[('x',)]", {"(name, type)"});
    refuse("[('x', '<f4', (2,), 3)]", {"(name, type)"});
    refuse("[3]", {"the number 3"});
    refuse("[(3, '<f4')]", {"name", "the number 3"});
    refuse("[(None, '<f4')]", {"name", "None"});
    refuse("[(['t', 'x'], '<f4')]", {"name"});
    refuse("[(('a', 'b', 'c'), '<f4')]", {"name"});
    refuse("[((3, 'x'), '<f4')]", {"title"});
    refuse("[('x', '<f4'), ('x', '<f4')]", {"'x' found twice"});
    refuse("[(('y', 'x'), '<f4'), ('y', '<f4')]", {"'y' found twice"});
    refuse("[('x', 'V9223372036854775807'), ('y', '|V1')]", {"2^63"});
    refuse("[('x', {'names': [], 'formats': []})]", {"dictionary"});
    for (const char* descr : {"4", "None", "True", "{}", "()"}) {
        refuse(descr, {"offset 20", descr});
    }
}

TEST_CASE("npy descr: names in the header's encoding") {
    CHECK(parse("[('caf\xe9', '<f4')]", "(3,)", '\1').fields[0].name == "caf\xc3\xa9");
    CHECK(parse("[('caf\xe9', '<f4')]", "(3,)", '\2').fields[0].name == "caf\xc3\xa9");
    CHECK(parse("[('caf\xc3\xa9', '<f4')]", "(3,)", '\3').fields[0].name == "caf\xc3\xa9");
    CHECK(parse("[('caf\xe9', '<f4')]").type.descr == "[('caf\xc3\xa9', '<f4')]");
    CHECK(parse(R"([('\u4e2d\x41\n', '<f4')])").fields[0].name ==
          "\xe4\xb8\xad"
          "A\n");
    expect_error(ErrorCode::bad_file, {"UTF-8", "'\\xe9'"}, [] { return parse("[('caf\xe9', '<f4')]", "(3,)", '\3'); });
}

TEST_CASE("npy descr: fields are found by their path") {
    const Header header =
        parse("[('id', '<u4'), ('at', [('x', '<f4'), ('in', [('y', '>f8')])]), ('at.x', '<i2'), ('p', [('q', '<f4')], (2,))]");
    CHECK(find_field(header, "id").offset_bytes == 0);
    CHECK(find_field(header, "at").offset_bytes == 4);
    CHECK(find_field(header, "at.in").offset_bytes == 8);
    CHECK(find_field(header, "at.in.y").offset_bytes == 8);
    CHECK(find_field(header, "at.in.y").type.swapped == little);
    // A name with a dot of its own comes before a path.
    CHECK(find_field(header, "at.x").offset_bytes == 16);
    CHECK(find_field(header, "p").type.subarray == Shape{2});
    expect_error(ErrorCode::out_of_range, {"'z'", "'id'", "'at'"}, [&] { return find_field(header, "z"); });
    expect_error(ErrorCode::out_of_range, {"'z'", "'x'", "'in'"}, [&] { return find_field(header, "at.z"); });
    expect_error(ErrorCode::out_of_range, {"'id.x'"}, [&] { return find_field(header, "id.x"); });
    expect_error(ErrorCode::out_of_range, {"''"}, [&] { return find_field(header, ""); });
    expect_error(ErrorCode::unsupported, {"p.q", "sub-array (2,)"}, [&] { return find_field(header, "p.q"); });
    expect_error(ErrorCode::out_of_range, {"none"}, [] { return find_field(parse("'<f4'"), "x"); });
    CHECK(find_field(parse("([('x', '<f4'), ('y', '<f4')], (2,))"), "y").offset_bytes == 4);
}

TEST_CASE("npy descr: deep structures, up to a bound") {
    std::string deep = "'<f4'";
    for (int i = 0; i < 15; ++i) {
        deep = "[('x', " + deep + ")]";
    }
    CHECK(parse(deep).type.item_bytes == 4);
    for (int i = 0; i < 10; ++i) {
        deep = "[('x', " + deep + ")]";
    }
    refuse(deep, {"32 levels"});
}
