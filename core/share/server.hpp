#pragma once
// The serving side of a publisher.

#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/share/message.hpp"
#include "core/share/names.hpp"
#include "core/share/own_descriptor.hpp"
#include "core/share/socket.hpp"
#include "core/share/wake_event.hpp"
#include "tandem/publisher.hpp"

namespace tandem {

/// Listens, answers, and keeps what is published. One thread serves all clients; none can hold it up: sockets don't block, a
/// client has room for one answer, and who does not go on in time is dropped.
class Publisher::Server {
public:
    Server(std::string_view name, const PublisherOptions& options);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    struct Entry {
        Array array;  // keeps the memory; `Array()` where that is the caller's
        ShareDescriptor descriptor;
        SharedFence fence;
    };

    void add(std::string_view key, Entry entry);
    void remove(std::string_view key);

    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return lock_.socket_path(); }

private:
    struct Answer {
        std::vector<std::byte> bytes;
        std::shared_ptr<const Entry> entry{};  // its descriptors go along

        [[nodiscard]] std::vector<int> descriptors() const;
    };
    struct Client {
        OwnDescriptor socket;
        Deadline deadline;
        std::optional<std::string> refusal{};  // why it gets nothing else
        std::optional<Answer> answer{};        // to be sent
        Deadline idle_since = std::chrono::steady_clock::now();
    };

    void work() noexcept;
    void accept_clients();
    bool make_room();
    bool go_on(Client& client);
    bool send_answer(Client& client);
    [[nodiscard]] Answer answer_to(std::span<const std::byte> request) const;
    [[nodiscard]] Answer answer_get(const GetRequest& request) const;
    [[nodiscard]] Answer answer_next(const NextRequest& request) const;
    [[nodiscard]] std::optional<std::string> refusal(const PeerCredentials& peer) const;

    const std::string name_;
    const std::vector<std::uint32_t> users_;
    const pid_t process_;
    NameLock lock_;
    OwnDescriptor listener_;
    WakeEvent stop_;
    mutable std::mutex mutex_;  // guards what follows
    std::map<std::string, std::shared_ptr<const Entry>, std::less<>> entries_;
    // The thread's own.
    std::list<Client> clients_;
    Deadline accept_after_{};  // where there were no descriptors left
    std::thread thread_;
};

}  // namespace tandem
