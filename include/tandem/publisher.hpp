#pragma once
// Arrays under names, for other processes of this machine.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/array.hpp>
#include <tandem/device.hpp>
#include <tandem/fence.hpp>
#include <tandem/share.hpp>

namespace tandem {

/// Where names are published, and for whom.
struct PublisherOptions {
    /// The folder of the sockets. Empty: "tandem" in $XDG_RUNTIME_DIR, or where that is not set, in /run/user/UID if that is this
    /// user's; it is made, for this user alone. Any other folder must be there, and who may reach the socket is also by its
    /// permissions.
    std::filesystem::path folder{};
    /// Users beside this one that may attach, by their numbers.
    std::vector<std::uint32_t> users{};
};

/// Offers arrays to other processes under a name, until it is destroyed.
///
/// It listens on the Unix-domain socket NAME.sock of its folder, in a thread of its own, and hands out descriptors (share.hpp);
/// the elements are never sent. Any number of processes may attach; one that says nothing, nonsense, or does not listen holds
/// nobody up. Who asks is known by the kernel's word (SO_PEERCRED): other users than the allowed ones get an error.
///
/// When it ends the socket goes, and what was attached stays (share.hpp tells for which memory). A process that is killed leaves
/// its socket behind, which the next publisher in the folder, or `published`, removes: NAME.lock, locked by who lives, tells.
/// In a fork's child it does nothing, and its end there removes nothing; a child that outlives its parent does not keep the name.
///
/// Move-only. Thread safe.
class Publisher {
public:
    /// Throws invalid_argument for a name that is empty, starts with a dot, has slashes or control characters, is longer than 100
    /// bytes, or makes the socket's path longer than its address may be (107 bytes); unavailable where a live publisher has the
    /// name, or there is no folder for sockets; io, also for a folder that others may write to.
    /// Native calls: flock, socket(AF_UNIX, SOCK_SEQPACKET), bind, listen, pthread_atfork.
    explicit Publisher(std::string_view name, const PublisherOptions& options = {});
    Publisher(Publisher&& other) noexcept;
    Publisher& operator=(Publisher&& other) noexcept;
    Publisher(const Publisher&) = delete;
    Publisher& operator=(const Publisher&) = delete;
    ~Publisher();

    /// Offers `array`, which is kept alive, as NAME, or as NAME/KEY. Its elements are what others see from then on, also before
    /// pending work on it is done: order that by a fence. Throws as `share`; invalid_argument for a key that is in use, or is no
    /// name.
    void add(const Array& array, std::string_view key = {}, const ShareOptions& options = {});
    /// The same with a fence, which goes along.
    void add(const Array& array, const SharedFence& fence, std::string_view key = {}, const ShareOptions& options = {});
    /// The same for what someone else shares, by a handle for example. The memory that it is of is the caller's to keep.
    void add(const ShareDescriptor& descriptor, const SharedFence& fence = {}, std::string_view key = {});

    /// Takes an array back; what is attached stays. Throws out_of_range where there is none of that key.
    void remove(std::string_view key = {});

    [[nodiscard]] const std::string& name() const;
    /// Of the socket.
    [[nodiscard]] const std::filesystem::path& path() const;

private:
    class Server;
    [[nodiscard]] Server& server() const;

    std::unique_ptr<Server> server_;
};

/// Where a name is looked for, and whom it is taken from.
struct AttachOptions {
    /// As the publisher's.
    std::filesystem::path folder{};
    /// Users beside this one whose arrays are attached, by their numbers. What they publish may change at any moment.
    std::vector<std::uint32_t> users{};
    /// How long a publisher may take to answer.
    std::chrono::milliseconds timeout{5000};
};

/// What was published together.
struct Attachment {
    Array array;
    SharedFence fence;  ///< not valid where there is none
};

/// The array that is published as `name`, or "NAME/KEY", on `device`. Throws as `attach` of a descriptor (share.hpp), and
/// unavailable where nobody publishes it, or does not answer in time, or refuses; io where the connection breaks; bad_file,
/// naming what was needed and found, for an answer that is none; invalid_argument for what can't be a name.
Array attach(const Device& device, std::string_view name, const AttachOptions& options = {});
/// The same with the fence.
Attachment attach_with_fence(const Device& device, std::string_view name, const AttachOptions& options = {});

/// What is known of a published array without attaching it.
struct PublishedInfo {
    std::string name;  ///< what `attach` takes: NAME or NAME/KEY
    DType dtype = DType::uint8;
    Shape shape{};
    std::uint64_t size_bytes = 0;  ///< of the memory that is shared
    ShareMethod method = ShareMethod::host_memory;
    MemoryKind kind = MemoryKind::device;  ///< on the publisher's side
    std::string device{};                  ///< the publisher's, such as "cuda:0"; empty where it is not known
    bool is_writable = true;               ///< for who attaches
    bool has_fence = false;
    int pid = 0;               ///< the publisher's process; 0 where it is of a PID namespace that is not seen from here
    std::uint32_t user = 0;    ///< its user
    bool is_answering = true;  ///< false: it did not in time, and nothing but its name, process and user is known
};

/// All that is published in a folder and may be attached, by name. All publishers are asked at once: one that is stopped holds
/// up the list for `timeout`, however many are, and is told as one that does not answer. Throws io, unavailable where there is no
/// folder for sockets.
std::vector<PublishedInfo> published(const AttachOptions& options = {});
/// What `name` publishes, in the order of its keys; for "NAME/KEY" that array alone. Throws as `attach`.
std::vector<PublishedInfo> published(std::string_view name, const AttachOptions& options = {});

}  // namespace tandem
