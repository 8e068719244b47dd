#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <optional>

#include <fmt/format.h>

#include <tandem/error.hpp>
#include <tandem/npy_header.hpp>

#include "core/npy/descr.hpp"
#include "core/npy/header.hpp"
#include "core/npy/literal.hpp"
#include "core/npy/magic.hpp"
#include "core/posix_file.hpp"
#include "core/printable.hpp"

namespace tandem::npy {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view magic = "\x93NUMPY"sv;
constexpr std::size_t version_offset = 6;
constexpr std::size_t length_offset = 8;
constexpr std::size_t shortest_prologue_bytes = 10;

std::uint8_t byte_at(std::span<const std::byte> bytes, std::size_t position) {
    return std::to_integer<std::uint8_t>(bytes[position]);
}

std::string_view as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The prologue's length: 2 bytes of header length in version 1.0, 4 after.
std::size_t prologue_bytes_of(std::span<const std::byte> start) {
    return byte_at(start, version_offset) == 1 ? 10 : 12;
}

[[noreturn]] void fail(std::string_view file_name, std::uint64_t offset, std::string_view message) {
    HeaderText{.text = {}, .offset_bytes = offset, .file_name = file_name}.fail(0, message);
}

void check_magic(std::span<const std::byte> start, std::string_view file_name) {
    const std::string_view text = as_text(start);
    if (text.empty()) {
        fail(file_name, 0,
             fmt::format("{} bytes of magic, version and header length needed, an empty file found", shortest_prologue_bytes));
    }
    const std::size_t magic_found = std::min(text.size(), magic.size());
    if (text.substr(0, magic_found) != magic.substr(0, magic_found)) {
        const std::string_view kind = file_kind(start);
        fail(file_name, 0,
             fmt::format("the magic '\\x93NUMPY' of a .npy file needed, {}{} found", kind,
                         kind.empty() ? in_quotes(text.substr(0, magic_found)) : ""));
    }
    if (text.size() < shortest_prologue_bytes) {
        fail(file_name, text.size(),
             fmt::format("{} bytes of magic, version and header length needed, {} found", shortest_prologue_bytes, text.size()));
    }
}

void check_utf8(const HeaderText& header) {
    std::size_t position = 0;
    while (position < header.text.size()) {
        const std::size_t length = utf8_sequence_bytes(header.text, position);
        if (length == 0) {
            header.fail(position, fmt::format("UTF-8 needed in version 3.0, the byte {} found",
                                              in_quotes(header.text.substr(position, 1))));
        }
        position += length;
    }
}

// The values of the header's three keys.
struct Entries {
    const Literal::Node* descr = nullptr;
    const Literal::Node* fortran_order = nullptr;
    const Literal::Node* shape = nullptr;
};

Entries find_entries(const Literal& literal) {
    const Literal::Node& root = literal.root();
    if (root.kind != Literal::Kind::dictionary) {
        literal.fail(root, fmt::format("a dictionary needed, {} found", literal.description(root)));
    }
    Entries entries;
    for (const Literal::Node* key = literal.first_child(root); key != nullptr;) {
        const Literal::Node* value = literal.next(*key);
        const std::string name = key->kind == Literal::Kind::string ? literal.string(*key) : std::string();
        const Literal::Node** slot = name == "descr"           ? &entries.descr
                                     : name == "fortran_order" ? &entries.fortran_order
                                     : name == "shape"         ? &entries.shape
                                                               : nullptr;
        if (slot == nullptr) {
            const bool is_string = key->kind == Literal::Kind::string;
            literal.fail(*key, fmt::format("the keys 'descr', 'fortran_order' and 'shape' needed, the key {} found",
                                           is_string ? in_quotes(name) : literal.description(*key)));
        }
        if (*slot != nullptr) {
            literal.fail(*key, fmt::format("each key once needed, '{}' found again", name));
        }
        *slot = value;
        key = literal.next(*value);
    }
    const char* missing = entries.descr == nullptr           ? "descr"
                          : entries.fortran_order == nullptr ? "fortran_order"
                          : entries.shape == nullptr         ? "shape"
                                                             : nullptr;
    if (missing != nullptr) {
        literal.fail(root, fmt::format("the keys 'descr', 'fortran_order' and 'shape' needed, no '{}' found", missing));
    }
    return entries;
}

Shape parse_shape(const Literal& literal, const Literal::Node& node) {
    if (node.kind == Literal::Kind::integer) {
        literal.fail(
            node, fmt::format("a tuple needed for 'shape', {} found; one dimension is written (N,)", literal.description(node)));
    }
    if (node.kind == Literal::Kind::list) {
        literal.fail(node, fmt::format("a tuple needed for 'shape', {} found; one dimension is written (N,), more (N, M)",
                                       literal.description(node)));
    }
    return parse_dimensions(literal, node, "'shape'");
}

void fill_sizes(const Literal& literal, const Literal::Node& node, Header& header) {
    Shape whole = header.shape;
    whole.insert(whole.end(), header.type.subarray.begin(), header.type.subarray.end());
    if (whole.size() > max_dimensions) {
        literal.fail(node, fmt::format("at most {} dimensions needed, those of the sub-array included, {} found", max_dimensions,
                                       whole.size()));
    }
    static_cast<void>(checked_element_count(literal, node, whole, 1));  // items of no bytes have to be countable too
    header.data_bytes = checked_element_count(literal, node, header.shape, header.type.item_bytes) * header.type.item_bytes;
}

// One step of a path: the field of `fields` that starts it by name or title, and how many characters that takes. A name may have
// dots itself; the longest that fits is taken.
const Field* match_field(const std::vector<Field>& fields, std::string_view path, std::size_t& length) {
    const Field* best = nullptr;
    const auto consider = [&](const Field& field, std::string_view name) {
        const bool is_step = path.size() > name.size() && path[name.size()] == '.' && !field.fields.empty();
        if (path.starts_with(name) && (path.size() == name.size() || is_step) && (best == nullptr || name.size() > length)) {
            best = &field;
            length = name.size();
        }
    };
    for (const Field& field : fields) {
        consider(field, field.name);
        if (!field.title.empty()) {
            consider(field, field.title);
        }
    }
    return best;
}

std::string field_names(const std::vector<Field>& fields) {
    std::string names;
    for (const Field& field : fields) {
        if (names.size() > 400) {
            return names + ", ...";
        }
        names += (names.empty() ? "" : ", ") + in_quotes(field.name);
    }
    return names.empty() ? "none" : names;
}

}  // namespace

