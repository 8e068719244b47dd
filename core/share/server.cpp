#include "core/share/server.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "core/printable.hpp"
#include "core/share/quiet_thread.hpp"
#include "tandem/error.hpp"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How long a client may take for its next request, and to take an answer.
constexpr std::chrono::seconds patience{10};
// At once; more come and go.
constexpr std::size_t max_clients = 256;
// How long nobody is taken on where there is no room or no descriptor left.
constexpr milliseconds accept_pause{100};

milliseconds until(Deadline deadline) {
    return std::max(std::chrono::ceil<milliseconds>(deadline - Clock::now()), milliseconds(0));
}

}  // namespace

std::vector<int> Publisher::Server::Answer::descriptors() const {
    if (entry == nullptr) return {};
    std::vector<int> numbers = entry->descriptor.file_descriptors();
    if (entry->fence.is_valid()) numbers.push_back(entry->fence.file_descriptor());
    return numbers;
}

Publisher::Server::Server(std::string_view name, const PublisherOptions& options)
    : name_(name),
      users_(options.users),
      process_(::getpid()),
      lock_(names_folder(options.folder, true), name),
      // Others could not even ask by a socket for this user alone.
      listener_(OwnDescriptor::take([this] { return listen_at(lock_.socket_path(), users_.empty() ? 0600 : 0666); })),
      thread_(start_quiet_thread([this] { work(); })) {}

Publisher::Server::~Server() {
    if (process_ != ::getpid()) {
        lock_.forget();
        thread_.detach();  // which there is none of in a fork's child
        return;
    }
    stop_.wake();
    thread_.join();
}

void Publisher::Server::add(std::string_view key, Entry entry) {
    const std::string problem = key.empty() ? std::string() : name_problem(key);
    if (!problem.empty()) throw Error(ErrorCode::invalid_argument, fmt::format("{}: key: {}", in_quotes(name_), problem));
    auto made = std::make_shared<const Entry>(std::move(entry));
    const std::lock_guard lock(mutex_);
    if (!entries_.emplace(key, std::move(made)).second) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: {} is published already", in_quotes(name_), key.empty() ? "an array" : in_quotes(key)));
    }
}

void Publisher::Server::remove(std::string_view key) {
    std::shared_ptr<const Entry> removed;  // outlives the lock
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) {
        throw Error(ErrorCode::out_of_range, fmt::format("{}: {} is not published", in_quotes(name_),
                                                         key.empty() ? "an array without key" : in_quotes(key)));
    }
    removed = std::move(found->second);
    entries_.erase(found);
}

