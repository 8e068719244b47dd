#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/disk_cache.hpp"
#include "scratch_folder.hpp"

namespace fs = std::filesystem;
using tandem::DiskCache;
using tandem::test::read_text;
using tandem::test::ScratchFolder;

namespace {

std::vector<std::byte> bytes(std::size_t count, int seed = 0) {
    std::vector<std::byte> made(count);
    for (std::size_t i = 0; i < count; ++i)
        made[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(seed));
    return made;
}

std::vector<fs::path> files(const fs::path& directory) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(directory))
        found.push_back(entry.path());
    return found;
}

void write(const fs::path& path, std::string_view content) {
    std::ofstream(path, std::ios::binary) << content;
}

unsigned mode(const fs::path& path) {
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    return status.st_mode & 0777U;
}

}  // namespace

TEST_CASE("disk cache: sources that read files") {
    for (const char* source : {"#include \"a.h\"", "int x;\n  #  include <a.h>\n", "#\tinclude NAME", "# /* why */ include \"a\"",
                               "#\\\ninclude <a>", "#inc\\\nlude <a>", "%: include <a>", "#include_next <a>", "#import <a>",
                               "#embed <a>", "#if __has_include(<a.h>)", "-DA -include a.h", "--pre-include=a.h"}) {
        CAPTURE(source);
        CHECK(tandem::reads_files(source));
    }
    for (const char* source : {"", "#", "int include;", "# define include_it 1", "// includes nothing", "#pragma once",
                               "#def\\\nine A", "#define A(x) #x", "-I/usr/include -cl-std=CL2.0", "/* # */"}) {
        CAPTURE(source);
        CHECK_FALSE(tandem::reads_files(source));
    }
}

TEST_CASE("disk cache: what is stored is loaded, under its key alone") {
    const ScratchFolder folder;
    const DiskCache cache(folder.path() / "a" / "b");
    CHECK_FALSE(cache.load("key").has_value());
    cache.store("key", bytes(1000));
    cache.store("key 2", bytes(10, 3));
    cache.store("", {});
    CHECK(cache.load("key") == bytes(1000));
    CHECK(cache.load("key 2") == bytes(10, 3));
    CHECK(cache.load("") == bytes(0));
    CHECK_FALSE(cache.load("ke").has_value());
    CHECK(DiskCache(folder.path() / "a" / "b").load("key") == bytes(1000));
    cache.store("key", bytes(5, 9));
    CHECK(cache.load("key") == bytes(5, 9));
    CHECK(files(folder.path() / "a" / "b").size() == 3);
}

TEST_CASE("disk cache: folders and entries are for their owner alone") {
    const ScratchFolder folder;
    const DiskCache cache(folder.path() / "a" / "b");
    cache.store("key", bytes(10));
    CHECK(mode(folder.path() / "a") == 0700);
    CHECK(mode(folder.path() / "a" / "b") == 0700);
    for (const fs::path& file : files(folder.path() / "a" / "b"))
        CHECK(mode(file) == 0600);
}

TEST_CASE("disk cache: an entry that differs in any bit or in length is a miss, and is replaced") {
    const ScratchFolder folder;
    const DiskCache cache(folder.path());
    cache.store("key", bytes(40));
    REQUIRE(files(folder.path()).size() == 1);
    const fs::path file = files(folder.path())[0];
    const std::string good = read_text(file);
    for (std::size_t i = 0; i < good.size(); ++i) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
        write(file, bad);
        CAPTURE(i);
        CHECK_FALSE(cache.load("key").has_value());
    }
    for (std::size_t length = 0; length < good.size(); ++length) {
        write(file, std::string_view(good).substr(0, length));
        CAPTURE(length);
        CHECK_FALSE(cache.load("key").has_value());
    }
    write(file, good + '\0');
    CHECK_FALSE(cache.load("key").has_value());
    cache.store("key", bytes(40, 1));
    CHECK(cache.load("key") == bytes(40, 1));
    write(file, good);
    CHECK(cache.load("key") == bytes(40));
}

