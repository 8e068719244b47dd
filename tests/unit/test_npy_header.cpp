#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <limits>
#include <string>
#include <string_view>
#include <thread>

#include <tandem/error.hpp>
#include <tandem/npy_header.hpp>

#include "expect_error.hpp"
#include "scratch_folder.hpp"

using tandem::ErrorCode;
using tandem::Shape;
using tandem::npy::format_header;
using tandem::npy::Header;
using tandem::npy::header_bytes;
using tandem::npy::parse_header;
using tandem::test::as_bytes;
using tandem::test::expect_error;
using tandem::test::ScratchFolder;
using namespace std::string_literals;

namespace {

std::string wrap(std::string_view text, char major = '\1', std::uint64_t length = std::numeric_limits<std::uint64_t>::max()) {
    length = length == std::numeric_limits<std::uint64_t>::max() ? text.size() : length;
    std::string file = "\x93NUMPY"s + major + '\0';
    for (std::size_t i = 0; i < (major == '\1' ? 2U : 4U); ++i) {
        file += static_cast<char>(static_cast<unsigned char>((length >> (8 * i)) & 0xffU));
    }
    return file + std::string(text);
}

std::string dictionary(std::string_view shape, std::string_view order = "False") {
    return "{'descr': '<f4', 'fortran_order': " + std::string(order) + ", 'shape': " + std::string(shape) + ", }";
}

Header parse(std::string_view file) {
    return parse_header(as_bytes(file), "a.npy");
}
Header parse_text(std::string_view text, char major = '\1') {
    return parse(wrap(text, major));
}

void refuse(std::string_view file, std::initializer_list<std::string_view> parts) {
    CAPTURE(file);
    expect_error(ErrorCode::bad_file, {"a.npy: offset ", "needed", "found"}, [&] { return parse(file); });
    expect_error(ErrorCode::bad_file, parts, [&] { return parse(file); });
}

void refuse_text(std::string_view text, std::initializer_list<std::string_view> parts) {
    refuse(wrap(text), parts);
}

}  // namespace

TEST_CASE("npy prologue: the header's length in all three versions") {
    const std::string text = dictionary("(3,)");
    CHECK(header_bytes(as_bytes(wrap(text, '\1')), "a.npy") == 10 + text.size());
    CHECK(header_bytes(as_bytes(wrap(text, '\2')), "a.npy") == 12 + text.size());
    CHECK(header_bytes(as_bytes(wrap(text, '\3')).first(12), "a.npy") == 12 + text.size());
    CHECK(header_bytes(as_bytes(wrap(text, '\1')).first(10), "a.npy") == 10 + text.size());
    for (const char major : {'\1', '\2', '\3'}) {
        const Header header = parse_text(text, major);
        CHECK(header.major == major);
        CHECK(header.minor == 0);
        CHECK(header.data_offset == (major == '\1' ? 10 : 12) + text.size());
    }
}

TEST_CASE("npy prologue: other files are named") {
    refuse("PK\3\4 and the rest of it", {"offset 0", "a zip archive, perhaps .npz"});
    refuse("PK\5\6", {"zip archive, perhaps .npz"});
    refuse("\x1f\x8b\x08 and more", {"gzip"});
    refuse("\x80\x04\x95 and more", {"a pickle"});
    refuse("\x89HDF\r\n\x1a\n", {"an HDF5 file"});
    refuse("\x10\0\0\0\0\0\0\0{\"a\":{}}"s, {"a safetensors file"});
    refuse("1.0, 2.0", {"'1.0, 2'"});
    refuse("\0\1\xff\n"s, {"'\\x00\\x01\\xff\\n'"});
    refuse("\x93numpy\1\0"s, {"'\\x93NUMPY'", "'\\x93numpy'"});
}

