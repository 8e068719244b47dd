#include "core/share/process_watch.hpp"

#include <poll.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "core/share/process_local.hpp"
#include "core/share/quiet_thread.hpp"
#include "core/share/wake_event.hpp"

namespace tandem {

struct ProcessWatch::Entry {
    Entry(const ProcessIdentity& watched, std::function<void()> then) : process(watched), on_end(std::move(then)) {}

    WatchedProcess process;
    std::function<void()> on_end;
    std::atomic<bool> is_told{false};
    std::atomic<bool> is_dropped{false};
};

namespace {

using Entries = std::vector<std::shared_ptr<ProcessWatch::Entry>>;

// The thread that waits for all processes that are watched.
class Watcher {
public:
    Watcher() : thread_(start_quiet_thread([this] { work(); })) {}
    ~Watcher() {
        {
            const std::lock_guard lock(mutex_);
            ending_ = true;
        }
        changed_.wake();
        thread_.join();
    }
    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;

    void add(std::shared_ptr<ProcessWatch::Entry> entry) {
        {
            const std::lock_guard lock(mutex_);
            entries_.push_back(std::move(entry));
        }
        changed_.wake();
    }
    void look_again() const noexcept { changed_.wake(); }

private:
    void work() {
        while (true) {
            Entries entries;
            {
                const std::lock_guard lock(mutex_);
                if (ending_) return;
                std::erase_if(entries_, [](const auto& entry) { return entry->is_dropped || entry->is_told; });
                entries = entries_;
            }
            std::vector<pollfd> polled{{.fd = changed_.number(), .events = POLLIN, .revents = 0}};
            for (const auto& entry : entries)
                polled.push_back({.fd = entry->process.descriptor(), .events = POLLIN, .revents = 0});
            const bool any = ::poll(polled.data(), polled.size(), -1) > 0;
            changed_.clear();
            for (std::size_t i = 0; any && i < entries.size(); ++i) {
                if (polled[i + 1].revents == 0) continue;
                entries[i]->is_told = true;
                if (!entries[i]->is_dropped) entries[i]->on_end();
            }
        }
    }

    std::mutex mutex_;
    Entries entries_;
    bool ending_ = false;
    WakeEvent changed_;
    std::thread thread_;
};

}  // namespace

ProcessWatch::ProcessWatch(const ProcessIdentity& process, std::function<void()> on_end)
    : entry_(std::make_shared<Entry>(process, std::move(on_end))) {
    if (!needs_asking()) ProcessLocal<Watcher>::instance().add(entry_);
}

ProcessWatch::~ProcessWatch() {
    entry_->is_dropped = true;
    // Its descriptor goes with the watcher's next look.
    ProcessLocal<Watcher>::with_present([](Watcher& watcher) { watcher.look_again(); });
}

const WatchedProcess& ProcessWatch::process() const noexcept {
    return entry_->process;
}

bool ProcessWatch::needs_asking() const noexcept {
    return entry_->process.descriptor() < 0;
}

}  // namespace tandem
