// One of the processes of kill_share.py: share_role serve|attach|hold FOLDER NAME DEVICE

#include <unistd.h>
#include <tandem/tandem.hpp>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>

namespace {

using namespace tandem;

constexpr std::int64_t count = 1 << 18;

void say(std::string_view word) {
    std::cout << word << std::endl;
}

// Publishes ones, until its standard input ends.
void serve(const Device& device, const std::string& folder, const std::string& name) {
    Publisher publisher(name, {.folder = folder});
    const Array array = empty_shareable(device, int32, {count});
    std::ranges::fill(array.map<std::int32_t>(Access::write), 1);
    SharedFence fence = SharedFence::create();
    fence.signal(1);
    publisher.add(array, fence);
    say("ready");
    char letter = 0;
    while (::read(STDIN_FILENO, &letter, 1) > 0) {
    }
}

void check(const Device& device, const Attachment& attachment) {
    Queue queue(device);
    attachment.fence.wait(queue, 1);
    if (item<std::int64_t>(queue, sum(queue, attachment.array)) != count) throw Error(ErrorCode::internal, "wrong elements");
}

// Attaches, uses and lets go, for ever.
void attach_for_ever(const Device& device, const std::string& folder, const std::string& name) {
    while (true) {
        check(device, attach_with_fence(device, name, {.folder = folder}));
        say("attached");
    }
}

// Attaches once, and uses that for each line of standard input.
void hold(const Device& device, const std::string& folder, const std::string& name) {
    const Attachment attachment = attach_with_fence(device, name, {.folder = folder});
    say("holds");
    for (std::string line; std::getline(std::cin, line);) {
        check(device, attachment);
        say("right");
    }
    try {
        attachment.fence.wait(2);
    } catch (const Error& error) {
        say(error.what());
    }
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 5) return 2;
    const std::string role = argv[1];
    const Device device = open_device(argv[4]);
    (role == "serve" ? serve : role == "attach" ? attach_for_ever : hold)(device, argv[2], argv[3]);
} catch (const Error& error) {
    std::cerr << argv[1] << ": " << error.what() << "\n";
    return 1;
}
