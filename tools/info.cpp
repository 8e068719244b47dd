// tandem info FILE [--json]

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <tandem/tandem.hpp>

#include "core/adoption.hpp"
#include "core/host_block.hpp"
#include "core/npy/header.hpp"
#include "core/printable.hpp"
#include "tools/commands.hpp"
#include "tools/inputs.hpp"
#include "tools/loading.hpp"
#include "tools/outputs.hpp"
#include "tools/text.hpp"
#include "tools/unfinished.hpp"

namespace tandem::command {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
    std::string file;
    RawOptions raw;
    bool json = false;
};

// What there is to tell of a file; what its format does not say is empty.
struct Facts {
    std::string_view format;
    std::optional<std::array<int, 2>> version;
    std::optional<std::string> descr;
    std::optional<DType> dtype;
    std::optional<Shape> shape;
    std::optional<bool> fortran_order;
    std::uint64_t data_offset = 0;
    std::uint64_t data_bytes = 0;
    std::optional<std::uint64_t> trailing_bytes = 0;
    std::optional<std::uint64_t> cached_bytes = 0;
    npy::ItemType type;
    std::vector<npy::Field> fields;
    MappedFile file;  // where devices could reach the data in it: no stream, no whole archive, no compressed member
    std::optional<npz::Member> member;  // of an archive
    std::string problem;                // why it can't be read; of an archive's member
    std::string unfinished;             // what an interrupted run in place has left to do
    std::vector<Facts> members;         // of a whole archive
};

// How a device would reach the data of a file in place, or why it would not.
struct Reach {
    std::string device;
    ZeroCopy zero_copy = ZeroCopy::no;
    std::string residency;
};

// How far a stream is read on to count what follows its data.
constexpr std::uint64_t most_trailing_bytes = std::uint64_t{16} << 20U;

// What follows the data of a stream whose size was looked for up to `most_trailing_bytes` behind `end`.
std::optional<std::uint64_t> stream_trailing(std::uint64_t found, std::uint64_t end) {
    return found - end > most_trailing_bytes ? std::nullopt : std::optional(found - end);
}

Facts facts_of_raw(const Input& input, const RawOptions& options) {
    Facts facts;
    facts.format = "raw";
    facts.dtype = options.dtype;
    facts.descr = numpy_code(*options.dtype);
    facts.fortran_order = false;
    facts.data_offset = options.offset_bytes.value_or(0);
    if (input.stream) {
        const RawExtent extent = measure_raw_stream(input, options, most_trailing_bytes + 1);
        facts.data_bytes = extent.data_bytes;
        facts.cached_bytes = extent.data_bytes;
        facts.trailing_bytes = stream_trailing(extent.found_bytes, facts.data_offset + facts.data_bytes);
    } else {
        const Region region = find_region(input, options, false);
        facts.file = region.file;
        facts.data_bytes = region.size_bytes;
        facts.trailing_bytes = region.trailing_bytes();
        facts.cached_bytes = region.file.cached_bytes(region.offset_bytes, region.size_bytes);
    }
    facts.shape = options.shape.value_or(Shape{static_cast<std::int64_t>(facts.data_bytes / size_bytes(*options.dtype))});
    return facts;
}

// What a header says.
void note_header(const npy::Header& header, Facts& facts) {
    facts.format = "npy";
    facts.version = {header.major, header.minor};
    facts.descr = header.type.descr;
    facts.dtype = header.type.dtype;
    facts.shape = header.shape;
    facts.fortran_order = header.fortran_order;
    facts.data_offset = header.data_offset;
    facts.data_bytes = header.data_bytes;
    facts.type = header.type;
    facts.fields = header.fields;
}

Facts facts_of_npy(const Input& input, std::optional<DType> stated) {
    Facts facts;
    npy::Header header;
    if (input.stream) {
        header = read_stream_header(input);
        const std::uint64_t end = header.data_offset + header.data_bytes;
        const std::uint64_t found = input.stream->skip(end + most_trailing_bytes + 1);
        npy::check_data_present(header, input.path.string(), found);
        facts.trailing_bytes = stream_trailing(found, end);
        facts.cached_bytes = header.data_bytes;
    } else {
        const npy::File file = open_npy(input, false);
        header = file.header();
        facts.file = file.mapping();
        facts.trailing_bytes = file.trailing_bytes();
        facts.cached_bytes = file.mapping().cached_bytes(header.data_offset, header.data_bytes);
    }
    note_header(header, facts);
    if (!facts.dtype && header.fields.empty() && stated && size_bytes(*stated) == header.type.item_bytes) facts.dtype = stated;
    return facts;
}