TEST_CASE("npy prologue: files that end in it") {
    const std::string file = wrap(dictionary("(3,)"));
    refuse("", {"offset 0", "10 bytes", "an empty file found"});
    for (std::size_t size = 1; size < 10; ++size) {
        refuse(std::string_view(file).substr(0, size), {"10 bytes", std::to_string(size) + " found"});
    }
    refuse(std::string_view(wrap("", '\2')).substr(0, 11), {"offset 11", "12 bytes", "11 found"});
    expect_error(ErrorCode::bad_file, {"a.npy: offset 10: header of 57 bytes needed, 40 found"},
                 [&] { return parse(std::string_view(file).substr(0, 50)); });
}

TEST_CASE("npy prologue: versions") {
    for (const auto& [major, minor] : {std::pair(0, 0), std::pair(1, 1), std::pair(2, 1), std::pair(4, 0), std::pair(255, 255)}) {
        std::string file = wrap(dictionary("(3,)"));
        file[6] = static_cast<char>(major);
        file[7] = static_cast<char>(minor);
        refuse(file, {"offset 6", "version", std::to_string(major) + "." + std::to_string(minor) + " found"});
    }
}

TEST_CASE("npy prologue: lengths that lie") {
    refuse(wrap("{}", '\1', 60000), {"offset 10", "header of 60000 bytes needed, 2 found"});
    refuse(wrap("{}", '\2', 0xffffffff), {"offset 8", "at most 1048576 bytes", "4294967295 found"});
    refuse(wrap("{}", '\2', tandem::npy::max_header_bytes + 1), {"offset 8", "1048577 found"});
    refuse(wrap("{}", '\2', tandem::npy::max_header_bytes), {"header of 1048576 bytes needed, 2 found"});
    refuse(wrap(dictionary("(3,)"), '\1', 0), {"offset 10", "header's end"});
}

TEST_CASE("npy dictionary: everything that Python reads as the same") {
    for (const std::string& text :
         {"{'descr':'<f4','fortran_order':False,'shape':(3,)}"s, "{'shape': (3,), 'descr': '<f4', 'fortran_order': False,}\n"s,
          "{u'descr': U'<f4', \"fortran_order\": False, r'shape': (3,)}"s,
          " \t{ 'descr' :\n'<f4'\r\n,'fortran_order':False,\f'shape':(3,)}"s,
          "{'descr': '''<f4''', \"\"\"fortran_order\"\"\": False, 'shape': (3,)}"s,
          "{'des' 'cr': '<' \"f4\", 'fortran_order': False, 'shape': (3,)}"s,
          "({'descr': ('<f4'), 'fortran_order': (False), 'shape': ((3,))})"s,
          "{'descr': \\\n'<f4', 'fortran_order': False, 'shape': (3,)}\n\n  \n"s,
          R"({'\x64escr': '<\1464', 'fortran_order': False, '\u0073hape': (3,)})"s, R"({'descr': '<\
f4', 'fortran_order': False, 'shape': (3,)})"s}) {
        CAPTURE(text);
        for (const char major : {'\1', '\2', '\3'}) {
            const Header header = parse_text(text, major);
            CHECK(header.type.descr == "<f4");
            CHECK(header.shape == Shape{3});
            CHECK_FALSE(header.fortran_order);
            CHECK(header.data_bytes == 12);
        }
    }
}

TEST_CASE("npy dictionary: keys") {
    refuse_text("{}", {"offset 10", "no 'descr'"});
    refuse_text("{'fortran_order': False, 'shape': (3,)}", {"no 'descr'"});
    refuse_text("{'descr': '<f4', 'shape': (3,)}", {"no 'fortran_order'"});
    refuse_text("{'descr': '<f4', 'fortran_order': False}", {"no 'shape'"});
    refuse_text("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'extra': 1}", {"offset 66", "the key 'extra'"});
    refuse_text("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 3: 1}", {"the key the number 3"});
    refuse_text("{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (3,)}", {"offset 27", "'descr' found again"});
    refuse_text("{b'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", {"prefix 'b'"});
    refuse_text("{'\x1b[31m': 1}", {"\\x1b[31m"});
    refuse_text("{'" + std::string(5000, 'k') + "': 1}", {"kkk...'"});
}

