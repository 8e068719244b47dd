// Work that is pending when main returns is finished by what lies in static storage, whatever else goes at exit:
//   tandem_work_at_exit SPEC [times]
// Each time is a process of its own. The first compiles its kernels, since what a compiler leaves behind goes at exit too; the
// others find them in the cache.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "tandem/tandem.hpp"

namespace {

constexpr int additions = 2000;

// Destroyed after the queue, since it is constructed before: what the queue was given must be done.
struct Result {
    std::optional<tandem::Array> sum;

    Result() = default;
    Result(const Result&) = delete;
    Result& operator=(const Result&) = delete;
    ~Result() {
        if (!sum) return;
        bool is_right = false;
        try {
            const auto view = sum->map<std::int32_t>(tandem::Access::read);
            is_right = std::all_of(view.begin(), view.end(), [](std::int32_t value) { return value == additions; });
        } catch (const std::exception& error) {
            std::fprintf(stderr, "%s\n", error.what());
        }
        if (!is_right) _exit(3);
    }
} result;

std::optional<tandem::Device> device;
std::optional<tandem::Queue> queue;
tandem::Array sum, one;

// An empty one, for this run alone.
class CacheFolder {
public:
    CacheFolder() {
        path_ = (std::filesystem::temp_directory_path() / "tandem-exit-XXXXXX").string();
        if (mkdtemp(path_.data()) == nullptr) std::perror("mkdtemp");
        setenv("XDG_CACHE_HOME", path_.c_str(), 1);
    }
    ~CacheFolder() {
        if (getpid() == owner_) std::filesystem::remove_all(path_);
    }
    CacheFolder(const CacheFolder&) = delete;
    CacheFolder& operator=(const CacheFolder&) = delete;

private:
    std::string path_;
    pid_t owner_ = getpid();
};

void submit(const char* spec) {
    device = tandem::open_device(spec);
    queue.emplace(*device);
    sum = tandem::empty(*device, tandem::int32, {50'000});
    one = tandem::empty_like(sum);
    for (const auto& [array, value] : {std::pair(sum, 0), std::pair(one, 1)}) {
        const auto view = array.map<std::int32_t>(tandem::Access::write);
        std::fill(view.begin(), view.end(), value);
    }
    for (int i = 0; i < additions; ++i)
        tandem::add(*queue, sum, one, sum);
    result.sum = sum;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: %s SPEC [times]\n", argv[0]);
        return 2;
    }
    const int times = argc > 2 ? std::atoi(argv[2]) : 1;
    const CacheFolder cache;
    for (int i = 0; i < times; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            try {
                submit(argv[1]);
            } catch (const std::exception& error) {
                std::fprintf(stderr, "%s\n", error.what());
                return 1;
            }
            return 0;
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            std::fprintf(stderr, "time %d of %d: status %#x\n", i + 1, times, static_cast<unsigned>(status));
            return 1;
        }
    }
    return 0;
}
