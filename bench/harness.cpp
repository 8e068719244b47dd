#include "harness.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace tandem::bench {
namespace {

nlohmann::json& results() {
    static nlohmann::json all = nlohmann::json::array();
    return all;
}

double cpu_seconds_so_far() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

double median_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

}  // namespace

double Candidate::best() const {
    return *std::min_element(seconds.begin(), seconds.end());
}

double Candidate::median() const {
    return median_of(seconds);
}

void measure(std::vector<Candidate>& candidates, int rounds) {
    for (int round = -1; round < rounds; ++round) {
        for (Candidate& candidate : candidates) {
            // The first run after another candidate's pays for what changed with it: a GPU's context, the caches.
            for (const bool counts : {false, true}) {
                const double cpu_before = cpu_seconds_so_far();
                const auto start = std::chrono::steady_clock::now();
                candidate.run();
                const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
                const double cpu = cpu_seconds_so_far() - cpu_before;
                if (candidate.settle) candidate.settle();
                if (!counts || round < 0) continue;
                candidate.seconds.push_back(taken.count());
                candidate.cpu_seconds.push_back(cpu);
            }
        }
    }
}

void report(const std::string& job, const std::string& device, const std::vector<Candidate>& candidates, Work work,
            const std::string& target) {
    const Candidate& library = candidates.front();
    const Candidate* rival = nullptr;
    for (const Candidate& candidate : candidates) {
        const bool is_rival = &candidate != &library && !candidate.is_own;
        if (is_rival && (rival == nullptr || candidate.median() < rival->median())) rival = &candidate;
    }
    const auto figure = [&](const Candidate& candidate) {
        const double seconds = candidate.median();
        if (work.operations > 0) return fmt::format("{:9.1f} GFLOP/s", work.operations / seconds / 1e9);
        return work.bytes > 0 ? fmt::format("{:9.1f} GB/s, {:5.3f} CPU s/GB", work.bytes / seconds / 1e9,
                                            median_of(candidate.cpu_seconds) * 1e9 / work.bytes)
                              : fmt::format("{:9.3f} us  ", seconds * 1e6 / work.calls);
    };
    const auto verdict = [&](const Candidate& candidate) {
        if (rival == nullptr) return std::string();
        return work.bytes > 0 || work.operations > 0
                   ? fmt::format("ratio {:.3f}", rival->median() / candidate.median())
                   : fmt::format("{:+.3f} us", (candidate.median() - rival->median()) * 1e6 / work.calls);
    };
    nlohmann::json row{{"job", job}, {"device", device}, {"target", target}, {"bytes", work.bytes}, {"calls", work.calls}};
    if (work.operations > 0) row["operations"] = work.operations;
    for (const Candidate& candidate : candidates) {
        row["candidates"].push_back({{"name", candidate.name},
                                     {"is_own", &candidate == &library || candidate.is_own},
                                     {"best_seconds", candidate.best()},
                                     {"median_seconds", candidate.median()},
                                     {"median_cpu_seconds", median_of(candidate.cpu_seconds)}});
    }
    if (rival != nullptr) row["ratio"] = rival->median() / library.median();
    fmt::print("{:<36} {:<9} tandem {} {:>12}   target {}\n", job, device, figure(library), verdict(library), target);
    for (auto it = candidates.begin() + 1; it != candidates.end(); ++it)
        fmt::print("{:>52} {} {:>12}\n", it->name, figure(*it), it->is_own ? verdict(*it) : "");
    std::fflush(stdout);
    results().push_back(std::move(row));
}

void write_json(const std::string& path) {
    std::ofstream(path) << results().dump(1) << '\n';
}

}  // namespace tandem::bench