TEST_CASE("npy dictionary: what is none") {
    for (const std::string& text : {"3"s, "[1]"s, "(1, 2)"s, "'descr'"s, "True"s, "None"s}) {
        refuse_text(text, {"offset 10", "a dictionary needed"});
    }
    refuse_text("", {"header's end"});
    refuse_text("   \n", {"header's end"});
    refuse_text("{1, 2}", {"':'"});
}

TEST_CASE("npy dictionary: nothing of Python but literals") {
    refuse_text(dictionary("tuple(3)"), {"a call of 'tuple'"});
    refuse_text(dictionary("(3,)", "true"), {"the name 'true'"});
    refuse_text(dictionary("(3,)", "__import__('os')"), {"a call of '__import__'"});
    refuse_text(dictionary("(1+2,)"), {"'+'"});
    refuse_text(dictionary("(9**9,)"), {"'*'"});
    refuse_text(dictionary("(3,)*2"), {"'*'"});
    refuse_text(dictionary("(3, # why\n)"), {"a comment"});
    refuse_text(dictionary("(3,)") + "# why", {"a comment"});
    refuse_text(dictionary("(3,)") + "\0"s, {"a NUL byte"});
    refuse_text(dictionary("(3,\0)"s), {"a NUL byte"});
    refuse_text("{'descr': '<f4\0'"s, {"NUL"});
    refuse_text("{'descr': f'<f4'", {"prefix 'f'"});
    refuse_text("{**{}, 'descr': 3}", {"'*'"});
    refuse_text(dictionary("(3,\xa0)"), {"'\\xa0'"});
    refuse(wrap("\xef\xbb\xbf" + dictionary("(3,)"), '\3'), {"offset 12"});
}

TEST_CASE("npy dictionary: text after it") {
    const std::string good = dictionary("(3,)");
    for (const std::string& tail : {" x"s, ";"s, ","s, "\n{}"s, ")"s, "}"s}) {
        refuse_text(good + tail, {"after the dictionary"});
    }
}

TEST_CASE("npy dictionary: broken text") {
    const std::string good = dictionary("(3,)");
    refuse_text(good.substr(0, good.size() - 1), {"header's end"});
    refuse_text("{'descr': '<f4", {"closing quote"});
    refuse_text("{'descr': '''<f4'", {"closing quote"});
    refuse_text("{'descr': '<f4\n'}", {"end of the line"});
    refuse_text("{'descr': '<f4',, 'shape': (3,)}", {"','"});
    refuse_text("{, 'descr': '<f4'}", {"','"});
    refuse_text("{'descr' '<f4'}", {"':'"});
    refuse_text("{'descr': '<f4' 3}", {"',' or '}'", "'3'"});
    refuse_text(dictionary("(3,]"), {"']'"});
    for (const std::string& escape : {"\\x4"s, "\\u123"s, "\\ud800"s, "\\U00110000"s}) {
        refuse_text("{'descr': '" + escape + "'}", {"offset 21", "escape"});
    }
    refuse_text("{'descr': '\\N{DIGIT ONE}'}", {"\\N"});
    refuse_text("{'descr': '\\", {"closing quote"});
    refuse_text("{'descr': r'\\", {"closing quote"});
}

TEST_CASE("npy dictionary: encodings") {
    refuse(wrap("{'caf\xe9': 1}", '\3'), {"offset 17", "UTF-8", "'\\xe9'"});
    refuse(wrap("{'\xc0\xaf': 1}", '\3'), {"UTF-8"});
    refuse(wrap("{'\xed\xa0\x80': 1}", '\3'), {"UTF-8"});
    refuse(wrap("{'\xf4\x90\x80\x80': 1}", '\3'), {"UTF-8"});
    refuse(wrap(dictionary("(3,)") + "\xe4\xb8", '\3'), {"UTF-8"});
    // Every byte is a character in latin-1; shown as such.
    refuse(wrap("{'caf\xe9': 1}", '\1'), {"the key 'caf\xc3\xa9'"});
}

