// Reading archives that Python made, whole ones and damaged ones.

#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include <tandem/tandem.hpp>

#include "tests/unit/expect_error.hpp"
#include "tests/unit/scratch_folder.hpp"

using nlohmann::json;
using tandem::Error;
using tandem::ErrorCode;
using tandem::test::expect_error;
namespace fs = std::filesystem;
namespace npy = tandem::npy;
namespace npz = tandem::npz;

namespace {

const fs::path corpus = TANDEM_NPZ_DIR;

const json& manifest() {
    static const json read = json::parse(std::ifstream(corpus / "manifest.json"));
    return read;
}

fs::path archive(const std::string& name) {
    return corpus / (name + ".npz");
}

std::string hex(std::span<const std::byte> bytes) {
    static constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (const std::byte byte : bytes) {
        text += digits[std::to_integer<std::size_t>(byte >> 4)];
        text += digits[std::to_integer<std::size_t>(byte & std::byte{15})];
    }
    return text;
}

ErrorCode code_named(const std::string& name) {
    return name == "unsupported" ? ErrorCode::unsupported : ErrorCode::bad_file;
}

// Checks that `call` throws what `expected` says of it.
template <class Call>
void check_refused(const json& expected, Call call) {
    try {
        call();
        FAIL_CHECK("no error");
    } catch (const Error& error) {
        const std::string message = error.what();
        CAPTURE(message);
        CHECK(to_string(error.code()) == to_string(code_named(expected["code"])));
        CHECK(message.starts_with(corpus.native()));
        CHECK(message.find('\n') == std::string::npos);
        for (const std::string part : expected["parts"]) {
            CAPTURE(part);
            CHECK(message.find(part) != std::string::npos);
        }
    }
}

template <class T>
std::vector<T> values_of(const tandem::Array& array) {
    tandem::Queue queue(array.device());
    return tandem::to_vector<T>(queue, array);
}

}  // namespace

TEST_CASE("npz: members are what Python says they are") {
    REQUIRE(manifest()["good"].size() >= 19);
    for (const auto& item : manifest()["good"].items()) {
        const std::string& name = item.key();
        const json& members = item.value();
        CAPTURE(name);
        const npz::Archive opened = npz::Archive::open(archive(name));
        REQUIRE(opened.members().size() == members.size());
        for (std::size_t i = 0; i < members.size(); ++i) {
            const json& expected = members[i];
            const npz::Member& member = opened.members()[i];
            CAPTURE(member.file_name);
            CHECK(member.name == expected["name"].get<std::string>());
            CHECK(member.file_name == expected["file_name"].get<std::string>());
            CHECK(member.compressed == expected["compressed"].get<bool>());
            CHECK(member.compressed_bytes == expected["compressed_bytes"].get<std::uint64_t>());
            CHECK(member.size_bytes == expected["size_bytes"].get<std::uint64_t>());
            CHECK(member.crc32 == expected["crc32"].get<std::uint32_t>());
            CHECK(member.unreadable.empty());

            const npy::File file = opened.member(member.file_name);
            CHECK(file.header().shape == expected["shape"].get<tandem::Shape>());
            CHECK(file.header().fortran_order == expected["fortran_order"].get<bool>());
            CHECK(hex(file.bytes()) == expected["data"].get<std::string>());
            CHECK(file.trailing_bytes() == expected["trailing_bytes"].get<std::uint64_t>());
            CHECK(file.size_bytes() == member.size_bytes);
            CHECK(file.name() == archive(name).native() + ":" + member.name);
            CHECK(file.mapping().in_memory() == member.compressed);
            const npy::Header header = opened.read_header(member.file_name);
            CHECK(header.shape == file.header().shape);
            CHECK(header.data_offset == file.header().data_offset);
            if (!member.compressed) {
                // In place, in the one mapping.
                CHECK(file.mapping().bytes().data() == opened.mapping().bytes().data());
                CHECK(file.bytes().data() == opened.mapping().bytes().data() + file.data_offset_bytes());
            }
        }
    }
}

TEST_CASE("npz: archives that are none, or contradict themselves") {
    REQUIRE(manifest()["bad"].size() >= 16);
    const std::size_t descriptors = tandem::test::open_descriptors();
    for (const auto& item : manifest()["bad"].items()) {
        const std::string& name = item.key();
        const json& expected = item.value();
        CAPTURE(name);
        check_refused(expected, [&] { return npz::Archive::open(archive(name)); });
    }
    CHECK(tandem::test::open_descriptors() == descriptors);
}

TEST_CASE("npz: members that can't be read say why, and nothing against the others") {
    REQUIRE(manifest()["bad_members"].size() >= 25);
    const std::size_t descriptors = tandem::test::open_descriptors();
    for (const auto& item : manifest()["bad_members"].items()) {
        const std::string& name = item.key();
        const json& expected = item.value();
        CAPTURE(name);
        const npz::Archive opened = npz::Archive::open(archive(name));
        check_refused(expected, [&] { return opened.member("a"); });
        CHECK(opened.find("a").unreadable.empty() == (expected["code"] != "unsupported"));
        if (opened.contains("b")) CHECK(opened.member("b").header().shape == tandem::Shape{10});
    }
    CHECK(tandem::test::open_descriptors() == descriptors);
}

