#include "tandem/publisher.hpp"

#include <fmt/format.h>

#include "core/printable.hpp"
#include "core/share/server.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

std::string_view checked_name(std::string_view name) {
    const std::string problem = name_problem(name);
    if (!problem.empty()) throw Error(ErrorCode::invalid_argument, fmt::format("publisher: {}", problem));
    return name;
}

}  // namespace

Publisher::Publisher(std::string_view name, const PublisherOptions& options)
    : server_(std::make_unique<Server>(checked_name(name), options)) {}

Publisher::Publisher(Publisher&& other) noexcept = default;
Publisher& Publisher::operator=(Publisher&& other) noexcept = default;
Publisher::~Publisher() = default;

Publisher::Server& Publisher::server() const {
    if (server_ == nullptr) throw Error(ErrorCode::invalid_argument, "this publisher was moved from");
    return *server_;
}

void Publisher::add(const Array& array, std::string_view key, const ShareOptions& options) {
    add(array, SharedFence(), key, options);
}

void Publisher::add(const Array& array, const SharedFence& fence, std::string_view key, const ShareOptions& options) {
    server().add(key, {.array = array, .descriptor = share(array, options), .fence = fence});
}

void Publisher::add(const ShareDescriptor& descriptor, const SharedFence& fence, std::string_view key) {
    server().add(key, {.array = Array(), .descriptor = descriptor, .fence = fence});
}

void Publisher::remove(std::string_view key) {
    server().remove(key);
}

const std::string& Publisher::name() const {
    return server().name();
}

const std::filesystem::path& Publisher::path() const {
    return server().path();
}

}  // namespace tandem
