#pragma once
// Memory and processors that are nearer to a device than others.

#include <cstddef>
#include <filesystem>
#include <string_view>
#include <vector>

namespace tandem {

/// The numbers in a list as the kernel writes them: "0-3,8" is 0, 1, 2, 3, 8. Empty for what is none. Own code, since libnuma
/// would be one more library to ship for this one line.
std::vector<int> parse_number_list(std::string_view text);

/// The processors of a node. Empty where the machine has a single node or does not tell, so that there is nothing to choose.
/// `nodes` is the kernel's folder of them.
std::vector<int> processors_of_node(int node, const std::filesystem::path& nodes = "/sys/devices/system/node");

/// Keeps the calling thread on the node's processors, as far as the process may use them. Does nothing where there is no choice.
/// Native call: sched_setaffinity.
void stay_near_node(int node) noexcept;

/// Pages of whole-page memory that are touched from now on come from the node while it has any. Does nothing where there is no
/// choice. Native call: mbind(MPOL_PREFERRED).
void prefer_node(std::byte* data, std::size_t size_bytes, int node) noexcept;

}  // namespace tandem
