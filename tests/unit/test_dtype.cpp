#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <string>
#include <utility>

#include <tandem/dtype.hpp>

using tandem::DType;
using tandem::dtype_of;
using tandem::numpy_code;
using tandem::parse_dtype;
using tandem::to_string;

namespace {

constexpr std::array all{
#define TANDEM_X(name, type, code) DType::name,
    TANDEM_FOR_EACH_DTYPE(TANDEM_X)
#undef TANDEM_X
};

constexpr bool little = std::endian::native == std::endian::little;

}  // namespace

TEST_CASE("dtype: the list") {
    CHECK(tandem::dtype_count == 15);
    CHECK(all.size() == 15);
    CHECK(dtype_of<float> == tandem::float32);
    CHECK(dtype_of<bool> == tandem::boolean);
    CHECK(dtype_of<std::complex<double>> == tandem::complex128);
    CHECK(dtype_of<tandem::BFloat16> == tandem::bfloat16);
}

TEST_CASE("dtype: sizes") {
    CHECK(tandem::size_bytes(tandem::boolean) == 1);
    CHECK(tandem::size_bytes(tandem::bfloat16) == 2);
    CHECK(tandem::size_bytes(tandem::complex128) == 16);
    CHECK(tandem::component_bytes(tandem::complex128) == 8);
    CHECK(tandem::component_bytes(tandem::complex64) == 4);
    CHECK(tandem::component_bytes(tandem::int16) == 2);
}

TEST_CASE("dtype: names and codes are NumPy's") {
    constexpr std::array<std::pair<const char*, const char*>, 15> expected{{
        {"bool", "|b1"},
        {"int8", "|i1"},
        {"int16", "<i2"},
        {"int32", "<i4"},
        {"int64", "<i8"},
        {"uint8", "|u1"},
        {"uint16", "<u2"},
        {"uint32", "<u4"},
        {"uint64", "<u8"},
        {"float16", "<f2"},
        {"bfloat16", "<V2"},
        {"float32", "<f4"},
        {"float64", "<f8"},
        {"complex64", "<c8"},
        {"complex128", "<c16"},
    }};
    for (std::size_t i = 0; i < all.size(); ++i) {
        std::string code = expected[i].second;
        if (!little && code[0] == '<') {
            code[0] = '>';
        }
        CHECK(to_string(all[i]) == expected[i].first);
        CHECK(numpy_code(all[i]) == code);
    }
}

TEST_CASE("dtype: every name and code is understood") {
    for (const DType dtype : all) {
        CAPTURE(to_string(dtype));
        CHECK(parse_dtype(to_string(dtype)) == dtype);
        if (dtype != tandem::bfloat16) {
            const std::string code(numpy_code(dtype));
            CHECK(parse_dtype(code) == dtype);
            CHECK(parse_dtype(code.substr(1)) == dtype);
            CHECK(parse_dtype("=" + code.substr(1)) == dtype);
        }
    }
}

TEST_CASE("dtype: short names") {
    CHECK(parse_dtype("f16") == tandem::float16);
    CHECK(parse_dtype("f32") == tandem::float32);
    CHECK(parse_dtype("f64") == tandem::float64);
    CHECK(parse_dtype("bf16") == tandem::bfloat16);
    CHECK(parse_dtype("i16") == tandem::int16);
    CHECK(parse_dtype("i64") == tandem::int64);
    CHECK(parse_dtype("u32") == tandem::uint32);
    CHECK(parse_dtype("c64") == tandem::complex64);
    CHECK(parse_dtype("c128") == tandem::complex128);
}

TEST_CASE("dtype: where a short name is a NumPy code too, it is NumPy's") {
    CHECK(parse_dtype("i8") == tandem::int64);
    CHECK(parse_dtype("u8") == tandem::uint64);
    CHECK(parse_dtype("c16") == tandem::complex128);
}

TEST_CASE("dtype: orders") {
    CHECK(parse_dtype("|u1") == tandem::uint8);
    CHECK(parse_dtype(">i1") == tandem::int8);
    CHECK(parse_dtype("<b1") == tandem::boolean);
    CHECK(parse_dtype(little ? "<f4" : ">f4") == tandem::float32);
    CHECK_FALSE(parse_dtype(little ? ">f4" : "<f4"));
    CHECK_FALSE(parse_dtype("|f4"));
    CHECK_FALSE(parse_dtype("<float32"));
    CHECK_FALSE(parse_dtype("<f32"));
}

TEST_CASE("dtype: what is none") {
    for (const char* text : {"",    "<",   "f", "f3", "f128", "half", "double", "float", "boolean", "Float32", "float32 ",
                             " f4", "b16", "b", "V2", "<V2",  "S4",   "O",      "i128",  "bfloat",  "bf",      "32"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_dtype(text));
    }
}
