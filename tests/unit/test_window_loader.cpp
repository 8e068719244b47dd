// Loads whose bytes come from the file's own pages at one end, and through the ring at the other. The host stands in for a device
// that copies both.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/device_state.hpp"
#include "core/transport/window_loader.hpp"
#include "expect_error.hpp"
#include "scratch_folder.hpp"
#include "tandem/tandem.hpp"

namespace tandem::test {
namespace {

// The host's device, asked whether it takes a window.
class AskedDevice final : public driver::Device {
public:
    explicit AskedDevice(std::shared_ptr<driver::Device> native) : native_(std::move(native)) {}
    [[nodiscard]] const DeviceInfo& info() const noexcept override { return native_->info(); }
    std::shared_ptr<driver::Memory> allocate(std::size_t size_bytes, MemoryKind kind) override {
        return native_->allocate(size_bytes, kind);
    }
    std::shared_ptr<driver::Memory> adopt(const driver::HostRange& range) override {
        if (adopting) adopting(windows++);
        return native_->adopt(range);
    }
    std::shared_ptr<driver::Queue> make_queue() override { return native_->make_queue(); }

    std::function<void(int)> adopting;
    int windows = 0;

private:
    const std::shared_ptr<driver::Device> native_;
};

struct Stage {
    std::shared_ptr<AskedDevice> native = std::make_shared<AskedDevice>(open_device("host").state()->native);
    Device device{std::make_shared<DeviceState>(native)};
    TransferOptions options;
    std::vector<std::pair<std::size_t, std::size_t>> queued;
    Array array;

    LoadPart load(const MappedFile& file, std::uint64_t offset_bytes, std::size_t size_bytes, std::size_t item_bytes,
                  unsigned readers) {
        set_transfer_limits(device, {4, 1, 65536});
        queued.clear();
        native->windows = 0;
        const Buffer buffer(device, size_bytes);
        std::memset(buffer.map(Access::write).data(), 0xee, size_bytes);
        array = Array(buffer, uint8, {static_cast<std::int64_t>(size_bytes)});
        Meter meter(options, size_bytes);
        return load_by_windows({file, offset_bytes, array, item_bytes,
                                [this](std::size_t begin, std::size_t size) { queued.emplace_back(begin, size); }, 131072},
                               readers, meter);
    }

    // That each byte outside `left` is the content's and was told of once, in whole items, and each inside is untouched.
    void check(const std::string& content, std::uint64_t offset_bytes, const LoadPart& left, std::size_t item_bytes) {
        // At once, and not by a view, which would wait.
        const auto* const found = reinterpret_cast<const char*>(array.memory()->host_address());
        const std::size_t size = array.size_bytes();
        CHECK(std::memcmp(found, content.data() + offset_bytes, left.begin_bytes) == 0);
        CHECK(std::memcmp(found + left.end_bytes, content.data() + offset_bytes + left.end_bytes, size - left.end_bytes) == 0);
        CHECK(std::all_of(found + left.begin_bytes, found + left.end_bytes, [](char byte) { return byte == '\xee'; }));
        std::sort(queued.begin(), queued.end());
        std::size_t at = 0;
        for (const auto& [begin, bytes] : queued) {
            if (at == left.begin_bytes) at = left.end_bytes;
            CHECK(begin == at);
            CHECK(begin % item_bytes == 0);
            CHECK(bytes % item_bytes == 0);
            at = begin + bytes;
        }
        CHECK((at == size || (at == left.begin_bytes && left.end_bytes == size)));
    }

