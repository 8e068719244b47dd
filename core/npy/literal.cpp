#include "core/npy/literal.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include <tandem/error.hpp>

#include "core/npy/string.hpp"
#include "core/printable.hpp"

namespace tandem::npy {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_name_character(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

class Parser {
public:
    using Kind = Literal::Kind;
    using Node = Literal::Node;
    using Index = Literal::Index;

    Parser(const HeaderText& header, std::vector<Node>& nodes) : header_(header), text_(header.text), nodes_(nodes) {}

    Index parse() {
        skip();
        const Index root = parse_value(0);
        skip();
        if (position_ < text_.size()) {
            header_.fail(position_, fmt::format("nothing more needed after the dictionary, {} found", found()));
        }
        return root;
    }

private:
    void skip() { position_ = skip_space(header_, position_); }
    [[nodiscard]] char current() const { return position_ < text_.size() ? text_[position_] : '\0'; }

    // What stands at the current position, for a message.
    [[nodiscard]] std::string found() const {
        if (position_ >= text_.size()) {
            return "the header's end";
        }
        const char c = text_[position_];
        if (c == '\0') {
            return "a NUL byte";
        }
        if (c == '#') {
            return "a comment";
        }
        std::size_t end = position_;
        while (end < text_.size() && end - position_ <= 64 && is_name_character(text_[end])) {
            ++end;
        }
        const std::string word = in_quotes(text_.substr(position_, std::max<std::size_t>(1, end - position_)));
        const bool is_name = end > position_ && !is_digit(c);
        return fmt::format("{}{}", !is_name ? "" : end < text_.size() && text_[end] == '(' ? "a call of " : "the name ", word);
    }

    Index add(Kind kind, std::size_t begin) {
        Node node;
        node.kind = kind;
        node.begin = static_cast<std::uint32_t>(begin);
        node.end = static_cast<std::uint32_t>(position_);
        nodes_.push_back(node);
        return static_cast<Index>(nodes_.size() - 1);
    }

    void adopt(Index parent, Index& last, Index child) {
        (last == Literal::no_node ? nodes_[parent].first_child : nodes_[last].next) = child;
        last = child;
        ++nodes_[parent].child_count;
    }

    Index parse_value(int depth) {
        if (depth > Literal::max_depth) {
            header_.fail(position_, fmt::format("at most {} levels of nesting needed, more found", Literal::max_depth));
        }
        const char c = current();
        if (c == '(') {
            return parse_parentheses(depth);
        }
        if (c == '[') {
            const Index list = add(Kind::list, position_++);
            Index last = Literal::no_node;
            parse_items(list, last, ']', depth);
            return list;
        }
        if (c == '{') {
            return parse_dictionary(depth);
        }
        if (starts_string(header_, position_)) {
            return parse_string();
        }
        if (is_digit(c) || c == '+' || c == '-' || c == '.') {
            return parse_number();
        }
        return parse_constant();
    }

    // The rest of a tuple or list: items and commas up to `close`.
    void parse_items(Index parent, Index& last, char close, int depth) {
        for (;;) {
            skip();
            if (current() == close) {
                break;
            }
            adopt(parent, last, parse_value(depth + 1));
            skip();
            if (current() == ',') {
                ++position_;
            } else if (current() != close) {
                header_.fail(position_, fmt::format("',' or '{}' needed, {} found", close, found()));
            }
        }
        ++position_;
        nodes_[parent].end = static_cast<std::uint32_t>(position_);
    }

    Index parse_parentheses(int depth) {
        const std::size_t begin = position_++;
        skip();
        if (current() == ')') {
            ++position_;
            return add(Kind::tuple, begin);
        }
        const Index first = parse_value(depth + 1);
        skip();
        if (current() == ')') {
            ++position_;
            nodes_[first].grouped = true;
            return first;
        }
        if (current() != ',') {
            header_.fail(position_, fmt::format("',' or ')' needed, {} found", found()));
        }
        ++position_;
        const Index tuple = add(Kind::tuple, begin);
        Index last = Literal::no_node;
        adopt(tuple, last, first);
        parse_items(tuple, last, ')', depth);
        return tuple;
    }

    Index parse_dictionary(int depth) {
        const Index dictionary = add(Kind::dictionary, position_++);
        Index last = Literal::no_node;
        for (;;) {
            skip();
            if (current() == '}') {
                break;
            }
            adopt(dictionary, last, parse_value(depth + 1));
            skip();
            if (current() != ':') {
                header_.fail(position_, fmt::format("':' after a dictionary's key needed, {} found", found()));
            }
            ++position_;
            skip();
            adopt(dictionary, last, parse_value(depth + 1));
            skip();
            if (current() == ',') {
                ++position_;
            } else if (current() != '}') {
                header_.fail(position_, fmt::format("',' or '}}' needed, {} found", found()));
            }
        }
        ++position_;
        nodes_[dictionary].end = static_cast<std::uint32_t>(position_);
        return dictionary;
    }

    // Strings that follow one another are one string, as in Python.
    Index parse_string() {
        const std::size_t begin = position_;
        std::size_t end = begin;
        do {
            position_ = scan_string(header_, position_, nullptr);
            end = position_;
            skip();
        } while (starts_string(header_, position_));
        position_ = end;
        return add(Kind::string, begin);
    }

    Index parse_number() {
        const std::size_t begin = position_;
        if (current() == '+' || current() == '-') {
            ++position_;
            skip();
        }
        const std::size_t digits = position_;
        while (is_digit(current())) {
            ++position_;
        }
        const std::size_t digit_count = position_ - digits;
        const std::string_view run = text_.substr(digits, digit_count);
        // A leading zero is octal in Python 2 and an error in Python 3.
        bool decimal = digit_count > 0 && (run.front() != '0' || run.find_first_not_of('0') == std::string_view::npos);
        while (is_name_character(current()) || current() == '.') {
            if (current() == 'L' && decimal && position_ == digits + digit_count) {
                break;
            }
            decimal = false;
            const bool exponent = (current() | 0x20) == 'e';
            ++position_;
            if (exponent && (current() == '+' || current() == '-')) {
                ++position_;
            }
        }
        if (position_ == digits) {
            header_.fail(begin, fmt::format("a value needed, {} found", in_quotes(text_.substr(begin, position_ - begin + 1))));
        }
        const Index number = add(decimal ? Kind::integer : Kind::number, begin);
        if (decimal) {
            skip_long_suffix();
        }
        return number;
    }

    // Python 2 wrote `10L`; NumPy drops the letter from the versions of the format that Python 2 could write.
    void skip_long_suffix() {
        const std::size_t letter = skip_space(header_, position_);
        const bool is_suffix = letter < text_.size() && text_[letter] == 'L' &&
                               (letter + 1 == text_.size() || !is_name_character(text_[letter + 1]));
        if (!is_suffix) {
            return;
        }
        if (!header_.python2_longs) {
            header_.fail(letter, "a number without 'L' needed in version 3.0, a Python 2 long found");
        }
        position_ = letter + 1;
    }

    Index parse_constant() {
        const std::size_t begin = position_;
        while (is_name_character(current())) {
            ++position_;
        }
        const std::string_view word = text_.substr(begin, position_ - begin);
        if (word == "True" || word == "False") {
            const Index boolean = add(Kind::boolean, begin);
            nodes_[boolean].truth = word == "True";
            return boolean;
        }
        if (word == "None") {
            return add(Kind::none, begin);
        }
        position_ = begin;
        header_.fail(begin, fmt::format("a value needed, {} found", found()));
    }

    const HeaderText& header_;
    std::string_view text_;
    std::vector<Node>& nodes_;
    std::size_t position_ = 0;
};

}  // namespace

void HeaderText::fail(std::size_t position, std::string_view message) const {
    throw Error(ErrorCode::bad_file, fmt::format("{}: offset {}: {}", printable(file_name), offset_bytes + position, message));
}

Literal::Literal(const HeaderText& header) : header_(&header) {
    root_ = Parser(header, nodes_).parse();
}

std::string Literal::string(const Node& node) const {
    std::string value;
    std::size_t position = node.begin;
    while (position < node.end) {
        position = skip_space(*header_, scan_string(*header_, position, &value));
    }
    return value;
}

std::optional<std::int64_t> Literal::integer(const Node& node) const {
    const std::string_view text = slice(node);
    const std::size_t digits = text.find_first_of("0123456789");
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data() + digits, text.data() + text.size(), value);
    if (error != std::errc()) {
        return std::nullopt;
    }
    return text.front() == '-' ? -value : value;
}

std::string Literal::source(const Node& node) const {
    return to_utf8(*header_, slice(node));
}

std::string Literal::description(const Node& node) const {
    // Cut before it is converted, so that a message costs no more for a long literal.
    std::string text = printable(to_utf8(*header_, slice(node).substr(0, 64)), 48);
    const char* open = node.grouped ? "(" : "";
    const char* close = node.grouped ? ")" : "";
    switch (node.kind) {
        case Kind::string:
            return fmt::format("the string {}{}{}", open, text, close);
        case Kind::integer:
        case Kind::number:
            return fmt::format("the number {}{}{}", open, text, close);
        case Kind::boolean:
        case Kind::none:
            return text;
        case Kind::tuple:
            return fmt::format("the tuple {}", text);
        case Kind::list:
            return fmt::format("the list {}", text);
        case Kind::dictionary:
            return fmt::format("the dictionary {}", text);
    }
    return text;
}

}  // namespace tandem::npy