void Publisher::Server::work() noexcept {
    while (true) {
        try {
            std::vector<pollfd> polled{{.fd = stop_.number(), .events = POLLIN, .revents = 0},
                                       {.fd = listener_.number(), .events = POLLIN, .revents = 0}};
            Deadline next = Deadline::max();
            if (Clock::now() < accept_after_) {
                polled[1].fd = -1;
                next = accept_after_;
            }
            for (const Client& client : clients_) {
                const short events = client.answer ? POLLOUT : POLLIN;
                polled.push_back({.fd = client.socket.number(), .events = events, .revents = 0});
                next = std::min(next, client.deadline);
            }
            const milliseconds wait = next == Deadline::max() ? milliseconds(-1) : std::min(until(next), milliseconds(60'000));
            if (::poll(polled.data(), polled.size(), static_cast<int>(wait.count())) < 0 && errno != EINTR) {
                accept_after_ = Clock::now() + accept_pause;  // ENOMEM: later
            }
            if (polled[0].revents != 0) return;
            auto entry = polled.begin() + 2;
            for (auto client = clients_.begin(); client != clients_.end(); ++entry) {
                const bool stays = entry->revents != 0 ? go_on(*client) : Clock::now() < client->deadline;
                client = stays ? std::next(client) : clients_.erase(client);
            }
            if (polled[1].revents != 0) accept_clients();
        } catch (const std::exception&) {
            // Memory or descriptors have run out. Those who wait for an answer give up, and ask again.
            clients_.clear();
            accept_after_ = Clock::now() + accept_pause;
        }
    }
}

void Publisher::Server::accept_clients() {
    try {
        while (make_room()) {
            OwnDescriptor socket =
                OwnDescriptor::take([this] { return accept_from(listener_.number()).value_or(FileDescriptor()); });
            if (!socket.is_open()) return;
            // A refusal is an answer like others: whoever is dropped with a request unread does not see what was said before.
            std::optional<std::string> reason = refusal(peer_of(socket.number()));
            clients_.push_back({.socket = std::move(socket), .deadline = Clock::now() + patience, .refusal = std::move(reason)});
        }
    } catch (const Error&) {
        accept_after_ = Clock::now() + accept_pause;
    }
}

// Where there are too many clients, the one that is silent longest goes if it has had its time, and else nobody is taken on for
// a moment.
bool Publisher::Server::make_room() {
    if (clients_.size() < max_clients) return true;
    const auto by_silence = [](const Client& left, const Client& right) { return left.idle_since < right.idle_since; };
    const auto silent = std::min_element(clients_.begin(), clients_.end(), by_silence);
    if (Clock::now() - silent->idle_since < accept_pause) {
        accept_after_ = Clock::now() + accept_pause;
        return false;
    }
    clients_.erase(silent);
    return true;
}

// False where the client is to be dropped.
bool Publisher::Server::go_on(Client& client) {
    try {
        if (client.answer) return send_answer(client);
        const std::optional<Packet> request = receive_packet(client.socket.number(), TakeDescriptors::no);
        if (!request) return true;
        client.idle_since = Clock::now();
        client.deadline = client.idle_since + patience;
        client.answer = client.refusal ? Answer{.bytes = to_bytes(ErrorReply{ErrorCode::unavailable, *client.refusal})}
                                       : answer_to(request->bytes);
        return send_answer(client);
    } catch (const Error&) {
        return false;  // it has closed, or sent what is no message at all
    }
}

bool Publisher::Server::send_answer(Client& client) {
    const std::vector<int> descriptors = client.answer->descriptors();
    if (!send_packet(client.socket.number(), client.answer->bytes, descriptors)) return Clock::now() < client.deadline;
    client.answer.reset();
    return !client.refusal;
}

std::optional<std::string> Publisher::Server::refusal(const PeerCredentials& peer) const {
    if (peer.uid == ::geteuid() || std::find(users_.begin(), users_.end(), peer.uid) != users_.end()) return std::nullopt;
    return fmt::format("user {} may not attach what user {} publishes", peer.uid, ::geteuid());
}

Publisher::Server::Answer Publisher::Server::answer_to(std::span<const std::byte> request) const {
    try {
        const Message message = parse_message(request);
        if (const auto* get = std::get_if<GetRequest>(&message)) return answer_get(*get);
        if (const auto* next = std::get_if<NextRequest>(&message)) return answer_next(*next);
        throw Error(ErrorCode::bad_file, "message, offset 6: a request needed, an answer found");
    } catch (const Error& error) {
        return {.bytes = to_bytes(ErrorReply{.code = error.code(), .text = error.what()})};
    }
}

Publisher::Server::Answer Publisher::Server::answer_get(const GetRequest& request) const {
    std::shared_ptr<const Entry> entry;
    {
        const std::lock_guard lock(mutex_);
        const auto found = entries_.find(request.key);
        if (found != entries_.end()) entry = found->second;
        if (entry == nullptr) {
            std::string keys;
            for (const auto& [key, ignored] : entries_)
                keys += fmt::format("{}{}", keys.empty() ? "" : ", ", key.empty() ? "an array without key" : in_quotes(key));
            throw Error(ErrorCode::unavailable, fmt::format("{} is not published; there is {}",
                                                            request.key.empty() ? "an array without key" : in_quotes(request.key),
                                                            keys.empty() ? "nothing yet" : keys));
        }
    }
    const ArrayReply reply{.descriptor = entry->descriptor.to_bytes(), .has_fence = entry->fence.is_valid()};
    return {.bytes = to_bytes(reply), .entry = entry};
}

Publisher::Server::Answer Publisher::Server::answer_next(const NextRequest& request) const {
    const std::lock_guard lock(mutex_);
    const auto found = request.after ? entries_.upper_bound(*request.after) : entries_.begin();
    if (found == entries_.end()) return {.bytes = to_bytes(EndReply())};
    const Entry& entry = *found->second;
    return {.bytes = to_bytes(EntryReply{.key = found->first,
                                         .dtype = entry.descriptor.dtype(),
                                         .shape = entry.descriptor.shape(),
                                         .size_bytes = entry.descriptor.size_bytes(),
                                         .method = entry.descriptor.method(),
                                         .kind = entry.descriptor.kind(),
                                         .is_writable = entry.descriptor.is_writable(),
                                         .has_fence = entry.fence.is_valid(),
                                         .device = entry.array.memory() ? entry.array.device().spec() : std::string()})};
}

}  // namespace tandem
