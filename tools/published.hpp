#pragma once
// What is published, in words and in JSON.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <tandem/tandem.hpp>

namespace tandem::command {

/// "a: float32 (1000,), 4,000 bytes of host memory on host:0, process 123", with what else there is to say.
std::string line_of(const PublishedInfo& info);

/// The same as an object: `name`, `answers`, and where that is true `dtype`, `shape`, `nbytes` (of the elements), `shared_bytes`
/// (of the memory), `method`, `memory`, `device` (null where it is not known), `writable`, `fence`, `pid`, `user`.
nlohmann::ordered_json json_of(const PublishedInfo& info);

}  // namespace tandem::command
