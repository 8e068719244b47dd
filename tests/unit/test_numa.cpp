// Which processors are near a device: read from a folder as the kernel has it.
#include <sched.h>

#include <doctest/doctest.h>

#include <filesystem>

#include "core/host_block.hpp"
#include "core/numa.hpp"
#include "scratch_folder.hpp"

namespace tandem {
namespace {

using test::ScratchFolder;

TEST_CASE("lists of numbers") {
    CHECK(parse_number_list("0") == std::vector{0});
    CHECK(parse_number_list("0-3,8") == std::vector{0, 1, 2, 3, 8});
    CHECK(parse_number_list("2,4-5") == std::vector{2, 4, 5});
    for (const char* text : {"", "x", "-1", "3-1", "1,", ",1", "1-", "1 2", "99999999999", "0-99999999", "1--2"}) {
        CAPTURE(text);
        CHECK(parse_number_list(text).empty());
    }
}

TEST_CASE("a node's processors") {
    const ScratchFolder folder;
    std::filesystem::create_directories(folder / "node0");
    std::filesystem::create_directories(folder / "node1");
    folder.write("node0/cpulist", "0-1,4-5\n");
    folder.write("node1/cpulist", "2-3,6-7\n");
    folder.write("online", "0-1\n");
    CHECK(processors_of_node(0, folder.path()) == std::vector{0, 1, 4, 5});
    CHECK(processors_of_node(1, folder.path()) == std::vector{2, 3, 6, 7});
    CHECK(processors_of_node(2, folder.path()).empty());
    CHECK(processors_of_node(-1, folder.path()).empty());
    // With one node there is nothing to choose.
    folder.write("online", "0\n");
    CHECK(processors_of_node(0, folder.path()).empty());
    CHECK(processors_of_node(0, folder / "nowhere").empty());
}

TEST_CASE("keeping near a node leaves a thread and memory usable") {
    cpu_set_t before, after;
    REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
    HostBlock block(1 << 20);
    for (const int node : {-1, 0, 5000}) {
        stay_near_node(node);
        prefer_node(block.data(), block.size_bytes(), node);
    }
    block.touch();
    REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
    CHECK(CPU_COUNT(&after) > 0);
    sched_setaffinity(0, sizeof before, &before);
}

}  // namespace
}  // namespace tandem
