// Sockets that are spoken to, and answered, by who means no good: errors, and nothing left open.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <tandem/tandem.hpp>

#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/share/message.hpp"
#include "core/share/names.hpp"
#include "core/share/socket.hpp"
#include "expect_error.hpp"
#include "scratch_folder.hpp"

namespace {

using namespace tandem;
using namespace tandem::test;
using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;

Deadline soon() {
    return std::chrono::steady_clock::now() + 30s;
}

Bytes bytes_of(std::string_view text) {
    const auto bytes = as_bytes(text);
    return {bytes.begin(), bytes.end()};
}

// Sends without any of the limits that `send_packet` keeps. The error, or 0.
int send_raw(int socket, const Bytes& bytes, const std::vector<int>& descriptors) {
    iovec part{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
    std::vector<std::byte> control(CMSG_SPACE(sizeof(int) * descriptors.size()));
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
        std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof(int) * descriptors.size());
    }
    return ::sendmsg(socket, &message, MSG_NOSIGNAL) < 0 ? errno : 0;
}

// Answers each request on a connection by what `answer` does to the socket.
class FakePublisher {
public:
    FakePublisher(const ScratchFolder& folder, std::string_view name, std::function<void(int)> answer)
        : listener_(listen_at(socket_path(folder.path(), name), 0600)),
          thread_([this, answer] {
              while (wait_ready(listener_.number(), POLLIN, Deadline::max())) {
                  const auto socket = accept_from(listener_.number());
                  if (!socket || ending_) return;
                  while (wait_ready(socket->number(), POLLIN, soon())) {
                      try {
                          if (receive_packet(socket->number(), TakeDescriptors::no)) answer(socket->number());
                      } catch (const Error&) {
                          break;
                      }
                  }
              }
          }),
          path_(socket_path(folder.path(), name)) {}
    ~FakePublisher() {
        ending_ = true;
        const auto wake = connect_to(path_, soon());
        thread_.join();
        ::unlink(path_.c_str());
    }
    FakePublisher(const FakePublisher&) = delete;
    FakePublisher& operator=(const FakePublisher&) = delete;

private:
    std::atomic<bool> ending_ = false;
    FileDescriptor listener_;
    std::thread thread_;
    std::filesystem::path path_;
};

// Valid messages of each kind, to be spoilt.
std::vector<Message> samples() {
    return {
        GetRequest{"key"},
        NextRequest{},
        NextRequest{"key"},
        ArrayReply{.descriptor = Bytes(100), .has_fence = true},
        EntryReply{.key = "key", .dtype = complex64, .shape = {3, 0, 5}, .size_bytes = 7, .has_fence = true, .device = "cuda:0"},
        EndReply{},
        ErrorReply{ErrorCode::io, "text"}};
}

}  // namespace

