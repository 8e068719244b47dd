// tandem_bench_worker [--device SPEC]
//
// The library as one of the peers that bench/peers/run.py measures: takes the requests that bench/peers/worker.py describes, so
// that both work on the same files, in turns.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "tandem/tandem.hpp"

namespace tandem::bench {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t period = 4093;  // element i of every file is i % period

double cpu_seconds_so_far() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

class Worker {
public:
    explicit Worker(const Device& device) : device_(device), queue_(device) {
        add_way("load", "npy::load", [this] { result_ = npy::load(device_, file()); });
        add_way("load", "npy::map and a copy", [this] {
            result_ = empty(device_, float32, {count("count")});
            copy(queue_, npy::map(device_, file()), result_);
        });
        add_way("add", "add(queue, a, b, c)", [this] { add(queue_, left_, right_, result_); });
        add_way("double", "twice(queue, a, c)", [this] { twice(queue_, left_, result_); });
        add_way("small", "npy::load", [this] {
            for (const Json& path : task_.at("small"))
                result_ = npy::load(device_, path.get<std::string>());
        });
        add_way("small", "npy::load_all", [this] {
            std::vector<std::filesystem::path> paths;
            for (const Json& path : task_.at("small"))
                paths.emplace_back(path.get<std::string>());
            result_ = npy::load_all(device_, paths).back();
        });
        if (!device.info().shares_host_memory) add_way("load", limit, [this] { copy(queue_, pinned_->span(), result_); });
    }

    [[nodiscard]] Json description() const {
        const DeviceInfo& info = device_.info();
        Json description{{"version", info.driver}, {"device", info.name}, {"backend", info.backend}, {"ways", Json::array()}};
        for (const Way& way : ways_) {
            Json item{{"job", way.job}, {"way", way.words}};
            if (way.words == limit) item["is_limit"] = true;
            description["ways"].push_back(std::move(item));
        }
        return description;
    }

    Json answer(const Json& request) {
        const auto asked = request.at("do").get<std::string>();
        if (asked == "begin") return begin(request);
        if (asked == "run") return run();
        pinned_.reset();
        left_ = right_ = result_ = Array();
        return Json::object();
    }

private:
    static constexpr const char* limit = "the driver's pinned copy";

    struct Way {
        std::string job;
        std::string words;
        std::function<void()> run;
    };

    void add_way(const char* job, const char* words, std::function<void()> run) { ways_.push_back({job, words, std::move(run)}); }

    [[nodiscard]] std::string file() const { return task_.at("file").get<std::string>(); }
    [[nodiscard]] std::int64_t count(const char* key) const { return task_.at(key).get<std::int64_t>(); }

    Array filled(std::int64_t count, MemoryKind kind) {
        std::vector<float> values(static_cast<std::size_t>(count));
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<float>(static_cast<std::int64_t>(i) % period);
        Array array = empty(device_, float32, {count}, kind);
        copy(queue_, values, array);
        queue_.synchronize();
        return array;
    }

    Json begin(const Json& request) {
        task_ = request;
        way_ = &ways_.at(request.at("way").get<std::size_t>());
        if (way_->words == limit) {
            // It stays mapped: an OpenCL driver may move pinned memory that is not to the device.
            pinned_.emplace(filled(count("count"), MemoryKind::pinned).map<float>(Access::read_write));
            result_ = empty(device_, float32, {count("count")});
        } else if (way_->job == "add" || way_->job == "double") {
            left_ = filled(count("array_count"), MemoryKind::device);
            right_ = filled(count("array_count"), MemoryKind::device);
            result_ = empty_like(left_);
        }
        return Json::object();
    }

    Json run() {
        const double cpu_before = cpu_seconds_so_far();
        const auto start = std::chrono::steady_clock::now();
        way_->run();
        queue_.synchronize();
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
        Json times{{"seconds", taken.count()}, {"cpu_seconds", cpu_seconds_so_far() - cpu_before}};
        check();
        if (way_->job == "small" || (way_->job == "load" && way_->words != limit)) result_ = Array();
        return times;
    }

    void check() {
        const bool is_doubled = way_->job == "add" || way_->job == "double";
        const std::int64_t expected_count = count(way_->job == "load" ? "count" : is_doubled ? "array_count" : "small_count");
        if (result_.count() != expected_count) {
            throw std::runtime_error(fmt::format("{} elements, not {}", result_.count(), expected_count));
        }
        for (const std::int64_t index : {std::int64_t{0}, expected_count / 2, expected_count - 1}) {
            const float found = to_vector<float>(queue_, result_.slice(0, index, index + 1)).at(0);
            const auto expected = static_cast<float>((is_doubled ? 2 : 1) * (index % period));
            if (found != expected) throw std::runtime_error(fmt::format("element {} is {}, not {}", index, found, expected));
        }
    }

    const Device device_;
    Queue queue_;
    std::vector<Way> ways_;
    const Way* way_ = nullptr;
    Json task_;
    Array left_, right_, result_;
    std::optional<HostArray<float>> pinned_;
};

void tell(const Json& message) {
    std::cout << message.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
}

void serve(const std::string& device) {
    std::optional<Worker> worker;
    try {
        worker.emplace(open_device(device));
    } catch (const Error& error) {
        tell({{"absent", error.what()}});
        return;
    }
    tell(worker->description());
    for (std::string line; std::getline(std::cin, line);) {
        try {
            tell(worker->answer(Json::parse(line)));
        } catch (const std::exception& error) {
            tell({{"error", error.what()}});
        }
    }
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
    CLI::App app{"the library as a peer of bench/peers/run.py"};
    std::string device;
    app.add_option("--device", device, "device, as open_device takes it");
    CLI11_PARSE(app, argc, argv);
    tandem::bench::serve(device);
    return 0;
}