    void check_ring_is_whole() {
        const std::shared_ptr<Ring> ring = device.state()->transport.ring();
        std::vector<Ring::Slot> slots;
        while (slots.size() < ring->count())
            slots.push_back(ring->take());
        CHECK_FALSE(ring->try_take());
    }
};

std::string noise(std::size_t size_bytes) {
    std::mt19937 random(11);
    std::string bytes(size_bytes, '\0');
    for (char& byte : bytes)
        byte = static_cast<char>(random());
    return bytes;
}

}  // namespace

TEST_CASE("windows and readers meet, whatever the sizes are") {
    const ScratchFolder folder;
    const std::string content = noise(3'000'000);
    const MappedFile file = MappedFile::open(folder.write("a", content));
    Stage stage;
    for (const unsigned readers : {0U, 1U, 3U}) {
        for (const std::size_t item_bytes : {1U, 8U, 12U, 100'000U}) {
            for (const std::uint64_t offset_bytes : {0U, 83U, 4096U, 130'000U}) {
                for (const std::size_t count : {std::size_t{1}, 200'000 / item_bytes + 1, 2'500'000 / item_bytes}) {
                    CAPTURE(readers);
                    CAPTURE(item_bytes);
                    CAPTURE(offset_bytes);
                    const std::size_t size = count * item_bytes;
                    const LoadPart left = stage.load(file, offset_bytes, size, item_bytes, readers);
                    CHECK(left.begin_bytes == left.end_bytes);
                    stage.check(content, offset_bytes, left, item_bytes);
                }
            }
        }
    }
    stage.check_ring_is_whole();
}

TEST_CASE("readers take part while windows are adopted") {
    const ScratchFolder folder;
    const std::string content = noise(3'000'000);
    const MappedFile file = MappedFile::open(folder.write("a", content));
    Stage stage;
    stage.native->adopting = [](int) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
    const LoadPart left = stage.load(file, 83, 2'900'000, 8, 2);
    stage.check(content, 83, left, 8);
    // Alone, the windows would be 23.
    CHECK(stage.native->windows < 23);
}

TEST_CASE("a device that takes no more windows leaves the middle") {
    const ScratchFolder folder;
    const std::string content = noise(3'000'000);
    const MappedFile file = MappedFile::open(folder.write("a", content));
    Stage stage;
    for (const ErrorCode code : {ErrorCode::unsupported, ErrorCode::out_of_memory}) {
        for (const unsigned readers : {0U, 2U}) {
            for (const int taken : {0, 1, 5}) {
                stage.native->adopting = [&](int window) {
                    if (window == taken) throw Error(code, "no more");
                };
                const LoadPart left = stage.load(file, 83, 2'900'000, 100, readers);
                stage.check(content, 83, left, 100);
                if (readers == 0) {
                    CHECK(left.end_bytes == 2'900'000);
                    CHECK((taken == 0) == (left.begin_bytes == 0));
                }
            }
        }
    }
    // Other failures are the caller's to hear.
    stage.native->adopting = [](int window) {
        if (window == 2) throw Error(ErrorCode::device_lost, "gone");
    };
    expect_error(ErrorCode::device_lost, {"gone"}, [&] {
        stage.load(file, 83, 2'900'000, 100, 2);
        return 0;
    });
    stage.check_ring_is_whole();
}

TEST_CASE("a reader's failure and a cancellation end a load by windows") {
    const ScratchFolder folder;
    const std::filesystem::path path = folder.write("a", noise(3'000'000));
    const MappedFile file = MappedFile::open(path);
    Stage stage;
    std::stop_source stop;
    stage.options.stop = stop.get_token();
    stage.native->adopting = [&](int window) {
        if (window == 3) stop.request_stop();
    };
    expect_error(ErrorCode::cancelled, {}, [&] {
        stage.load(file, 0, 3'000'000, 1, 2);
        return 0;
    });
    stage.check_ring_is_whole();

    // The end is gone before a reader comes to it; the windows would take their time.
    stage.options.stop = {};
    REQUIRE(::truncate(path.c_str(), 2'950'000) == 0);
    stage.native->adopting = [](int) { std::this_thread::sleep_for(std::chrono::milliseconds(30)); };
    expect_error(ErrorCode::bad_file, {"offset 2934464", "needed"}, [&] {
        stage.load(file, 0, 3'000'000, 1, 1);
        return 0;
    });
    CHECK(stage.native->windows < 23);
    stage.check_ring_is_whole();
}

}  // namespace tandem::test