TEST_CASE("npy dictionary: nesting has a bound") {
    for (const std::string& open : {"["s, "("s, "{'a':"s}) {
        std::string text = "{'descr': ";
        for (int i = 0; i < 10000; ++i) {
            text += open;
        }
        refuse_text(text, {"32 levels"});
    }
}

TEST_CASE("npy dictionary: Python 2's longs, where Python 2 could write them") {
    CHECK(parse_text(dictionary("(10L, 2L)"), '\1').shape == Shape{10, 2});
    CHECK(parse_text(dictionary("(10L,)"), '\2').shape == Shape{10});
    refuse(wrap(dictionary("(10L,)"), '\3'), {"version 3.0", "Python 2 long"});
    refuse_text(dictionary("(10l,)"), {"10l"});
    refuse_text(dictionary("(10LL,)"), {"'LL'"});
    refuse_text(dictionary("(10L)"), {"(N,)"});
}

TEST_CASE("npy dictionary: the order is True or False") {
    CHECK(parse_text(dictionary("(3,)", "True")).fortran_order);
    for (const char* order : {"0", "1", "None", "'False'", "(False,)", "0.0", "[]"}) {
        refuse_text(dictionary("(3,)", order), {"offset 44", "True or False"});
    }
}

TEST_CASE("npy shape: what is one") {
    CHECK(parse_text(dictionary("()")).shape.empty());
    CHECK(parse_text(dictionary("()")).data_bytes == 4);
    CHECK(parse_text(dictionary("(3,)")).shape == Shape{3});
    CHECK(parse_text(dictionary("(2,3)")).data_bytes == 24);
    CHECK(parse_text(dictionary("( 2 ,\n3 , )")).shape == Shape{2, 3});
    CHECK(parse_text(dictionary("((2), 3)")).shape == Shape{2, 3});
    CHECK(parse_text(dictionary("(+3, -0, 00)")).shape == Shape{3, 0, 0});
    CHECK(parse_text(dictionary("(3, 0, 4)")).data_bytes == 0);
    CHECK(parse_text(dictionary("(3, 0, 4)")).shape == Shape{3, 0, 4});
    std::string ones;
    for (int i = 0; i < 64; ++i) {
        ones += "1,";
    }
    CHECK(parse_text(dictionary("(" + ones + ")")).shape.size() == 64);
    refuse_text(dictionary("(" + ones + "1)"), {"64 dimensions", "65 found"});
}

TEST_CASE("npy shape: what is none") {
    refuse_text(dictionary("(3)"), {"offset 61", "(3)", "(N,)"});
    refuse_text(dictionary("3"), {"the number 3", "(N,)"});
    refuse_text(dictionary("[3]"), {"the list [3]", "(N,)"});
    refuse_text(dictionary("None"), {"None"});
    refuse_text(dictionary("'3'"), {"the string '3'"});
    for (const char* extent :
         {"-3", "- 3", "True", "3.0", "3e0", "3e+0", "3j", "0x3", "0o3", "0b1", "1_000", "03", "None", "'3'", "(3,)"}) {
        refuse_text(dictionary("(" + std::string(extent) + ",)"), {"offset 61", extent});
    }
    refuse_text(dictionary("(,)"), {"','"});
    refuse_text(dictionary("(3 4)"), {"'4'"});
}

TEST_CASE("npy shape: sizes that pass 63 bits") {
    refuse_text(dictionary("(9223372036854775808,)"), {"2^63", "9223372036854775808"});
    refuse_text(dictionary("(" + std::string(1000, '9') + ",)"), {"2^63", "999..."});
    for (const char* shape : {"(2305843009213693952,)", "(4294967296, 4294967296)", "(4294967296, 4294967296, 0)",
                              "(0, 4294967296, 4294967296)", "(9223372036854775807, 0)"}) {
        refuse_text(dictionary(shape), {"offset 60", "2^63", shape});
    }
    CHECK(parse_text(dictionary("(2305843009213693951,)")).data_bytes == 9223372036854775804U);
}

