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
#include "tools/outputs.hpp"
#include "tools/text.hpp"

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
    std::uint64_t cached_bytes = 0;
    npy::ItemType type;
    std::vector<npy::Field> fields;
    MappedFile file;  // where devices could reach the data in it: no stream, no archive
};

// How a device would reach the data of a file in place, or why it would not.
struct Reach {
    std::string device;
    ZeroCopy zero_copy = ZeroCopy::no;
    std::string residency;
};

// An archive as numpy.savez writes it: a ZIP file whose first member is an array, or that has no members.
bool is_npz(const Input& input) {
    static constexpr std::size_t name_length_at = 26;
    static constexpr std::size_t name_at = 30;
    if (input.is_stream) return false;
    std::array<char, 4096> start{};
    std::ifstream file(input.path, std::ios::binary);
    file.read(start.data(), start.size());
    const std::string_view text(start.data(), static_cast<std::size_t>(file.gcount()));
    if (text.starts_with("PK\x05\x06")) return true;
    if (!text.starts_with("PK\x03\x04") || text.size() < name_at) return false;
    const auto byte_at = [&](std::size_t position) {
        return static_cast<std::size_t>(static_cast<unsigned char>(text[position]));
    };
    return text.substr(name_at, byte_at(name_length_at) | byte_at(name_length_at + 1) << 8U).ends_with(".npy");
}

Facts facts_of_npz(const Input& input) {
    const MappedFile file = MappedFile::open(input.path);
    Facts facts;
    facts.format = "npz";
    facts.data_bytes = file.size_bytes();
    facts.cached_bytes = file.cached_bytes(0, file.size_bytes());
    return facts;
}

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
        facts.data_bytes = facts.cached_bytes = extent.data_bytes;
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
    facts.format = "npy";
    facts.version = {header.major, header.minor};
    facts.descr = header.type.descr;
    facts.dtype = header.type.dtype;
    if (!facts.dtype && header.fields.empty() && stated && size_bytes(*stated) == header.type.item_bytes) facts.dtype = stated;
    facts.shape = header.shape;
    facts.fortran_order = header.fortran_order;
    facts.data_offset = header.data_offset;
    facts.data_bytes = header.data_bytes;
    facts.type = header.type;
    facts.fields = header.fields;
    return facts;
}

// Why no device could use the data as the file has it; empty where that depends on the device.
std::string why_copied(const Facts& facts) {
    if (facts.file.in_memory()) return "the file can't be mapped, and is read into memory";
    return improper_reason(facts.dtype.value_or(uint8), facts.type.swapped);
}

// Found out by adopting the data's first page, or less: the same cost at any size.
std::vector<Reach> find_reaches(const Facts& facts) {
    std::vector<Reach> reaches;
    if (facts.file.path().empty()) return reaches;
    const auto start = facts.file.bytes().subspan(facts.data_offset, std::min<std::uint64_t>(facts.data_bytes, page_bytes()));
    const std::string always_copied = start.empty() ? std::string() : why_copied(facts);
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

std::string json_text(const Facts& facts, const std::vector<Reach>& reaches) {
    Json object{{"format", facts.format},
                {"version", or_null(facts.version)},
                {"descr", or_null(facts.descr)},
                {"dtype", dtype_json(facts.dtype)},
                {"shape", or_null(facts.shape)},
                {"fortran_order", or_null(facts.fortran_order)},
                {"data_offset", facts.data_offset},
                {"nbytes", facts.data_bytes},
                {"trailing_bytes", or_null(facts.trailing_bytes)},
                {"cached_bytes", facts.cached_bytes}};
    if (!facts.type.subarray.empty()) object["item_shape"] = facts.type.subarray;
    if (!facts.fields.empty()) object["fields"] = fields_json(facts.fields);
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

std::string plain_text(const Facts& facts, const std::vector<Reach>& reaches, const std::string& name) {
    std::string text;
    const auto line = [&text](std::string_view label, const std::string& value) {
        text += fmt::format("{:<16}{}\n", label, value);
    };
    line("file", name);
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
    line("data offset", grouped(facts.data_offset));
    line("data size", size_text(facts.data_bytes));
    if (facts.trailing_bytes != 0) {
        line("behind the data",
             facts.trailing_bytes ? size_text(*facts.trailing_bytes) : "more than " + short_size_text(most_trailing_bytes));
    }
    if (facts.data_bytes != 0) {
        line("in page cache", fmt::format("{}, {:.0f}%", size_text(facts.cached_bytes),
                                          100 * static_cast<double>(facts.cached_bytes) / static_cast<double>(facts.data_bytes)));
    }
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
    if (!input.field.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: info tells about whole files; name the file alone to see its fields", input.name));
    }
    identify(input, options.raw);
    check_raw_options(options.raw, {&input});
    Facts facts;
    std::vector<Reach> reaches;
    naming(input, [&] {
        facts = input.is_raw    ? facts_of_raw(input, options.raw)
                : is_npz(input) ? facts_of_npz(input)
                                : facts_of_npy(input, options.raw.dtype);
        reaches = find_reaches(facts);
    });
    print(options.json ? json_text(facts, reaches) : plain_text(facts, reaches, input.name));
}

}  // namespace

void add_info(CLI::App& app, std::function<void()>& job) {
    CLI::App* command = app.add_subcommand(
        "info", "Show what a file holds, how much of it is in memory already, and how each device would reach it");
    const auto options = std::make_shared<Options>();
    command->add_option("FILE", options->file, "A .npy file, a raw file with --dtype, or - for standard input")
        ->type_name("")
        ->required();
    command->add_flag("--json", options->json, "One JSON object");
    add_raw_options(*command, options->raw);
    command->callback([options, &job] { job = [options] { run(*options); }; });
}

}  // namespace tandem::command
