#include "core/npy/descr.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <tandem/error.hpp>

#include "core/npy/type_code.hpp"
#include "core/printable.hpp"

namespace tandem::npy {
namespace {

using Kind = Literal::Kind;
using Node = Literal::Node;

// A description and the properties of it that decide how NumPy combines it with others.
struct Described {
    ItemDescription item;
    bool is_plain_void = false;  // a void type without fields, or a sub-array: padding where it has no name
    char unsized_kind = '\0';    // S, U or V where a width may follow
};

constexpr std::uint64_t max_item_bytes = std::numeric_limits<std::int64_t>::max();

std::int64_t parse_dimension(const Literal& literal, const Node& node, std::string_view what) {
    if (node.kind != Kind::integer) {
        literal.fail(node, fmt::format("whole decimal numbers needed for {}, {} found", what, literal.description(node)));
    }
    const std::optional<std::int64_t> value = literal.integer(node);
    if (!value || *value < 0) {
        literal.fail(node, fmt::format("{} needed for {}, {} found", value ? "numbers from 0 on" : "numbers of at most 2^63 - 1",
                                       what, literal.description(node)));
    }
    return *value;
}

class DescrReader {
public:
    explicit DescrReader(const Literal& literal) : literal_(literal) {}

    // The literal's bound on nesting bounds the recursion.
    Described read(const Node& node) {
        Described described;
        switch (node.kind) {
            case Kind::string:
                described = read_code(node);
                break;
            case Kind::list:
                described = read_structure(node);
                break;
            case Kind::tuple:
                described = read_pair(node);
                break;
            default:
                literal_.fail(node,
                              fmt::format("a type code, a list of fields or a (type, shape) tuple needed for 'descr', {} found",
                                          literal_.description(node)));
        }
        if (node.kind != Kind::string) {
            described.item.type.descr = literal_.source(node);
        }
        return described;
    }

private:
    Described read_code(const Node& node) {
        TypeCode code = parse_type_code(literal_.string(node));
        if (!code.problem.empty()) {
            literal_.fail(node, code.problem);
        }
        Described described;
        described.item.type = std::move(code.type);
        described.is_plain_void = code.kind == 'V';
        described.unsized_kind = code.sized ? '\0' : code.kind;
        return described;
    }

    Described read_pair(const Node& node) {
        if (node.child_count != 2) {
            literal_.fail(node, fmt::format("a tuple of a type and a shape needed, {} found", literal_.description(node)));
        }
        const Node& type = *literal_.first_child(node);
        return repeat(read(type), *literal_.next(type));
    }

    // NumPy's reading of (type, shape): a number makes an array of that many, but one of them is the type itself; it is the width
    // of a text or void type that has none.
    Described repeat(Described described, const Node& node) {
        ItemType& type = described.item.type;
        if (!type.subarray.empty() && type.item_bytes == 0) {
            // NumPy takes it for a void type without a width, which fits nothing that was written.
            literal_.fail(node, "a sub-array of items with a width needed, one of no bytes found");
        }
        Shape dimensions;
        if (node.kind == Kind::integer) {
            const std::int64_t count = parse_dimension(literal_, node, "a sub-array's shape");
            if (described.unsized_kind != '\0') {
                const std::int64_t unit_bytes = described.unsized_kind == 'U' ? 4 : 1;
                type.item_bytes = checked_element_count(literal_, node, {count, unit_bytes}, 1);
                described.unsized_kind = '\0';
                return described;
            }
            if (count == 1) {
                return described;
            }
            dimensions = {count};
        } else {
            dimensions = parse_dimensions(literal_, node, "a sub-array's shape");
            if (described.unsized_kind != '\0') {
                literal_.fail(node, fmt::format("a type with a width needed for a sub-array, {} found", in_quotes(type.descr)));
            }
            if (dimensions.empty()) {
                return described;
            }
        }
        // The outer dimensions come first.
        dimensions.insert(dimensions.end(), type.subarray.begin(), type.subarray.end());
        const std::uint64_t inner_bytes = type.item_bytes;
        const Shape outer(dimensions.begin(), dimensions.end() - static_cast<std::ptrdiff_t>(type.subarray.size()));
        check_dimension_count(node, dimensions.size());
        static_cast<void>(checked_element_count(literal_, node, dimensions, 1));  // items of no bytes have to be countable too
        type.item_bytes = checked_element_count(literal_, node, outer, inner_bytes) * inner_bytes;
        type.subarray = std::move(dimensions);
        described.is_plain_void = true;
        return described;
    }

