#include "tools/archives.hpp"

#include <cstring>

#include <fmt/format.h>

#include "core/npz/archive.hpp"
#include "core/printable.hpp"

namespace tandem::command {

bool is_archive(const Input& input) {
    const std::vector<std::byte> start = input.stream ? input.stream->start(4) : first_bytes(input);
    const auto starts_with = [&](std::string_view magic) {
        return start.size() >= magic.size() && std::memcmp(start.data(), magic.data(), magic.size()) == 0;
    };
    if (starts_with("PK\3\4") || starts_with("PK\5\6")) return true;
    return input.path.extension() == ".npz" && !starts_with("\x93NUM");
}

void open_archive(Input& input) {
    if (input.stream) input.stream->keep_all();
    input.archive = std::make_shared<const npz::Archive>(npz::Archive::open(input.source()));
    if (input.field.empty()) return;
    input.member = input.field;
    input.field.clear();
    if (input.archive->contains(*input.member)) return;
    const std::string& text = *input.member;
    for (std::size_t colon = text.rfind(':'); colon != std::string::npos && colon > 0; colon = text.rfind(':', colon - 1)) {
        if (!input.archive->contains(text.substr(0, colon))) continue;
        input.field = text.substr(colon + 1);
        input.member = text.substr(0, colon);
        return;
    }
    static_cast<void>(input.archive->find(text));  // which says what there is instead
}

void refuse_whole_archive(const Input& input) {
    const std::vector<npz::Member>& members = input.archive->members();
    throw Error(ErrorCode::invalid_argument, members.empty()
                                                 ? fmt::format("{}: an archive without members", input.name)
                                                 : fmt::format("{}: an archive, with the members {}; name one as {}:MEMBER",
                                                               input.name, npz::member_list(members), short_name(input)));
}

}  // namespace tandem::command