// What is stored lies at its offset in the archive, from where others can map it. What is compressed is nowhere: it is not
// inflated here, and the data's offset is what it would be in the member.
Facts facts_of_member(const npz::Archive& archive, const npz::Member& member, std::optional<DType> stated) {
    Facts facts;
    facts.member = member;
    npy::Header header;
    if (member.compressed) {
        header = archive.read_header(member.file_name);
        facts.cached_bytes.reset();
        note_header(header, facts);
    } else {
        const npy::File file = archive.member(member.file_name);
        header = file.header();
        note_header(header, facts);
        facts.file = file.mapping();
        facts.data_offset = file.data_offset_bytes();
        facts.cached_bytes = file.mapping().cached_bytes(facts.data_offset, header.data_bytes);
    }
    facts.trailing_bytes = member.size_bytes - header.data_offset - header.data_bytes;
    if (!facts.dtype && header.fields.empty() && stated && size_bytes(*stated) == header.type.item_bytes) facts.dtype = stated;
    return facts;
}

Facts facts_of_npz(const Input& input) {
    const MappedFile& file = input.archive->mapping();
    Facts facts;
    facts.format = "npz";
    facts.data_bytes = file.size_bytes();
    facts.cached_bytes = file.cached_bytes(0, file.size_bytes());
    for (const npz::Member& member : input.archive->members()) {
        try {
            facts.members.push_back(facts_of_member(*input.archive, member, {}));
        } catch (const Error& error) {
            // One that can't be read says nothing against the others.
            if (error.code() != ErrorCode::bad_file && error.code() != ErrorCode::unsupported) throw;
            Facts unreadable;
            unreadable.member = member;
            unreadable.problem = with_stream_named(error.what(), input);
            facts.members.push_back(std::move(unreadable));
        }
    }
    return facts;
}

// Why no device could use the data as the file has it; empty where that depends on the device.
std::string why_copied(const Facts& facts) {
    if (facts.member && facts.member->compressed) return "the archive's member is compressed, and is inflated into memory";
    if (facts.file.in_memory()) return facts.file.why_in_memory();
    return improper_reason(facts.dtype.value_or(uint8), facts.type.swapped);
}

// Found out by adopting the data's first page, or less: the same cost at any size.
std::vector<Reach> find_reaches(const Facts& facts) {
    std::vector<Reach> reaches;
    const bool is_compressed = facts.member && facts.member->compressed;
    if ((facts.file.path().empty() || !facts.file.is_mapped()) && !is_compressed) return reaches;
    std::span<const std::byte> start;
    if (!is_compressed)
        start = facts.file.bytes().subspan(facts.data_offset, std::min<std::uint64_t>(facts.data_bytes, page_bytes()));
    const std::string always_copied = facts.data_bytes == 0 ? std::string() : why_copied(facts);
    for (const BackendInfo& backend : list_backends()) {
        for (const DeviceInfo& info : backend.devices) {
            Reach reach{info.spec, ZeroCopy::no, {}};
            try {
                const Device device = open_device(info.spec);
                if (always_copied.empty()) {
                    const Buffer adopted = adopt_bytes(device, start);
                    reach.zero_copy = adopted.zero_copy();
                    reach.residency = adopted.residency();
                } else {
                    reach.residency = "copied: " + always_copied;
                }
            } catch (const Error& error) {
                reach.residency = error.what();
            }
            reaches.push_back(std::move(reach));
        }
    }
    return reaches;
}

template <class Value>
Json or_null(const std::optional<Value>& value) {
    return value ? Json(*value) : Json();
}

Json dtype_json(std::optional<DType> dtype) {
    return dtype ? Json(to_string(*dtype)) : Json();
}

Json fields_json(const std::vector<npy::Field>& fields) {
    Json list = Json::array();
    for (const npy::Field& field : fields) {
        Json entry{{"name", field.name},
                   {"title", field.title.empty() ? Json() : Json(field.title)},
                   {"descr", field.type.descr},
                   {"dtype", dtype_json(field.type.dtype)},
                   {"shape", field.type.subarray},
                   {"offset", field.offset_bytes},
                   {"nbytes", field.type.item_bytes}};
        if (!field.fields.empty()) entry["fields"] = fields_json(field.fields);
        list.push_back(std::move(entry));
    }
    return list;
}

