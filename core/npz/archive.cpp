#include "core/npz/archive.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "core/host_block.hpp"
#include "core/mapping.hpp"
#include "core/npy/header.hpp"
#include "core/npz/directory.hpp"
#include "core/posix_file.hpp"
#include "core/printable.hpp"
#include "tandem/error.hpp"
#include "tandem/npz.hpp"

namespace tandem::npz {

struct Archive::State {
    MappedFile mapping;
    std::vector<Member> members;
    std::vector<Record> records;                                     // of the same order
    std::unordered_map<std::string_view, std::size_t> by_file_name;  // refers to `members`

    [[nodiscard]] const std::size_t* index_of(std::string_view name) const {
        auto found = by_file_name.find(name);
        if (found == by_file_name.end()) found = by_file_name.find(std::string(name) + ".npy");
        return found == by_file_name.end() ? nullptr : &found->second;
    }
};

namespace {

constexpr std::string_view extension = ".npy";

// Of records with one file name the last counts; it stands where it is.
std::vector<Record> without_replaced(std::vector<Record> records) {
    std::unordered_map<std::string, std::size_t> last;
    for (std::size_t i = 0; i < records.size(); ++i)
        last[records[i].file_name] = i;
    if (last.size() == records.size()) return records;
    std::vector<Record> kept;
    for (std::size_t i = 0; i < records.size(); ++i) {
        if (last[records[i].file_name] == i) kept.push_back(std::move(records[i]));
    }
    return kept;
}

// Between two of these a stop is noticed.
constexpr std::size_t inflated_bytes = std::size_t{16} << 20U;

std::string full_name(const MappedFile& archive, const Member& member) {
    return archive.path().native() + ":" + member.name;
}

npy::ReadHeader read_member_header(MemberStream& stream, const Member& member, const std::string& name) {
    return npy::read_header(member.size_bytes, name, [&](std::span<std::byte> next) { stream.read(next); });
}

// Anonymous memory for what a member's header asks for. The pages are taken as they are written, so asking too much would not
// fail here but end the process later.
Mapping memory_for(std::uint64_t size_bytes, const std::string& name) {
    const std::uint64_t available = available_host_bytes();
    Mapping memory;
    int error = 0;
    const bool fits = available == 0 || size_bytes <= available;
    if (fits) error = memory.resize((static_cast<std::size_t>(size_bytes) + page_bytes() - 1) / page_bytes() * page_bytes());
    if (!fits || error != 0) {
        throw Error(ErrorCode::out_of_memory,
                    fmt::format("{}: {} bytes needed to inflate it into, {}", printable(name), size_bytes,
                                fits ? std::strerror(error) : fmt::format("{} available", available)),
                    error);
    }
    return memory;
}

}  // namespace

std::string member_list(const std::vector<Member>& members) {
    static constexpr std::size_t enough = 300;  // characters; more would hide the message around it
    std::string list;
    for (const Member& member : members) {
        if (list.size() > enough) return list + ", ...";
        list += (list.empty() ? "" : ", ") + in_quotes(member.name);
    }
    return list;
}

Archive Archive::open(const std::filesystem::path& path, const MapOptions& mapping) {
    if (mapping.access == FileAccess::read_write) {
        throw Error(ErrorCode::unsupported, fmt::format("{}: an archive can't be opened to write to its members in place, whose "
                                                        "CRC-32 would be wrong",
                                                        printable_path(path)));
    }
    const auto state = std::make_shared<State>();
    state->mapping = MappedFile::open(path, mapping);
    state->records = without_replaced(read_directory(state->mapping));
    state->members.reserve(state->records.size());
    for (const Record& record : state->records) {
        Member member;
        member.file_name = record.file_name;
        member.name = record.file_name;
        if (member.name.ends_with(extension)) member.name.resize(member.name.size() - extension.size());
        member.compressed = record.method != 0;
        member.compressed_bytes = record.compressed_bytes;
        member.size_bytes = record.size_bytes;
        member.crc32 = record.crc32;
        member.unreadable = why_unreadable(record);
        state->members.push_back(std::move(member));
        state->by_file_name.emplace(state->members.back().file_name, state->members.size() - 1);
    }
    return Archive(state);
}

const std::vector<Member>& Archive::members() const noexcept {
    static const std::vector<Member> none;
    return state_ ? state_->members : none;
}

const MappedFile& Archive::mapping() const noexcept {
    static const MappedFile none;
    return state_ ? state_->mapping : none;
}

bool Archive::contains(std::string_view name) const noexcept {
    return state_ && state_->index_of(name) != nullptr;
}

const Member& Archive::find(std::string_view name) const {
    const std::size_t* index = state_ ? state_->index_of(name) : nullptr;
    if (index != nullptr) return state_->members[*index];
    throw Error(ErrorCode::out_of_range,
                fmt::format("{}: no member {}; {}", printable_path(mapping().path()), in_quotes(name),
                            members().empty() ? "it has none" : fmt::format("there are {}", member_list(members()))));
}

npy::File Archive::member(std::string_view name, bool strict, const std::stop_token& stop) const {
    const Member& member = find(name);
    const Record& record = state_->records[static_cast<std::size_t>(&member - members().data())];
    const std::string label = full_name(mapping(), member);
    MemberStream stream(mapping(), record, label);
    npy::ReadHeader read = read_member_header(stream, member, label);
    if (!member.compressed) return {mapping(), std::move(read.header), label, stream.data_offset(), member.size_bytes, strict};

    npy::check_data_present(read.header, label, member.size_bytes);
    const std::uint64_t needed = read.header.data_offset + read.header.data_bytes;
    Mapping memory = memory_for(needed, label);
    const std::size_t known = std::min<std::size_t>(read.start.size(), static_cast<std::size_t>(needed));
    std::copy_n(read.start.begin(), known, memory.data());
    for (std::size_t done = known; done < needed;) {
        if (stop.stop_requested())
            throw Error(ErrorCode::cancelled,
                        fmt::format("{}: cancelled after {} of {} bytes were inflated", printable(label), done, needed));
        const std::size_t part = std::min<std::size_t>(inflated_bytes, static_cast<std::size_t>(needed) - done);
        stream.read({memory.data() + done, part});
        done += part;
    }
    stream.finish();
    MappedFile inflated = MappedFile::from_memory(label, mapping().access(), std::move(memory), static_cast<std::size_t>(needed),
                                                  "the archive's member is compressed, and is inflated into memory");
    return {std::move(inflated), std::move(read.header), label, 0, member.size_bytes, strict};
}

npy::Header Archive::read_header(std::string_view name) const {
    const Member& member = find(name);
    const Record& record = state_->records[static_cast<std::size_t>(&member - members().data())];
    const std::string label = full_name(mapping(), member);
    MemberStream stream(mapping(), record, label);
    npy::Header header = read_member_header(stream, member, label).header;
    npy::check_data_present(header, label, member.size_bytes);
    return header;
}

Array load(const Device& device, const std::filesystem::path& path, std::string_view name, const LoadOptions& options) {
    return npy::load(device, Archive::open(path).member(name, false, options.transfer.stop), options);
}

Array map(const Device& device, const std::filesystem::path& path, std::string_view name, FileAccess access,
          const AdoptOptions& options, std::optional<DType> as) {
    return npy::map(device, Archive::open(path, {.access = access}).member(name), options, as);
}

}  // namespace tandem::npz