std::size_t header_bytes(std::span<const std::byte> start, std::string_view file_name) {
    check_magic(start, file_name);
    const int major = byte_at(start, version_offset);
    const int minor = byte_at(start, version_offset + 1);
    if (major < 1 || major > 3 || minor != 0) {
        fail(file_name, version_offset, fmt::format("version 1.0, 2.0 or 3.0 of the format needed, {}.{} found", major, minor));
    }
    const std::size_t prologue = prologue_bytes_of(start);
    if (start.size() < prologue) {
        fail(file_name, start.size(),
             fmt::format("{} bytes of magic, version and header length needed, {} found", prologue, start.size()));
    }
    std::size_t length = 0;
    for (std::size_t i = prologue; i-- > length_offset;) {
        length = (length << 8U) | byte_at(start, i);
    }
    if (length > max_header_bytes) {
        fail(file_name, length_offset,
             fmt::format("a header of at most {} bytes needed, one of {} found", max_header_bytes, length));
    }
    return prologue + length;
}

Header parse_header(std::span<const std::byte> start, std::string_view file_name) {
    const std::size_t total = header_bytes(start, file_name);
    const std::size_t prologue = prologue_bytes_of(start);
    if (start.size() < total) {
        fail(file_name, prologue, fmt::format("header of {} bytes needed, {} found", total - prologue, start.size() - prologue));
    }
    Header header;
    header.major = byte_at(start, version_offset);
    header.data_offset = total;
    const HeaderText text{.text = as_text(start.subspan(prologue, total - prologue)),
                          .offset_bytes = prologue,
                          .file_name = file_name,
                          .latin1 = header.major < 3,
                          .python2_longs = header.major < 3};
    if (!text.latin1) {
        check_utf8(text);
    }
    const Literal literal(text);
    const Entries entries = find_entries(literal);
    if (entries.fortran_order->kind != Literal::Kind::boolean) {
        literal.fail(*entries.fortran_order, fmt::format("True or False needed for 'fortran_order', {} found",
                                                         literal.description(*entries.fortran_order)));
    }
    header.fortran_order = entries.fortran_order->truth;
    header.shape = parse_shape(literal, *entries.shape);
    ItemDescription item = parse_descr(literal, *entries.descr);
    header.type = std::move(item.type);
    header.fields = std::move(item.fields);
    fill_sizes(literal, *entries.shape, header);
    return header;
}

void check_data_present(const Header& header, std::string_view file_name, std::uint64_t file_bytes) {
    const std::uint64_t found = file_bytes - std::min(file_bytes, header.data_offset);
    if (found >= header.data_bytes) return;
    fail(file_name, header.data_offset,
         fmt::format("{} bytes of data needed for shape {} of {}, {} found", header.data_bytes, to_string(header.shape),
                     in_quotes(header.type.descr), found));
}