TEST_CASE("disk cache: another key's entry, a folder or a link in an entry's place is a miss") {
    const ScratchFolder folder;
    const DiskCache cache(folder.path());
    cache.store("one", bytes(40));
    const fs::path one = files(folder.path())[0];
    const std::string content = read_text(one);
    fs::remove(one);
    cache.store("two", bytes(40));
    const fs::path two = files(folder.path())[0];
    write(two, content);
    CHECK_FALSE(cache.load("two").has_value());

    fs::rename(two, folder.path() / "elsewhere");
    fs::create_symlink(folder.path() / "elsewhere", one);
    CHECK_FALSE(cache.load("one").has_value());
    fs::remove(one);
    fs::create_directory(one);
    CHECK_FALSE(cache.load("one").has_value());
    cache.store("one", bytes(4));  // can't replace a folder, and says nothing
    CHECK(fs::is_directory(one));
    CHECK(files(folder.path()).size() == 2);  // no temporary file stays
    fs::remove(one);
    REQUIRE(::mkfifo(one.c_str(), 0600) == 0);
    CHECK_FALSE(cache.load("one").has_value());  // and does not block
    cache.store("one", bytes(4));
    CHECK(cache.load("one") == bytes(4));
}

TEST_CASE("disk cache: a place that can't be written is no cache, not an error") {
    const ScratchFolder folder;
    write(folder.path() / "file", "x");
    for (const fs::path& place : {fs::path(), folder.path() / "file", folder.path() / "file" / "below", fs::path("/proc/nowhere"),
                                  fs::path("/dev/full")}) {
        const DiskCache cache(place);
        cache.store("key", bytes(10));
        CHECK_FALSE(cache.load("key").has_value());
    }
    CHECK_FALSE(DiskCache({}).is_enabled());
}

TEST_CASE("disk cache: beyond its limit, what was not used for longest goes") {
    const ScratchFolder folder;
    const DiskCache cache(folder.path(), 10'000);
    const auto age = [&](int minutes) {  // of all there is now
        for (const fs::path& file : files(folder.path())) {
            fs::last_write_time(file, fs::last_write_time(file) - std::chrono::minutes(minutes));
        }
    };
    cache.store("a", bytes(4000));
    age(1);
    cache.store("b", bytes(4000));
    age(1);
    CHECK(cache.load("a").has_value());  // used again: now younger than b
    cache.store("c", bytes(4000));
    CHECK(cache.load("a").has_value());
    CHECK_FALSE(cache.load("b").has_value());
    CHECK(cache.load("c").has_value());
    cache.store("huge", bytes(10'001));
    CHECK_FALSE(cache.load("huge").has_value());
    CHECK(files(folder.path()).size() == 2);
}

TEST_CASE("disk cache: what a dead process left half written is cleared away, what a live one writes is not") {
    const ScratchFolder folder;
    write(folder.path() / "old123.tmp", "half");
    write(folder.path() / "new456.tmp", "half");
    write(folder.path() / "notes.txt", "not ours");
    for (const char* name : {"old123.tmp", "notes.txt"}) {
        fs::last_write_time(folder.path() / name, fs::file_time_type::clock::now() - std::chrono::hours(48));
    }
    DiskCache(folder.path()).store("key", bytes(1));
    CHECK_FALSE(fs::exists(folder.path() / "old123.tmp"));
    CHECK(fs::exists(folder.path() / "new456.tmp"));
    CHECK(fs::exists(folder.path() / "notes.txt"));
}

TEST_CASE("disk cache: threads and processes share a folder") {
    const ScratchFolder folder;
    constexpr int writers = 4;
    const auto work = [&](int seed) {
        const DiskCache cache(folder.path());
        for (int i = 0; i < 50; ++i) {
            cache.store("key", bytes(3000, seed));
            const auto found = cache.load("key");
            if (!found || found->size() != 3000 || *found != bytes(3000, std::to_integer<int>(found->front()))) return false;
        }
        return true;
    };
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) ::_exit(work(100) ? 0 : 1);
    std::atomic<int> failures = 0;
    std::vector<std::thread> threads;
    for (int seed = 0; seed < writers; ++seed) {
        threads.emplace_back([&, seed] { failures += work(seed) ? 0 : 1; });
    }
    for (std::thread& thread : threads)
        thread.join();
    int status = -1;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(failures == 0);
    CHECK(files(folder.path()).size() == 1);
}
