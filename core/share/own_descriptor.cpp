#include "core/share/own_descriptor.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "tandem/error.hpp"

namespace tandem {
namespace {

// The numbers of all that are open. Held by who forks, so that the child finds it whole.
struct Table {
    std::mutex mutex;
    std::vector<int> numbers;

    Table();
};

Table& table() {
    static auto* const table = new Table;  // never destroyed: descriptors in static storage are closed at any time
    return *table;
}

// In the child of a process with threads: nothing but system calls.
void let_go_in_child() {
    Table& all = table();
    const int nothing = all.numbers.empty() ? -1 : ::eventfd(0, EFD_CLOEXEC);
    for (const int number : all.numbers) {
        // Without anything to put there, the number is free for whatever is opened next, which is better than to hold a lock.
        if (nothing < 0 || ::dup3(nothing, number, O_CLOEXEC) < 0) ::close(number);
    }
    if (nothing >= 0) ::close(nothing);
    all.numbers.clear();
    all.mutex.unlock();
}

Table::Table() {
    const int error = ::pthread_atfork([] { table().mutex.lock(); }, [] { table().mutex.unlock(); }, [] { let_go_in_child(); });
    if (error != 0) throw Error(ErrorCode::io, fmt::format("pthread_atfork: {}", std::generic_category().message(error)), error);
}

}  // namespace

OwnDescriptor::Opening::Opening() {
    Table& all = table();
    std::unique_lock lock(all.mutex);
    all.numbers.reserve(all.numbers.size() + 1);  // once it is open, nothing may fail
    lock.release();
}

OwnDescriptor::Opening::~Opening() {
    table().mutex.unlock();
}

void OwnDescriptor::enter() noexcept {
    if (file_.is_open()) table().numbers.push_back(file_.number());
}

void OwnDescriptor::reset() noexcept {
    if (!file_.is_open()) return;
    // Under the lock: the number is not another one's before it is forgotten.
    const std::lock_guard lock(table().mutex);
    std::erase(table().numbers, file_.number());
    file_.reset();
}

}  // namespace tandem