Json to_json(const Facts& facts) {
    Json object{{"format", facts.format.empty() ? Json() : Json(facts.format)},
                {"version", or_null(facts.version)},
                {"descr", or_null(facts.descr)},
                {"dtype", dtype_json(facts.dtype)},
                {"shape", or_null(facts.shape)},
                {"fortran_order", or_null(facts.fortran_order)},
                {"data_offset", facts.data_offset},
                {"nbytes", facts.data_bytes},
                {"trailing_bytes", or_null(facts.trailing_bytes)},
                {"cached_bytes", or_null(facts.cached_bytes)}};
    if (facts.member) {
        object["name"] = facts.member->name;
        object["file_name"] = facts.member->file_name;
        object["compressed"] = facts.member->compressed;
        object["compressed_bytes"] = facts.member->compressed_bytes;
        object["size_bytes"] = facts.member->size_bytes;
        object["error"] = facts.problem.empty() ? Json() : Json(facts.problem);
    }
    if (facts.format == "npz") {
        object["members"] = Json::array();
        for (const Facts& member : facts.members)
            object["members"].push_back(to_json(member));
    }
    if (!facts.type.subarray.empty()) object["item_shape"] = facts.type.subarray;
    if (!facts.fields.empty()) object["fields"] = fields_json(facts.fields);
    return object;
}