TEST_CASE("messages come out as they went in") {
    for (const Message& message : samples()) {
        CAPTURE(message.index());
        const Bytes bytes = to_bytes(message);
        const Message found = parse_message(bytes);
        CHECK(found.index() == message.index());
        CHECK(to_bytes(found) == bytes);
    }
    const auto found = std::get<EntryReply>(parse_message(to_bytes(samples()[4])));
    CHECK(found.shape == Shape{3, 0, 5});
    CHECK(found.dtype == complex64);
    CHECK(found.device == "cuda:0");
    CHECK(std::get<NextRequest>(parse_message(to_bytes(NextRequest{""}))).after == "");
    const Message shouted = ErrorReply{ErrorCode::io, std::string(100'000, 'x') + "\n"};
    CHECK(to_bytes(shouted).size() < 4096);
    CHECK(std::get<ErrorReply>(parse_message(to_bytes(ErrorReply{ErrorCode::io, "two\nlines"}))).text == "two\\nlines");
}

TEST_CASE("a spoilt message is an error or another message, never more") {
    expect_error(ErrorCode::bad_file, {"offset 0", "1 bytes needed, 0 found"}, [] { return parse_message({}); });
    expect_error(ErrorCode::bad_file, {"offset 0"}, [] { return parse_message(bytes_of("GET / HTTP/1.0\r\n\r\n")); });
    std::mt19937 random(7);
    for (const Message& message : samples()) {
        const Bytes bytes = to_bytes(message);
        for (std::size_t size = 0; size < bytes.size(); ++size)
            expect_error(ErrorCode::bad_file, {"message, offset"}, [&] { return parse_message(std::span(bytes).first(size)); });
        Bytes longer = bytes;
        longer.push_back(std::byte{0});
        expect_error(ErrorCode::bad_file, {"its end needed, 1 bytes found"}, [&] { return parse_message(longer); });
        Bytes newer = bytes;
        newer[4] = std::byte{2};
        expect_error(ErrorCode::unsupported, {"version 1 needed, 2 found"}, [&] { return parse_message(newer); });
        for (int attempt = 0; attempt < 2000; ++attempt) {
            Bytes spoilt = bytes;
            for (unsigned i = random() % 4; i < 4; ++i)
                spoilt[random() % spoilt.size()] = static_cast<std::byte>(random());
            try {
                static_cast<void>(parse_message(spoilt));
            } catch (const Error& error) {
                const bool is_known = error.code() == ErrorCode::bad_file || error.code() == ErrorCode::unsupported;
                CHECK(is_known);
            }
        }
    }
    Bytes unknown = to_bytes(EndReply{});
    unknown[6] = std::byte{200};
    expect_error(ErrorCode::bad_file, {"a type below 6 needed, 200 found"}, [&] { return parse_message(unknown); });
    Bytes slashed = to_bytes(GetRequest{"a-b"});
    slashed[slashed.size() - 2] = std::byte{'/'};
    expect_error(ErrorCode::bad_file, {"slashes"}, [&] { return parse_message(slashed); });
}

TEST_CASE("clients that send nonsense, or nothing, or don't listen, hold nobody up") {
    const ScratchFolder folder;
    const AttachOptions where{.folder = folder.path(), .timeout = 30s};
    const Device device = open_device("host");
    const std::size_t before = open_descriptors();
    {
        Publisher publisher("a", {.folder = folder.path()});
        publisher.add(empty_shareable(device, float32, {1000}));
        const auto connect = [&] { return std::move(*connect_to(publisher.path(), soon())); };
        const auto check = [&] { CHECK(attach(device, "a", where).count() == 1000); };

        std::vector<FileDescriptor> silent;
        for (int i = 0; i < 300; ++i)
            silent.push_back(connect());
        check();
        for (const std::size_t size : {1U, 7U, 8U, 100U, 65536U, 65537U, 150000U}) {
            CAPTURE(size);
            const FileDescriptor client = connect();
            CHECK(send_raw(client.number(), Bytes(size, std::byte{0xA5}), {}) == 0);
            REQUIRE(wait_ready(client.number(), POLLIN, soon()));
            try {
                const auto answer = receive_packet(client.number(), TakeDescriptors::yes);
                REQUIRE(answer.has_value());
                CHECK(std::holds_alternative<ErrorReply>(parse_message(answer->bytes)));
            } catch (const Error& error) {
                CHECK(error.code() == ErrorCode::io);  // it hung up
            }
            check();
        }
        // Answers are no requests; descriptors are not wanted.
        const FileDescriptor client = connect();
        const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
        for (const Message& message : samples()) {
            CHECK(send_raw(client.number(), to_bytes(message), std::vector<int>(100, null)) == 0);
            REQUIRE(wait_ready(client.number(), POLLIN, soon()));
            const auto answer = receive_packet(client.number(), TakeDescriptors::yes);
            REQUIRE(answer.has_value());
            const Message found = parse_message(answer->bytes);
            const bool is_listed = std::holds_alternative<NextRequest>(message);
            CHECK(std::holds_alternative<ErrorReply>(found) != is_listed);
        }
        ::close(null);
        // Requests without end, and no answer taken.
        const FileDescriptor deaf = connect();
        const Bytes request = to_bytes(GetRequest{});
        for (int i = 0; i < 10'000; ++i) {
            iovec part{.iov_base = const_cast<std::byte*>(request.data()), .iov_len = request.size()};
            msghdr message{};
            message.msg_iov = &part;
            message.msg_iovlen = 1;
            if (::sendmsg(deaf.number(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
        }
        check();
        // Gone before the answer.
        for (int i = 0; i < 100; ++i) {
            const FileDescriptor hasty = connect();
            CHECK(send_raw(hasty.number(), request, {}) == 0);
        }
        check();
    }
    CHECK(open_descriptors() == before);
    CHECK(folder.names().empty());
}

TEST_CASE("publishers that answer nonsense are errors, and nothing of what they sent stays open") {
    const ScratchFolder folder;
    const AttachOptions where{.folder = folder.path(), .timeout = 30s};
    const Device device = open_device("host");
    const Array array = empty_shareable(device, int16, {100});
    const ShareDescriptor descriptor = share(array);
    const std::vector<int> files = descriptor.file_descriptors();
    REQUIRE(files.size() == 1);
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    const auto sends = [&](const Bytes& bytes, std::vector<int> descriptors) {
        return [bytes, descriptors](int socket) { send_raw(socket, bytes, descriptors); };
    };
    const auto expect = [&](ErrorCode code, std::initializer_list<std::string_view> parts,
                            const std::function<void(int)>& answer) {
        const std::size_t before = open_descriptors();
        {
            const FakePublisher fake(folder, "fake", answer);
            expect_error(code, parts, [&] { return attach(device, "fake", where); });
            CHECK(published(where).empty());
        }
        CHECK(open_descriptors() == before);
    };
    const std::string self = "process " + std::to_string(::getpid());
    const Bytes good = to_bytes(ArrayReply{.descriptor = descriptor.to_bytes()});
    const Bytes with_fence = to_bytes(ArrayReply{.descriptor = descriptor.to_bytes(), .has_fence = true});

    expect(ErrorCode::bad_file, {"'fake'", self, "message, offset 0"}, sends(bytes_of("hello"), {}));
    expect(ErrorCode::bad_file, {"'fake'", self, "message, offset 0"}, sends(bytes_of("hello"), {null, null, null}));
    expect(ErrorCode::bad_file, {"65536 bytes needed"}, sends(Bytes(65537), {null}));
    expect(ErrorCode::bad_file, {"at most 16 descriptors"}, sends(good, std::vector<int>(17, null)));
    expect(ErrorCode::bad_file, {"at most 16 descriptors"}, sends(good, std::vector<int>(253, files[0])));
    expect(ErrorCode::bad_file, {"an answer to the request needed"}, sends(to_bytes(EndReply{}), {null}));
    expect(ErrorCode::bad_file, {"an answer to the request needed"}, sends(to_bytes(GetRequest{}), {}));
    expect(ErrorCode::out_of_memory, {"'fake'", self, "none left"},
           sends(to_bytes(ErrorReply{ErrorCode::out_of_memory, "none left"}), {}));
    expect(ErrorCode::invalid_argument, {"'fake'", self}, sends(good, {}));
    expect(ErrorCode::invalid_argument, {"'fake'", self}, sends(good, {files[0], files[0]}));
    expect(ErrorCode::bad_file, {"'fake'", self}, sends(good, {null}));
    expect(ErrorCode::bad_file, {"fence", "none found"}, sends(with_fence, {}));
    expect(ErrorCode::bad_file, {"fence", "memfd"}, sends(with_fence, {files[0], null}));
    expect(ErrorCode::bad_file, {"fence", "4096"}, sends(with_fence, {files[0], files[0]}));
    Bytes spoilt = good;
    spoilt.resize(spoilt.size() - 1);
    expect(ErrorCode::bad_file, {"offset"}, sends(spoilt, {files[0]}));
    expect(ErrorCode::io, {"'fake'", self, "closed"}, [](int socket) { ::shutdown(socket, SHUT_RDWR); });
    ::close(null);
}

TEST_CASE("a publisher that does not answer is waited for as long as the caller says") {
    const ScratchFolder folder;
    const Device device = open_device("host");
    const std::size_t before = open_descriptors();
    {
        const FakePublisher fake(folder, "fake", [](int) {});
        const AttachOptions where{.folder = folder.path(), .timeout = 20ms};
        expect_error(ErrorCode::unavailable, {"'fake'", "no answer within 20 ms"}, [&] { return attach(device, "fake", where); });
        const std::vector<PublishedInfo> infos = published(where);
        REQUIRE(infos.size() == 1);
        CHECK(infos[0].name == "fake");
        CHECK(infos[0].pid == ::getpid());
        CHECK(infos[0].user == ::geteuid());
        CHECK_FALSE(infos[0].is_answering);
    }
    {
        // Nobody even takes the connections on.
        const FileDescriptor listener = listen_at(folder / "full.sock", 0600);
        std::vector<FileDescriptor> queued;
        const AttachOptions where{.folder = folder.path(), .timeout = 20ms};
        const int failures = [&] {
            for (int i = 0; i < 10'000; ++i) {
                try {
                    queued.push_back(std::move(*connect_to(folder / "full.sock", std::chrono::steady_clock::now())));
                } catch (const Error&) {
                    return 1;
                }
            }
            return 0;
        }();
        if (failures == 1) {
            expect_error(ErrorCode::unavailable, {"full.sock"}, [&] { return attach(device, "full", where); });
            const std::vector<PublishedInfo> infos = published(where);
            REQUIRE(infos.size() == 1);
            CHECK_FALSE(infos[0].is_answering);
        }
    }
    CHECK(open_descriptors() == before);
}

TEST_CASE("publishers that do not answer are waited for side by side") {
    const ScratchFolder folder;
    const Device device = open_device("host");
    std::vector<std::unique_ptr<FakePublisher>> silent;
    for (const char* name : {"a", "c", "d", "e", "f", "g", "h", "i"})
        silent.push_back(std::make_unique<FakePublisher>(folder, name, [](int) {}));
    Publisher publisher("b", {.folder = folder.path()});
    for (const char* key : {"x", "y", "z"})
        publisher.add(empty_shareable(device, int32, {3}), key);
    const auto start = std::chrono::steady_clock::now();
    const std::vector<PublishedInfo> infos = published({.folder = folder.path(), .timeout = 1s});
    CHECK(std::chrono::steady_clock::now() - start < 4s);
    std::string names;
    for (const PublishedInfo& info : infos)
        names += info.name + (info.is_answering ? "+" : "-");
    CHECK(names == "a-b/x+b/y+b/z+c-d-e-f-g-h-i-");
}

TEST_CASE("keys that do not come in order end the list") {
    const ScratchFolder folder;
    const FakePublisher fake(folder, "fake", [](int socket) {
        send_raw(socket, to_bytes(EntryReply{.key = "same", .shape = {1}, .device = {}}), {});
    });
    expect_error(ErrorCode::bad_file, {"'fake'", "a key behind 'same' needed, 'same' found"},
                 [&] { return published("fake", {.folder = folder.path()}); });
}