TEST_CASE("npy header: parsing is linear in the header's length") {
    // Each would take minutes if any step were quadratic.
    std::string fields = "{'descr': [";
    for (int i = 0; fields.size() + 100 < tandem::npy::max_header_bytes; ++i) {
        fields += "('f" + std::to_string(i) + "', 'f4'),";
    }
    fields += "], 'fortran_order': False, 'shape': (3,)}";
    std::string strings = "{'descr': ";
    while (strings.size() + 100 < tandem::npy::max_header_bytes) {
        strings += "'' ";
    }
    strings += "'<f4', 'fortran_order': False, 'shape': (3,)}";
    const auto start = std::chrono::steady_clock::now();
    CHECK(parse_text(fields, '\2').fields.size() > 50000);
    CHECK(parse_text(strings, '\2').type.descr == "<f4");
    refuse(wrap(dictionary("(" + std::string(500000, '[') + ")"), '\2'), {"levels"});
    refuse(wrap(dictionary("(" + std::string(500000, '1') + ",)"), '\2'), {"2^63"});
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("npy header: of a file") {
    const ScratchFolder folder;
    const std::string head = wrap(dictionary("(3,)"));
    const Header header = tandem::npy::read_header(folder.write("a.npy", head + std::string(12, 'x')));
    CHECK(header.shape == Shape{3});
    CHECK(header.data_offset == head.size());
    // Bytes behind the data are accepted.
    CHECK(tandem::npy::read_header(folder.write("b.npy", head + std::string(20, 'x'))).data_bytes == 12);
    // Longer than one read.
    const std::string long_head = format_header(tandem::float32, {3}, false, 8192);
    CHECK(tandem::npy::read_header(folder.write("c.npy", long_head + std::string(12, 'x'))).data_offset == 8192);
    CHECK(tandem::npy::read_header(folder.write("d.npy", wrap(dictionary("(0, 7)")))).data_bytes == 0);
}

TEST_CASE("npy header: of a file that is too short") {
    const ScratchFolder folder;
    const auto path = folder.write("short.npy", wrap(dictionary("(3,)")) + std::string(11, 'x'));
    expect_error(ErrorCode::bad_file, {path.native() + ": offset 67: 12 bytes of data needed", "(3,)", "'<f4'", "11 found"},
                 [&] { return tandem::npy::read_header(path); });
    const std::string head = format_header(tandem::float32, {3}, false, 8192);
    const auto cut = folder.write("cut.npy", head.substr(0, 5000));
    expect_error(ErrorCode::bad_file, {"offset 10: header of 8182 bytes needed, 4990 found"},
                 [&] { return tandem::npy::read_header(cut); });
    const auto empty = folder.write("empty.npy", "");
    expect_error(ErrorCode::bad_file, {"an empty file found"}, [&] { return tandem::npy::read_header(empty); });
}

TEST_CASE("npy header: files that can't be read") {
    const ScratchFolder folder;
    CHECK(expect_error(ErrorCode::io, {"none.npy: open: No such file"},
                       [&] { return tandem::npy::read_header(folder / "none.npy"); }) == ENOENT);
    CHECK(expect_error(ErrorCode::io, {"is a directory"}, [&] { return tandem::npy::read_header(folder.path()); }) == EISDIR);
    CHECK(expect_error(ErrorCode::io, {"line\\nbreak", "No such file"},
                       [&] { return tandem::npy::read_header(folder / "line\nbreak.npy"); }) == ENOENT);
}

TEST_CASE("npy header: through a pipe, in pieces") {
    const ScratchFolder folder;
    const std::filesystem::path path = folder / "pipe.npy";
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    std::thread writer([&] {
        const int pipe = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
        const std::string head = wrap(dictionary("(3,)"));
        for (const char c : head) {
            static_cast<void>(!::write(pipe, &c, 1));
        }
        ::close(pipe);
    });
    const Header header = tandem::npy::read_header(path);
    writer.join();
    CHECK(header.shape == Shape{3});
}

TEST_CASE("npy header: a sparse terabyte is as quick as a kilobyte") {
    const ScratchFolder folder;
    const auto path = folder.write("large.npy", wrap(dictionary("(262144, 1048576)")));
    std::filesystem::resize_file(path, (std::uintmax_t{1} << 40U) + 4096);
    CHECK(tandem::npy::read_header(path).data_bytes == std::uint64_t{1} << 40U);
}

TEST_CASE("npy written: byte for byte what NumPy writes") {
    if (std::endian::native != std::endian::little) {
        return;
    }
    const std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
    CHECK(format_header(tandem::float32, {3}, false) == "\x93NUMPY\1\0v\0"s + text + std::string(60, ' ') + "\n");
    const std::string scalar = "{'descr': '|b1', 'fortran_order': False, 'shape': (), }";
    CHECK(format_header(tandem::boolean, {}, false) == "\x93NUMPY\1\0v\0"s + scalar + std::string(62, ' ') + "\n");
    CHECK(format_header(tandem::complex128, {2, 3}, true).find("{'descr': '<c16', 'fortran_order': True, 'shape': (2, 3), }") ==
          10);
    CHECK(format_header(tandem::bfloat16, {2}, false).find("'<V2'") != std::string::npos);
}

TEST_CASE("npy written: the data starts where it was asked to") {
    for (const std::size_t alignment : {std::size_t{64}, std::size_t{128}, std::size_t{4096}, std::size_t{65536},
                                        std::size_t{1} << 17U, std::size_t{1} << 20U}) {
        CAPTURE(alignment);
        for (const Shape& shape : {Shape{}, Shape{3}, Shape{1000000, 7}, Shape(64, 1)}) {
            const std::string head = format_header(tandem::float64, shape, false, alignment);
            CHECK(head.size() % alignment == 0);
            CHECK(head.back() == '\n');
            CHECK(head[6] == (head.size() - 10 > 0xffff ? '\2' : '\1'));
            const Header header = parse(head);
            CHECK(header.data_offset == head.size());
            CHECK(header.shape == shape);
            CHECK(header.type.dtype == tandem::float64);
        }
    }
}

TEST_CASE("npy written: every length of header is padded right") {
    // NumPy adds a whole unit of padding where none is missing; shapes of growing text pass that point.
    for (std::int64_t extent = 1; extent < 1000000000000000000; extent *= 10) {
        for (std::size_t dimensions = 1; dimensions < 12; ++dimensions) {
            Shape shape(dimensions, 1);
            shape.back() = extent;
            const std::string head = format_header(tandem::int8, shape, true);
            CHECK(head.size() % 64 == 0);
            CHECK(parse(head).shape == shape);
        }
    }
}

TEST_CASE("npy written: what can't be") {
    for (const std::size_t alignment : {std::size_t{0}, std::size_t{1}, std::size_t{16}, std::size_t{63}, std::size_t{96}}) {
        expect_error(ErrorCode::invalid_argument, {"alignment of " + std::to_string(alignment)},
                     [&] { return format_header(tandem::float32, {3}, false, alignment); });
    }
    expect_error(ErrorCode::invalid_argument, {"alignment", "1048576"},
                 [] { return format_header(tandem::float32, {3}, false, std::size_t{1} << 21U); });
    expect_error(ErrorCode::invalid_argument, {"negative"}, [] { return format_header(tandem::float32, {-3}, false); });
    expect_error(ErrorCode::out_of_range, {"2^63"},
                 [] { return format_header(tandem::float32, {std::numeric_limits<std::int64_t>::max()}, false); });
}
