#include "core/smaps.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

#include "core/address_space.hpp"

namespace tandem {
namespace {

// The number in "KEY:    123 kB", which counts KiB, or in "KEY:    1".
std::uint64_t parse_number(std::string_view value) {
    std::uint64_t number = 0;
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    std::from_chars(value.data(), value.data() + value.size(), number);
    return number;
}

void add_fact(MappingFacts& facts, std::string_view key, std::uint64_t number) {
    if (key == "Rss" || key == "Shared_Hugetlb" || key == "Private_Hugetlb") {
        facts.resident_bytes += number << 10U;
    } else if (key == "AnonHugePages" || key == "ShmemPmdMapped" || key == "FilePmdMapped") {
        facts.huge_bytes += number << 10U;
    } else if (key == "THPeligible") {
        facts.huge_eligible = facts.huge_eligible && number == 1;
    }
}

}  // namespace

std::optional<MappingFacts> mapping_facts(const void* data, std::size_t size_bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    const std::uintptr_t end = begin + size_bytes;
    std::ifstream smaps("/proc/self/smaps");
    MappingFacts facts;
    facts.huge_eligible = true;
    bool found = false;
    bool tells_eligibility = false;
    bool inside = false;
    for (std::string line; std::getline(smaps, line);) {
        if (const auto range = parse_maps_line(line)) {
            if (range->begin >= end) {
                break;
            }
            inside = range->end > begin;
            found = found || inside;
        } else if (const std::size_t colon = line.find(':'); inside && colon != std::string::npos) {
            const std::string_view key = std::string_view(line).substr(0, colon);
            add_fact(facts, key, parse_number(std::string_view(line).substr(colon + 1)));
            tells_eligibility = tells_eligibility || key == "THPeligible";
        }
    }
    if (!found) {
        return std::nullopt;
    }
    facts.huge_eligible = facts.huge_eligible && tells_eligibility;
    return facts;
}

}  // namespace tandem