TEST_CASE("npz: a name is a file name first, and then one without .npy") {
    const npz::Archive names = npz::Archive::open(archive("names"));
    CHECK(names.find("a").file_name == "a.npy");
    CHECK(names.find("a.npy").file_name == "a.npy");
    CHECK(names.find("a.npy.npy").file_name == "a.npy.npy");
    CHECK(names.find("").file_name == ".npy");
    CHECK(names.find("no extension").file_name == "no extension");
    CHECK(names.find("dir/sub/a").file_name == "dir/sub/a.npy");
    CHECK(names.contains("a:b"));
    CHECK_FALSE(names.contains("A"));
    expect_error(ErrorCode::out_of_range, {"names.npz: no member 'c'; there are 'dir/sub/a'", "new\\nline", "..."},
                 [&] { return names.member("c"); });
    expect_error(ErrorCode::out_of_range, {"empty.npz: no member 'c'; it has none"},
                 [&] { return npz::Archive::open(archive("empty")).find("c"); });
    expect_error(ErrorCode::out_of_range, {"no member 'c'"}, [] { return npz::Archive().find("c"); });
    CHECK(npz::Archive().members().empty());
    CHECK(npz::Archive().mapping().bytes().empty());
    // Thousands of names would hide the message.
    try {
        static_cast<void>(npz::Archive::open(archive("many")).find("c"));
        FAIL_CHECK("no error");
    } catch (const Error& error) {
        CHECK(std::string_view(error.what()).size() < 600 + corpus.native().size());
    }
}

TEST_CASE("npz: what is asked of the file, and what is not given") {
    expect_error(ErrorCode::io, {"none.npz: ", "No such file"}, [] { return npz::Archive::open(archive("none")); });
    expect_error(ErrorCode::unsupported, {"savez.npz: ", "CRC-32"},
                 [] { return npz::Archive::open(archive("savez"), {.access = tandem::FileAccess::read_write}); });
    for (const char* name : {"trailing", "trailing_deflated"}) {
        const npz::Archive opened = npz::Archive::open(archive(name));
        expect_error(ErrorCode::bad_file, {":a: offset 224: end of file needed after the data"},
                     [&] { return opened.member("a", true); });
        CHECK(opened.member("a").trailing_bytes() > 0);
    }
}

TEST_CASE("npz: load, map and fields work on members as on files") {
    const tandem::Device device = tandem::open_device("host");
    const auto values = [](const tandem::Array& array) { return values_of<float>(array); };
    std::vector<float> expected(24);
    for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] = static_cast<float>(i);

    const tandem::Array stored = npz::map(device, archive("savez"), "c");
    CHECK(values(stored) == expected);
    CHECK(stored.zero_copy() == tandem::ZeroCopy::yes);
    CHECK(stored.residency().ends_with("savez.npz:c"));
    const tandem::Array inflated = npz::map(device, archive("savez_compressed"), "c");
    CHECK(values(inflated) == expected);
    CHECK(inflated.zero_copy() == tandem::ZeroCopy::no);
    CHECK(inflated.residency().find("compressed, and is inflated into memory") != std::string::npos);
    expect_error(ErrorCode::unsupported, {"savez_compressed.npz:c", "compressed"}, [&] {
        return npz::map(device, archive("savez_compressed"), "c", tandem::FileAccess::read, {.require_zero_copy = true});
    });
    for (const char* name : {"savez", "savez_compressed"}) {
        CAPTURE(name);
        CHECK(values(npz::load(device, archive(name), "c")) == expected);
        const tandem::Array cubes = npz::load(device, archive(name), "big_endian", {.kind = tandem::MemoryKind::pinned});
        CHECK(values_of<std::int64_t>(cubes)[9] == 729);
        CHECK(npz::load(device, archive(name), "none").shape() == tandem::Shape{0, 3});
        const npy::Records records = npy::load_fields(device, npz::Archive::open(archive(name)).member("structured"));
        CHECK(records.field("x").shape() == tandem::Shape{3});
        expect_error(ErrorCode::invalid_argument, {":structured", "its items are structured"},
                     [&] { return npz::load(device, archive(name), "structured"); });

        // A private copy may be written to; the archive stays.
        const tandem::Array own = npz::map(device, archive(name), "c", tandem::FileAccess::copy_on_write);
        tandem::Queue queue(device);
        tandem::twice(queue, own);
        queue.synchronize();
        CHECK(values_of<float>(own)[23] == 46);
        CHECK(values(npz::load(device, archive(name), "c")) == expected);
    }
}

TEST_CASE("npz: an archive outlives its handle in what lies in it, and threads share one") {
    tandem::Array array;
    {
        const npz::Archive opened = npz::Archive::open(archive("savez"));
        array = npy::map(tandem::open_device("host"), opened.member("c"));
    }
    CHECK(values_of<float>(array)[23] == 23);
    array = {};
    CHECK(tandem::test::mappings_of(archive("savez")) == 0);

    const npz::Archive opened = npz::Archive::open(archive("savez_compressed"));
    const std::string expected = hex(opened.member("complex").bytes());
    std::vector<std::string> found(4);
    std::vector<std::thread> threads;
    threads.reserve(found.size());
    for (std::string& mine : found)
        threads.emplace_back([&opened, &mine] { mine = hex(opened.member("complex").bytes()); });
    for (std::thread& thread : threads)
        thread.join();
    for (const std::string& theirs : found)
        CHECK(theirs == expected);
}

TEST_CASE("npz: an archive that becomes shorter while it is open") {
    const tandem::test::ScratchFolder folder;
    fs::copy_file(archive("savez"), folder / "a.npz");
    const npz::Archive opened = npz::Archive::open(folder / "a.npz");
    fs::resize_file(folder / "a.npz", 40);
    expect_error(ErrorCode::bad_file, {"a.npz: offset", "bytes needed"}, [&] { return opened.member("complex"); });
}