std::string json_text(const Facts& facts, const std::vector<Reach>& reaches) {
    Json object = to_json(facts);
    if (!facts.unfinished.empty()) object["unfinished"] = facts.unfinished;
    for (const Reach& reach : reaches) {
        object["devices"].push_back(
            {{"spec", reach.device}, {"zero_copy", to_string(reach.zero_copy)}, {"residency", reach.residency}});
    }
    return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string type_text(const std::string& descr, std::optional<DType> dtype, const npy::ItemType& type) {
    std::string text = dtype ? fmt::format("{} ({})", to_string(*dtype), printable(descr)) : printable(descr);
    if (type.swapped) text += ", byte order not this machine's";
    if (!type.unit.empty()) text += fmt::format(", in units of {}", printable(type.unit));
    if (!type.subarray.empty()) text += fmt::format(", {} in each item", to_string(type.subarray));
    return text;
}

struct FieldRow {
    std::string name;
    std::string type;
    std::size_t offset_bytes;
};

void collect_rows(const std::vector<npy::Field>& fields, const std::string& prefix, std::size_t base,
                  std::vector<FieldRow>& rows) {
    for (const npy::Field& field : fields) {
        const std::string name = prefix + printable(field.name);
        const bool descend = !field.fields.empty() && field.type.subarray.empty();
        if (descend) {
            collect_rows(field.fields, name + ".", base + field.offset_bytes, rows);
        } else {
            rows.push_back({name, type_text(field.type.descr, field.type.dtype, field.type), base + field.offset_bytes});
        }
    }
}

std::string stored_text(const npz::Member& member) {
    return member.compressed ? fmt::format("compressed, {} of {}", grouped(member.compressed_bytes), size_text(member.size_bytes))
                             : fmt::format("stored, {}", size_text(member.size_bytes));
}

// A line for each member: name, what it holds, and how. What a name is may be anything.
std::vector<std::string> member_lines(const std::vector<Facts>& members) {
    std::vector<std::array<std::string, 3>> rows;
    std::array<std::size_t, 2> widths{};
    for (const Facts& member : members) {
        const std::string type = member.fields.empty() && member.descr ? type_text(*member.descr, member.dtype, member.type)
                                                                       : std::string("structured");
        rows.push_back({printable(member.member->name),
                        member.shape ? fmt::format("{} {}", to_string(*member.shape), type) : std::string("can't be read"),
                        member.shape ? stored_text(*member.member) : one_line(member.problem)});
        for (std::size_t column = 0; column < widths.size(); ++column)
            widths[column] = std::max(widths[column], std::min<std::size_t>(rows.back()[column].size(), 40));
    }
    std::vector<std::string> lines;
    lines.reserve(rows.size());
    for (const auto& row : rows)
        lines.push_back(fmt::format("{:<{}}  {:<{}}  {}", row[0], widths[0], row[1], widths[1], row[2]));
    return lines;
}

std::string plain_text(const Facts& facts, const std::vector<Reach>& reaches, const std::string& name) {
    std::string text;
    const auto line = [&text](std::string_view label, const std::string& value) {
        text += fmt::format("{:<16}{}\n", label, value);
    };
    line("file", name);
    if (!facts.unfinished.empty()) line("unfinished", facts.unfinished);
    line("format", facts.version           ? fmt::format("npy {}.{}", (*facts.version)[0], (*facts.version)[1])
                   : facts.format == "npz" ? "npz: an archive of .npy files"
                                           : std::string(facts.format));
    if (facts.descr && facts.fields.empty()) line("items", type_text(*facts.descr, facts.dtype, facts.type));
    if (!facts.fields.empty()) {
        const std::string inner =
            facts.type.subarray.empty() ? "" : fmt::format(", {} in each item", to_string(facts.type.subarray));
        line("items", fmt::format("structured, {} each{}", size_text(facts.type.item_bytes), inner));
    }
    if (facts.shape) {
        const auto count = static_cast<std::uint64_t>(element_count(*facts.shape));
        line("shape", fmt::format("{}, {} item{}", to_string(*facts.shape), grouped(count), count == 1 ? "" : "s"));
    }
    if (facts.fortran_order)
        line("order", *facts.fortran_order ? "Fortran: the first index runs fastest" : "C: the last index runs fastest");
    if (facts.member) line("member", fmt::format("{}; {}", printable(facts.member->file_name), stored_text(*facts.member)));
    line("data offset", grouped(facts.data_offset) + (!facts.member              ? ""
                                                      : facts.member->compressed ? " in the inflated member"
                                                                                 : " in the archive"));
    line("data size", size_text(facts.data_bytes));
    if (facts.trailing_bytes != 0) {
        line("behind the data",
             facts.trailing_bytes ? size_text(*facts.trailing_bytes) : "more than " + short_size_text(most_trailing_bytes));
    }
    if (facts.data_bytes != 0 && facts.cached_bytes) {
        const double part = static_cast<double>(*facts.cached_bytes) / static_cast<double>(facts.data_bytes);
        line("in page cache", fmt::format("{}, {:.0f}%", size_text(*facts.cached_bytes), 100 * part));
    }
    const std::vector<std::string> members = member_lines(facts.members);
    for (const std::string& member : members)
        line(&member == members.data() ? "members" : "", member);
    std::vector<FieldRow> rows;
    collect_rows(facts.fields, "", 0, rows);
    std::size_t width = 0;
    for (const FieldRow& row : rows)
        width = std::max(width, row.name.size());
    for (const FieldRow& row : rows)
        line(&row == rows.data() ? "fields" : "",
             fmt::format("{:<{}}  at {:<6} {}", row.name, width, row.offset_bytes, row.type));
    for (const Reach& reach : reaches) {
        line(&reach == reaches.data() ? "devices" : "",
             fmt::format("{:<9} zero copy: {}; {}", reach.device, to_string(reach.zero_copy), one_line(reach.residency)));
    }
    return text;
}

void run(const Options& options) {
    Input input = find_input(options.file);
    identify(input, options.raw);
    if (!input.field.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: info tells about whole files; name the file alone to see its fields", input.name));
    }
    check_raw_options(options.raw, {&input});
    Facts facts;
    std::vector<Reach> reaches;
    naming(input, [&] {
        facts = input.is_raw    ? facts_of_raw(input, options.raw)
                : input.member  ? facts_of_member(*input.archive, input.archive->find(*input.member), options.raw.dtype)
                : input.archive ? facts_of_npz(input)
                                : facts_of_npy(input, options.raw.dtype);
        reaches = find_reaches(facts);
    });
    facts.unfinished = unfinished_text(input);
    print(options.json ? json_text(facts, reaches) : plain_text(facts, reaches, input.name));
}

}  // namespace

void add_info(CLI::App& app, std::function<void()>& job) {
    CLI::App* command = app.add_subcommand(
        "info", "Show what a file holds, how much of it is in memory already, and how each device would reach it");
    const auto options = std::make_shared<Options>();
    command
        ->add_option("FILE", options->file,
                     "A .npy file, an .npz archive or ARCHIVE.npz:MEMBER, a raw file with --dtype, or - for standard input")
        ->type_name("")
        ->required();
    command->add_flag("--json", options->json, "One JSON object");
    add_raw_options(*command, options->raw);
    command->callback([options, &job] { job = [options] { run(*options); }; });
}

}  // namespace tandem::command