Header read_header(const std::filesystem::path& path) {
    const FileDescriptor file = open_file(path, O_RDONLY);
    // Nearly every header lies in the first bytes, so that one read is enough.
    std::array<std::byte, 4096> first;
    std::span<const std::byte> start(first.data(), read_fully(file.number(), first, path));
    const std::string& name = path.native();
    const std::size_t total = header_bytes(start, name);
    std::vector<std::byte> longer;
    if (start.size() == first.size() && total > first.size()) {
        longer.resize(total);
        std::copy(first.begin(), first.end(), longer.begin());
        const std::size_t rest = read_fully(file.number(), std::span(longer).subspan(first.size()), path);
        start = std::span<const std::byte>(longer).first(first.size() + rest);
    }
    Header header = parse_header(start, name);
    struct stat status {};
    if (::fstat(file.number(), &status) != 0) {
        throw io_error(path, "fstat", errno);
    }
    // Pipes and the like have no size to compare with.
    const auto size = static_cast<std::uint64_t>(status.st_size);
    if (S_ISREG(status.st_mode) && size > 0) check_data_present(header, name, size);
    return header;
}

ReadHeader read_header(std::uint64_t file_bytes, std::string_view file_name,
                       const std::function<void(std::span<std::byte>)>& read_next) {
    std::vector<std::byte> start(static_cast<std::size_t>(std::min<std::uint64_t>(file_bytes, 256)));
    read_next(start);
    const std::size_t needed = header_bytes(start, file_name);
    if (const std::size_t first = start.size(); needed > first) {
        start.resize(static_cast<std::size_t>(std::min<std::uint64_t>(file_bytes, needed)));
        read_next(std::span(start).subspan(first));
    }
    Header header = parse_header(start, file_name);
    return {std::move(header), std::move(start)};
}

Field find_field(const Header& header, std::string_view path) {
    const std::vector<Field>* fields = &header.fields;
    std::string_view rest = path;
    std::size_t offset = 0;
    for (;;) {
        std::size_t length = 0;
        const Field* field = match_field(*fields, rest, length);
        if (field == nullptr) {
            throw Error(ErrorCode::out_of_range,
                        fmt::format("no field {} in an item of the fields {}", in_quotes(rest), field_names(*fields)));
        }
        offset += field->offset_bytes;
        if (length == rest.size()) {
            Field found = *field;
            found.offset_bytes = offset;
            return found;
        }
        if (!field->type.subarray.empty()) {
            throw Error(ErrorCode::unsupported,
                        fmt::format("field {} lies in {}, a sub-array {} of structures; only the whole of it "
                                    "has one offset",
                                    in_quotes(path), in_quotes(field->name), to_string(field->type.subarray)));
        }
        rest.remove_prefix(length + 1);
        fields = &field->fields;
    }
}

std::string format_header(DType dtype, const Shape& shape, bool fortran_order, std::size_t alignment) {
    if (alignment < 64 || !std::has_single_bit(alignment)) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format(".npy header: alignment of {} bytes: a power of two from 64 on is needed", alignment));
    }
    static_cast<void>(element_count(shape, size_bytes(dtype)));
    std::string text = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", numpy_code(dtype),
                                   fortran_order ? "True" : "False", to_string(shape));
    if (!shape.empty()) {
        // Room to let the outermost dimension grow in place, as NumPy leaves it: 21 digits.
        const std::int64_t growing = fortran_order ? shape.back() : shape.front();
        text.append(21 - fmt::formatted_size("{}", growing), ' ');
    }
    text += '\n';
    // NumPy pads by a whole unit where nothing is missing.
    const auto padded = [&](std::size_t prologue) { return text.size() + alignment - (prologue + text.size()) % alignment; };
    const bool is_long = padded(10) > 0xffff;
    const std::size_t length = padded(is_long ? 12 : 10);
    if (length > max_header_bytes) {
        throw Error(ErrorCode::invalid_argument, fmt::format(".npy header: alignment of {} bytes: headers have at most {} bytes",
                                                             alignment, max_header_bytes));
    }
    std::string header(magic);
    header += is_long ? '\2' : '\1';
    header += '\0';
    for (std::size_t i = 0; i < (is_long ? 4U : 2U); ++i) {
        header += static_cast<char>(static_cast<unsigned char>((length >> (8 * i)) & 0xffU));
    }
    header.append(text, 0, text.size() - 1);
    header.append(length - text.size(), ' ');
    header += '\n';
    return header;
}

}  // namespace tandem::npy