    void check_dimension_count(const Node& node, std::size_t count) const {
        if (count > max_dimensions) {
            literal_.fail(node, fmt::format("at most {} dimensions needed, {} found", max_dimensions, count));
        }
    }

    Described read_structure(const Node& node) {
        Described described;
        std::vector<Field>& fields = described.item.fields;
        std::uint64_t offset = 0;
        for (const Node* entry = literal_.first_child(node); entry != nullptr; entry = literal_.next(*entry)) {
            read_field(*entry, offset, fields);
        }
        check_names(node, fields);
        described.item.type.item_bytes = offset;
        return described;
    }

    void read_field(const Node& entry, std::uint64_t& offset, std::vector<Field>& fields) {
        const bool is_sequence = entry.kind == Kind::tuple || entry.kind == Kind::list;
        if (!is_sequence || entry.child_count < 2 || entry.child_count > 3) {
            literal_.fail(entry, fmt::format("a field as (name, type) or (name, type, shape) needed, {} found",
                                             literal_.description(entry)));
        }
        Field field;
        const Node& name = *literal_.first_child(entry);
        read_name(name, field);
        const Node& type = *literal_.next(name);
        Described described = read(type);
        if (const Node* shape = literal_.next(type); shape != nullptr) {
            described = repeat(std::move(described), *shape);
        }
        field.type = std::move(described.item.type);
        field.fields = std::move(described.item.fields);
        field.offset_bytes = offset;
        if (__builtin_add_overflow(offset, field.type.item_bytes, &offset) || offset > max_item_bytes) {
            literal_.fail(entry, "an item of at most 2^63 - 1 bytes needed, a longer one found");
        }
        const bool is_padding = name.kind == Kind::string && field.name.empty() && described.is_plain_void;
        if (!is_padding) {
            fields.push_back(std::move(field));
        }
    }

    // 'name' or ('title', 'name').
    void read_name(const Node& node, Field& field) {
        const Node* name = &node;
        if (node.kind == Kind::tuple && node.child_count == 2) {
            const Node& title = *literal_.first_child(node);
            name = literal_.next(title);
            if (title.kind == Kind::string) {
                field.title = literal_.string(title);
            } else if (title.kind != Kind::none) {
                literal_.fail(title, fmt::format("a string needed for a field's title, {} found", literal_.description(title)));
            }
        }
        if (name->kind != Kind::string) {
            literal_.fail(node, fmt::format("a field's name, or (title, name), needed, {} found", literal_.description(node)));
        }
        field.name = literal_.string(*name);
    }

    // Names and titles share one name space.
    void check_names(const Node& node, const std::vector<Field>& fields) const {
        std::vector<std::string_view> names;
        names.reserve(fields.size());
        for (const Field& field : fields) {
            names.push_back(field.name);
            if (!field.title.empty()) {
                names.push_back(field.title);
            }
        }
        std::sort(names.begin(), names.end());
        const auto repeated = std::adjacent_find(names.begin(), names.end());
        if (repeated != names.end()) {
            literal_.fail(node, fmt::format("fields of different names needed, the name {} found twice", in_quotes(*repeated)));
        }
    }

    const Literal& literal_;
};

}  // namespace

ItemDescription parse_descr(const Literal& literal, const Literal::Node& node) {
    return std::move(DescrReader(literal).read(node).item);
}

Shape parse_dimensions(const Literal& literal, const Literal::Node& node, std::string_view what) {
    if (node.kind != Kind::tuple && node.kind != Kind::list) {
        literal.fail(node, fmt::format("a tuple needed for {}, {} found", what, literal.description(node)));
    }
    if (node.child_count > max_dimensions) {
        literal.fail(node, fmt::format("at most {} dimensions needed for {}, {} found", max_dimensions, what, node.child_count));
    }
    Shape shape;
    shape.reserve(node.child_count);
    for (const Literal::Node* child = literal.first_child(node); child != nullptr; child = literal.next(*child)) {
        shape.push_back(parse_dimension(literal, *child, what));
    }
    return shape;
}

std::uint64_t checked_element_count(const Literal& literal, const Literal::Node& node, const Shape& shape,
                                    std::size_t item_bytes) {
    try {
        return static_cast<std::uint64_t>(element_count(shape, item_bytes));
    } catch (const Error&) {
        literal.fail(node, fmt::format("a size of at most 2^63 - 1 bytes needed, shape {} of {}-byte items found",
                                       to_string(shape), item_bytes));
    }
}

}  // namespace tandem::npy
