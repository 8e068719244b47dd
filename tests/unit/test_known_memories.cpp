// The table of shared memory that a process has.

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/share/known_memories.hpp"

namespace {

using namespace tandem;

class AnyMemory final : public driver::Memory {
public:
    AnyMemory() : Memory(16, MemoryKind::device, {ZeroCopy::no, "nowhere"}) {}
    [[nodiscard]] std::uint64_t address() const noexcept override { return 4096; }
};

}  // namespace

TEST_CASE("memory that is here is found by its name as long as it lives") {
    KnownMemories known;
    const auto memory = std::make_shared<AnyMemory>();
    const std::string name = known.name_of(memory, nullptr);
    CHECK(known.name_of(memory, nullptr) == name);
    auto other = std::make_shared<AnyMemory>();
    known.add(name, other, nullptr);
    CHECK(known.find(name, nullptr).size() == 2);
    other.reset();
    CHECK(known.find(name, nullptr) == std::vector<std::shared_ptr<driver::Memory>>{memory});
    CHECK(known.find("another", nullptr).empty());
}

TEST_CASE("memory that is gone is forgotten, and what lives is not looked at each time") {
    KnownMemories known;
    const auto lasting = std::make_shared<AnyMemory>();
    const std::string name = known.name_of(lasting, nullptr);
    for (int i = 0; i < 10'000; ++i) {
        static_cast<void>(known.name_of(std::make_shared<AnyMemory>(), nullptr));
        REQUIRE(known.size() <= KnownMemories::first_look);
    }
    CHECK(known.find(name, nullptr).size() == 1);
    // So many that a look at all of them at each would take minutes.
    std::vector<std::shared_ptr<driver::Memory>> many;
    for (int i = 0; i < 300'000; ++i) {
        many.push_back(std::make_shared<AnyMemory>());
        known.add(std::to_string(i), many.back(), nullptr);
    }
    CHECK(known.find("299999", nullptr).size() == 1);
    CHECK(known.find("0", nullptr).size() == 1);
    many.clear();
    for (int i = 0; i < 400'000; ++i)
        known.add("gone", std::make_shared<AnyMemory>(), nullptr);
    CHECK(known.find(name, nullptr).size() == 1);
    CHECK(known.size() < 600'100);
}
