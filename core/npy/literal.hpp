#pragma once
// The part of Python's literals that a .npy header may consist of, parsed into a flat tree.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::npy {

/// The text of a header, and what is needed to name a place in it.
struct HeaderText {
    std::string_view text;           ///< without the prologue
    std::uint64_t offset_bytes = 0;  ///< where `text` starts in the file
    std::string_view file_name;
    bool latin1 = false;         ///< encoded in latin-1, else in UTF-8
    bool python2_longs = false;  ///< `10L` is a number

    /// Throws bad_file: "FILE: offset N: MESSAGE", N being `position`'s place in the file.
    [[noreturn]] void fail(std::size_t position, std::string_view message) const;
};

/// A literal: strings, numbers, True, False, None, and tuples, lists and dictionaries of them. Nothing else that Python knows is
/// accepted: no names, calls, operators, comments, sets or bytes.
///
/// Time and memory are linear in the text. Nesting beyond `max_depth` is refused.
class Literal {
public:
    enum class Kind : std::uint8_t {
        string,
        integer,  ///< decimal, perhaps signed
        number,   ///< any other: a float, hexadecimal, with underscores
        boolean,
        none,
        tuple,
        list,
        dictionary,  ///< children alternate: key, value
    };

    /// Indices into the flat tree; links are indices too.
    using Index = std::uint32_t;
    static constexpr Index no_node = std::numeric_limits<Index>::max();

    struct Node {
        Kind kind = Kind::none;
        bool truth = false;    ///< of a boolean
        bool grouped = false;  ///< in parentheses that do not make a tuple of it
        std::uint32_t begin = 0;
        std::uint32_t end = 0;
        Index first_child = no_node;
        Index next = no_node;  ///< the parent's next child
        std::uint32_t child_count = 0;
    };

    static constexpr int max_depth = 32;

    /// Throws bad_file. `header`, and the text that it refers to, must outlive this.
    explicit Literal(const HeaderText& header);

    [[nodiscard]] const Node& root() const { return nodes_[root_]; }
    [[nodiscard]] const Node* first_child(const Node& node) const { return at(node.first_child); }
    [[nodiscard]] const Node* next(const Node& node) const { return at(node.next); }

    /// What a string says, escapes resolved, as UTF-8.
    [[nodiscard]] std::string string(const Node& node) const;
    /// The value of an `integer`; empty where it passes 64 bits.
    [[nodiscard]] std::optional<std::int64_t> integer(const Node& node) const;
    /// The text of `node` as the file has it, as UTF-8.
    [[nodiscard]] std::string source(const Node& node) const;
    /// What `node` is, for a message: "a list [3]", "the number 0x10".
    [[nodiscard]] std::string description(const Node& node) const;

    [[noreturn]] void fail(const Node& node, std::string_view message) const { header_->fail(node.begin, message); }

private:
    [[nodiscard]] const Node* at(Index index) const { return index == no_node ? nullptr : &nodes_[index]; }
    [[nodiscard]] std::string_view slice(const Node& node) const {
        return header_->text.substr(node.begin, node.end - node.begin);
    }

    const HeaderText* header_;
    std::vector<Node> nodes_;
    Index root_ = no_node;
};

}  // namespace tandem::npy
