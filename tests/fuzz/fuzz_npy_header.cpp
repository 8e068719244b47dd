// Fuzzes the reader of .npy headers: libFuzzer's entry, also driven by run_inputs.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include <tandem/error.hpp>
#include <tandem/npy_header.hpp>

namespace npy = tandem::npy;

namespace {

void require(bool holds, const char* what) {
    if (!holds) {
        std::fprintf(stderr, "broken: %s\n", what);
        std::abort();
    }
}

// What a refusal must be like: one short, printable line of the right code.
void check_error(const tandem::Error& error) {
    const std::string message = error.what();
    require(error.code() == tandem::ErrorCode::bad_file, "the code is bad_file");
    require(message.starts_with("fuzz.npy: offset "), "the message starts with file and offset");
    require(message.size() < 4096, "the message is short");
    require(std::none_of(message.begin(), message.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }),
            "the message is printable");
}

// Fields lie inside their item, and are found by their names.
void check_fields(const std::vector<npy::Field>& fields, std::size_t item_bytes, int depth) {
    require(depth < 64, "nesting is bounded");
    for (const npy::Field& field : fields) {
        require(field.offset_bytes <= item_bytes && field.type.item_bytes <= item_bytes - field.offset_bytes,
                "a field lies inside its item");
        const auto count = static_cast<std::size_t>(tandem::element_count(field.type.subarray));
        require(field.type.subarray.empty() || count == 0 || field.type.item_bytes % count == 0, "a sub-array's items are equal");
        check_fields(field.fields, count == 0 ? 0 : field.type.item_bytes / count, depth + 1);
    }
}

void check_header(const npy::Header& header, std::size_t length) {
    require(header.data_offset == length, "the data starts behind the header");
    require(header.shape.size() <= tandem::max_dimensions, "dimensions are bounded");
    const auto count = static_cast<std::uint64_t>(tandem::element_count(header.shape, header.type.item_bytes));
    require(header.data_bytes == count * header.type.item_bytes, "the data's size is the product");
    const auto inner = static_cast<std::size_t>(tandem::element_count(header.type.subarray));
    check_fields(header.fields, inner == 0 ? 0 : header.type.item_bytes / inner, 0);
    for (const npy::Field& field : header.fields) {
        try {
            require(npy::find_field(header, field.name).offset_bytes < header.type.item_bytes + 1,
                    "a field found lies in the item");
        } catch (const tandem::Error& error) {
            // A dotted name can lead into a sub-array of structures instead.
            require(error.code() == tandem::ErrorCode::unsupported, "a listed field is found");
        }
        if (&field - header.fields.data() > 16) {
            break;  // each search looks at all of them
        }
    }
}

// What the library writes for a header that it has read says the same.
void check_round_trip(const npy::Header& header) {
    if (!header.type.dtype || !header.type.subarray.empty()) {
        return;
    }
    for (const std::size_t alignment : {std::size_t{64}, std::size_t{4096}, std::size_t{1} << 17U}) {
        const std::string text = npy::format_header(*header.type.dtype, header.shape, header.fortran_order, alignment);
        const npy::Header again = npy::parse_header(std::as_bytes(std::span(text)), "fuzz.npy");
        require(again.type.dtype == header.type.dtype && !again.type.swapped, "the dtype is kept");
        require(again.shape == header.shape && again.fortran_order == header.fortran_order, "shape and order are kept");
        require(again.data_bytes == header.data_bytes && again.data_offset % alignment == 0, "size and alignment are right");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
    try {
        const std::size_t length = npy::header_bytes(bytes.first(std::min(size, npy::prologue_bytes)), "fuzz.npy");
        require(length <= npy::max_header_bytes + npy::prologue_bytes, "a header's length is bounded");
        const npy::Header header = npy::parse_header(bytes, "fuzz.npy");
        check_header(header, length);
        check_round_trip(header);
    } catch (const tandem::Error& error) {
        check_error(error);
    }
    return 0;
}
