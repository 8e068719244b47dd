// The asking side: arrays by their names.

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

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

// A connection to the publisher of a name.
class Connection {
public:
    Connection(const std::string& name, const AttachOptions& options) : name_(name), options_(options) {
        const std::filesystem::path folder = names_folder(options.folder, false);
        std::optional<FileDescriptor> socket = connect_to(socket_path(folder, name), deadline());
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

    [[nodiscard]] const PeerCredentials& peer() const noexcept { return peer_; }

    struct Answer {
        Message message;
        std::vector<FileDescriptor> descriptors;
    };

    Answer ask(const Message& request) {
        try {
            return exchange(request);
        } catch (const Error& error) {
            throw Error(error.code(), fmt::format("{}: process {}: {}", in_quotes(name_), peer_.pid, error.what()),
                        error.native_code());
        }
    }

    [[noreturn]] void refuse(const Answer& answer) const {
        if (const auto* error = std::get_if<ErrorReply>(&answer.message)) {
            throw Error(error->code, fmt::format("{}: process {}: {}", in_quotes(name_), peer_.pid, error->text));
        }
        throw Error(ErrorCode::bad_file, fmt::format("{}: process {}: an answer to the request needed, message {} found",
                                                     in_quotes(name_), peer_.pid, answer.message.index()));
    }

private:
    [[nodiscard]] Deadline deadline() const {
        const Clock::time_point now = Clock::now();
        const bool has_end = options_.timeout < std::chrono::floor<std::chrono::milliseconds>(Deadline::max() - now);
        return has_end ? now + options_.timeout : Deadline::max();
    }

    void wait(short events, Deadline until) const {
        if (wait_ready(socket_.number(), events, until)) return;
        throw Error(ErrorCode::unavailable, fmt::format("no answer within {} ms", options_.timeout.count()), ETIMEDOUT);
    }

    Answer exchange(const Message& request) {
        const Deadline until = deadline();
        const std::vector<std::byte> bytes = to_bytes(request);
        while (!send(bytes))
            wait(POLLOUT, until);
        while (true) {
            wait(POLLIN, until);
            std::optional<Packet> packet = receive_packet(socket_.number(), TakeDescriptors::yes);
            if (packet) return {.message = parse_message(packet->bytes), .descriptors = std::move(packet->descriptors)};
        }
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
    const AttachOptions& options_;
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

// All that `name` publishes. Keys come in order, so that no publisher can make the list endless by repeating some; there are no
// more than can be looked at.
std::vector<PublishedInfo> list(const std::string& name, const AttachOptions& options) {
    static constexpr std::size_t most = 100'000;
    Connection connection(name, options);
    std::vector<PublishedInfo> found;
    NextRequest request;
    while (found.size() < most) {
        const Connection::Answer answer = connection.ask(request);
        if (std::holds_alternative<EndReply>(answer.message)) break;
        const auto* entry = std::get_if<EntryReply>(&answer.message);
        if (entry == nullptr) connection.refuse(answer);
        if (request.after && entry->key <= *request.after) {
            throw Error(ErrorCode::bad_file,
                        fmt::format("{}: process {}: a key behind {} needed, {} found", in_quotes(name), connection.peer().pid,
                                    in_quotes(*request.after), in_quotes(entry->key)));
        }
        found.push_back(info_of(name, *entry, connection.peer()));
        request.after = entry->key;
    }
    return found;
}

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
    std::vector<PublishedInfo> all;
    for (const std::string& name : live_names(names_folder(options.folder, false))) {
        try {
            std::vector<PublishedInfo> found = list(name, options);
            all.insert(all.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
        } catch (const Error&) {
            // Gone meanwhile, another user's, or no publisher: what can't be attached is not listed.
        }
    }
    return all;
}

}  // namespace tandem
