// The asking side: arrays by their names.

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <list>
#include <system_error>
#include <type_traits>

#include <fmt/format.h>

#include "core/printable.hpp"
#include "core/share/message.hpp"
#include "core/share/names.hpp"
#include "core/share/socket.hpp"
#include "tandem/error.hpp"
#include "tandem/publisher.hpp"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

// What a caller asks for: NAME or NAME/KEY.
struct Address {
    std::string name;
    std::optional<std::string> key;
};

Address parse_address(std::string_view text) {
    const std::size_t slash = text.find('/');
    Address address{.name = std::string(text.substr(0, slash)), .key = {}};
    if (slash != std::string_view::npos) address.key = text.substr(slash + 1);
    std::string problem = name_problem(address.name);
    if (problem.empty() && address.key) problem = name_problem(*address.key);
    if (!problem.empty()) throw Error(ErrorCode::invalid_argument, fmt::format("name to attach: {}", problem));
    return address;
}

std::string list_of(const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& name : names)
        list += (list.empty() ? "" : ", ") + in_quotes(name);
    return list.empty() ? "nothing" : list;
}

Deadline deadline_of(const AttachOptions& options) {
    const Clock::time_point now = Clock::now();
    const bool has_end = options.timeout < std::chrono::floor<std::chrono::milliseconds>(Deadline::max() - now);
    return has_end ? now + options.timeout : Deadline::max();
}

// A connection to the publisher of a name.
class Connection {
public:
    Connection(const std::string& name, const AttachOptions& options) : Connection(name, options, deadline_of(options)) {}
    /// Waits until `connected_by` for a publisher that takes many on at once.
    Connection(const std::string& name, const AttachOptions& options, Deadline connected_by) : name_(name), options_(options) {
        const std::filesystem::path folder = names_folder(options.folder, false);
        std::optional<FileDescriptor> socket = connect_to(socket_path(folder, name), connected_by);
        if (!socket) {
            const std::vector<std::string> names = live_names(folder);
            throw Error(ErrorCode::unavailable, fmt::format("{}: nobody publishes this name in {}; published there: {}",
                                                            in_quotes(name), printable_path(folder), list_of(names)));
        }
        socket_ = std::move(*socket);
        peer_ = peer_of(socket_.number());
        const auto& users = options.users;
        if (peer_.uid != ::geteuid() && std::find(users.begin(), users.end(), peer_.uid) == users.end()) {
            throw Error(ErrorCode::unavailable,
                        fmt::format("{}: published by user {}, whom user {} does not attach from", in_quotes(name), peer_.uid,
                                    ::geteuid()),
                        EACCES);
        }
    }

    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] const PeerCredentials& peer() const noexcept { return peer_; }
    [[nodiscard]] int socket() const noexcept { return socket_.number(); }

    struct Answer {
        Message message;
        std::vector<FileDescriptor> descriptors;
    };

    Answer ask(const Message& request) {
        return named([&] {
            const Deadline until = deadline_of(options_);
            const std::vector<std::byte> bytes = to_bytes(request);
            while (!send(bytes))
                wait(POLLOUT, until);
            while (true) {
                wait(POLLIN, until);
                if (std::optional<Answer> answer = receive()) return std::move(*answer);
            }
        });
    }

    /// Asks without waiting: a connection has room for one request.
    void begin(const Message& request) {
        named([&] {
            if (!send(to_bytes(request))) throw Error(ErrorCode::unavailable, "it takes no request", EAGAIN);
        });
    }
    /// The answer, where it is there.
    std::optional<Answer> poll_answer() {
        return named([&] { return receive(); });
    }

    [[noreturn]] void refuse(const Answer& answer) const {
        if (const auto* error = std::get_if<ErrorReply>(&answer.message)) {
            throw Error(error->code, fmt::format("{}: process {}: {}", in_quotes(name_), peer_.pid, error->text));
        }
        throw Error(ErrorCode::bad_file, fmt::format("{}: process {}: an answer to the request needed, message {} found",
                                                     in_quotes(name_), peer_.pid, answer.message.index()));
    }

