#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <tandem/error.hpp>
#include <tandem/npy_header.hpp>

using nlohmann::json;
using tandem::Error;
using tandem::ErrorCode;
namespace fs = std::filesystem;
namespace npy = tandem::npy;

namespace {

const fs::path corpus = TANDEM_CORPUS_DIR;

std::vector<std::byte> read_bytes(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    REQUIRE_MESSAGE(file.is_open(), path.native());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

void check_type(const npy::ItemType& type, const json& expected) {
    CHECK((type.dtype ? json(tandem::to_string(*type.dtype)) : json()) == expected["dtype"]);
    CHECK(type.swapped == expected["swapped"].get<bool>());
    CHECK(type.item_bytes == expected["item_bytes"].get<std::size_t>());
    CHECK(type.unit == expected["unit"].get<std::string>());
    CHECK(type.subarray == expected["subarray"].get<tandem::Shape>());
}

void check_fields(const std::vector<npy::Field>& fields, const json& expected) {
    REQUIRE(fields.size() == expected.size());
    for (std::size_t i = 0; i < fields.size(); ++i) {
        CHECK(fields[i].name == expected[i]["name"].get<std::string>());
        CHECK(fields[i].title == expected[i]["title"].get<std::string>());
        CHECK(fields[i].offset_bytes == expected[i]["offset"].get<std::size_t>());
        check_type(fields[i].type, expected[i]);
        check_fields(fields[i].fields, expected[i]["fields"]);
    }
}

void check_header(const npy::Header& header, const json& expected) {
    CHECK(header.major == expected["version"][0].get<int>());
    CHECK(header.minor == expected["version"][1].get<int>());
    CHECK(header.type.descr == expected["descr"].get<std::string>());
    CHECK(header.shape == expected["shape"].get<tandem::Shape>());
    CHECK(header.fortran_order == expected["fortran_order"].get<bool>());
    CHECK(header.data_offset == expected["data_offset"].get<std::uint64_t>());
    CHECK(header.data_bytes == expected["nbytes"].get<std::uint64_t>());
    check_type(header.type, expected);
    check_fields(header.fields, expected["fields"]);
}

void check_good(const fs::path& path, const json& expected) {
    const npy::Header header = npy::read_header(path);
    check_header(header, expected);
    CHECK(fs::file_size(path) - header.data_offset - header.data_bytes == expected["trailing_bytes"].get<std::uint64_t>());

    // The same from memory, given no more than the header.
    std::vector<std::byte> bytes = read_bytes(path);
    const std::size_t length = npy::header_bytes(std::span(bytes).first(npy::prologue_bytes), "memory");
    CHECK(length == header.data_offset);
    bytes.resize(length);
    check_header(npy::parse_header(bytes, "memory"), expected);
    // What NumPy saved by its own choice of version is what the library writes, byte for byte.
    const bool is_native = header.type.dtype && header.type.descr == tandem::numpy_code(*header.type.dtype);
    if (expected.value("saved_by_numpy", false) && is_native) {
        const std::string written = npy::format_header(*header.type.dtype, header.shape, header.fortran_order);
        CHECK(written == std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    }
    // And from one byte less nothing.
    bytes.pop_back();
    CHECK_THROWS_AS(npy::parse_header(bytes, "memory"), Error);
}

void check_bad(const fs::path& path, const json& expected) {
    try {
        static_cast<void>(npy::read_header(path));
        FAIL_CHECK("no error");
    } catch (const Error& error) {
        const std::string message = error.what();
        CAPTURE(message);
        CHECK(error.code() == ErrorCode::bad_file);
        CHECK(message.starts_with(path.native() + ": offset "));
        CHECK(message.find(expected["contains"].get<std::string>()) != std::string::npos);
        CHECK(message.find("needed") != std::string::npos);
        CHECK(message.find("found") != std::string::npos);
        CHECK(message.size() < path.native().size() + 300);
        for (const char c : message) {
            CHECK(static_cast<unsigned char>(c) >= 0x20);
        }
    }
}

}  // namespace

TEST_CASE("corpus: every file is read as the manifest says") {
    const std::vector<std::byte> text = read_bytes(corpus / "manifest.json");
    const json manifest =
        json::parse(reinterpret_cast<const char*>(text.data()), reinterpret_cast<const char*>(text.data()) + text.size());
    std::size_t good = 0;
    std::size_t bad = 0;
    for (const json& entry : manifest["files"]) {
        const fs::path path = corpus / entry["name"].get<std::string>();
        CAPTURE(path.native());
        if (entry["expect"] == "ok") {
            check_good(path, entry);
            ++good;
        } else {
            check_bad(path, entry);
            ++bad;
        }
    }
    CHECK(good > 100);
    CHECK(bad > 100);
}