private:
    template <class Work>
    std::invoke_result_t<Work> named(Work&& work) {
        try {
            return work();
        } catch (const Error& error) {
            throw Error(error.code(), fmt::format("{}: process {}: {}", in_quotes(name_), peer_.pid, error.what()),
                        error.native_code());
        }
    }

    void wait(short events, Deadline until) const {
        if (wait_ready(socket_.number(), events, until)) return;
        throw Error(ErrorCode::unavailable, fmt::format("no answer within {} ms", options_.timeout.count()), ETIMEDOUT);
    }

    std::optional<Answer> receive() const {
        std::optional<Packet> packet = receive_packet(socket_.number(), TakeDescriptors::yes);
        if (!packet) return std::nullopt;
        return Answer{.message = parse_message(packet->bytes), .descriptors = std::move(packet->descriptors)};
    }

    // Who refuses says why, and closes, perhaps before it was asked: what it said is there to be read all the same.
    bool send(std::span<const std::byte> bytes) const {
        try {
            return send_packet(socket_.number(), bytes, {});
        } catch (const Error& error) {
            if (error.native_code() != EPIPE) throw;
            return true;
        }
    }

    std::string name_;
    const AttachOptions& options_;  // the caller's, who waits
    FileDescriptor socket_;
    PeerCredentials peer_;
};

PublishedInfo info_of(const std::string& name, const EntryReply& entry, const PeerCredentials& peer) {
    return {.name = entry.key.empty() ? name : name + "/" + entry.key,
            .dtype = entry.dtype,
            .shape = entry.shape,
            .size_bytes = entry.size_bytes,
            .method = entry.method,
            .kind = entry.kind,
            .device = entry.device,
            .is_writable = entry.is_writable,
            .has_fence = entry.has_fence,
            .pid = peer.pid,
            .user = peer.uid};
}

// What one publisher has, request by request.
class Listing {
public:
    explicit Listing(Connection connection) : connection_(std::move(connection)) {}

    [[nodiscard]] const NextRequest& request() const noexcept { return request_; }
    [[nodiscard]] Connection& connection() noexcept { return connection_; }
    [[nodiscard]] std::vector<PublishedInfo>& found() noexcept { return found_; }

    /// False at the list's end. Keys come in order, so that no publisher can make it endless by repeating some; there are no more
    /// than can be looked at.
    bool take(const Connection::Answer& answer) {
        static constexpr std::size_t most = 100'000;
        if (std::holds_alternative<EndReply>(answer.message)) return false;
        const auto* entry = std::get_if<EntryReply>(&answer.message);
        if (entry == nullptr) connection_.refuse(answer);
        if (request_.after && entry->key <= *request_.after) {
            throw Error(ErrorCode::bad_file,
                        fmt::format("{}: process {}: a key behind {} needed, {} found", in_quotes(connection_.name()),
                                    connection_.peer().pid, in_quotes(*request_.after), in_quotes(entry->key)));
        }
        found_.push_back(info_of(connection_.name(), *entry, connection_.peer()));
        request_.after = entry->key;
        return found_.size() < most;
    }

private:
    Connection connection_;
    NextRequest request_;
    std::vector<PublishedInfo> found_;
};

// All that `name` publishes.
std::vector<PublishedInfo> list(const std::string& name, const AttachOptions& options) {
    Listing listing{Connection(name, options)};
    while (listing.take(listing.connection().ask(listing.request()))) {
    }
    return std::move(listing.found());
}

// All that several names publish, asked at once.
class Listings {
public:
    explicit Listings(const AttachOptions& options) : options_(options) {}

    void add(const std::string& name) {
        try {
            Listing listing(Connection(name, options_, Clock::now()));
            listing.connection().begin(listing.request());
            open_.push_back({.listing = std::move(listing), .until = deadline_of(options_)});
        } catch (const Error& error) {
            // Gone meanwhile, another user's, or no publisher: what can't be attached is not listed.
            if (error.native_code() == EAGAIN) all_.push_back({.name = name, .is_answering = false});
        }
    }

    std::vector<PublishedInfo> finish() {
        std::vector<pollfd> polled;
        while (!open_.empty()) {
            polled.clear();
            Deadline next = Deadline::max();
            for (Open& entry : open_) {
                polled.push_back({.fd = entry.listing.connection().socket(), .events = POLLIN, .revents = 0});
                next = std::min(next, entry.until);
            }
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
            const auto wait = std::clamp<std::chrono::milliseconds::rep>(left.count(), 0, 60'000);
            if (::poll(polled.data(), polled.size(), static_cast<int>(wait)) < 0 && errno != EINTR)
                throw Error(ErrorCode::io, fmt::format("poll: {}", std::generic_category().message(errno)), errno);
            auto event = polled.begin();
            for (auto entry = open_.begin(); entry != open_.end(); ++event)
                entry = go_on(*entry, event->revents != 0) ? std::next(entry) : open_.erase(entry);
        }
        std::stable_sort(all_.begin(), all_.end(),
                         [](const PublishedInfo& left, const PublishedInfo& right) { return name_of(left) < name_of(right); });
        return std::move(all_);
    }

private:
    struct Open {
        Listing listing;
        Deadline until;
    };

    // Names come in alphabetical order, each with its keys behind it.
    static std::string_view name_of(const PublishedInfo& info) {
        return std::string_view(info.name).substr(0, info.name.find('/'));
    }

    // False where there is no more to come.
    bool go_on(Open& entry, bool is_ready) {
        Listing& listing = entry.listing;
        try {
            if (is_ready) {
                const std::optional<Connection::Answer> answer = listing.connection().poll_answer();
                if (!answer) return true;
                if (listing.take(*answer)) {
                    listing.connection().begin(listing.request());
                    entry.until = deadline_of(options_);
                    return true;
                }
                std::move(listing.found().begin(), listing.found().end(), std::back_inserter(all_));
            } else if (Clock::now() >= entry.until) {
                const PeerCredentials& peer = listing.connection().peer();
                all_.push_back({.name = listing.connection().name(), .pid = peer.pid, .user = peer.uid, .is_answering = false});
            } else {
                return true;
            }
        } catch (const Error&) {
            // As in `add`.
        }
        return false;
    }

    const AttachOptions& options_;
    std::list<Open> open_;
    std::vector<PublishedInfo> all_;
};

}  // namespace

Attachment attach_with_fence(const Device& device, std::string_view name, const AttachOptions& options) {
    static_cast<void>(device.state());
    const Address address = parse_address(name);
    Connection connection(address.name, options);
    Connection::Answer answer = connection.ask(GetRequest{.key = address.key.value_or("")});
    const auto* reply = std::get_if<ArrayReply>(&answer.message);
    if (reply == nullptr) connection.refuse(answer);
    try {
        Attachment attachment;
        if (reply->has_fence) {
            if (answer.descriptors.empty()) throw Error(ErrorCode::bad_file, "the fence's file descriptor needed, none found");
            attachment.fence = SharedFence::from_file_descriptor(answer.descriptors.back().release());
            answer.descriptors.pop_back();
        }
        std::vector<int> numbers;
        numbers.reserve(answer.descriptors.size());
        for (FileDescriptor& descriptor : answer.descriptors)
            numbers.push_back(descriptor.release());
        attachment.array = attach(device, ShareDescriptor::from_bytes(reply->descriptor, numbers));
        return attachment;
    } catch (const Error& error) {
        throw Error(error.code(), fmt::format("{}: process {}: {}", in_quotes(name), connection.peer().pid, error.what()),
                    error.native_code());
    }
}

Array attach(const Device& device, std::string_view name, const AttachOptions& options) {
    return attach_with_fence(device, name, options).array;
}

std::vector<PublishedInfo> published(std::string_view name, const AttachOptions& options) {
    const Address address = parse_address(name);
    std::vector<PublishedInfo> found = list(address.name, options);
    if (!address.key) return found;
    std::erase_if(found, [&](const PublishedInfo& info) { return info.name != name; });
    if (found.empty()) {
        throw Error(ErrorCode::unavailable,
                    fmt::format("{}: {} is not published", in_quotes(address.name), in_quotes(*address.key)));
    }
    return found;
}

std::vector<PublishedInfo> published(const AttachOptions& options) {
    Listings listings(options);
    for (const std::string& name : live_names(names_folder(options.folder, false)))
        listings.add(name);
    return listings.finish();
}

}  // namespace tandem
