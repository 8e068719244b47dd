#include "tools/bench_jobs.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>

#include <fmt/format.h>
#include <tandem/tandem.hpp>

#include "core/output_file.hpp"
#include "core/transport/file_transfer.hpp"
#include "tools/text.hpp"

namespace tandem::command {
namespace {

// Enough for the ring of any number of readers, and less than most files.
constexpr std::size_t stream_memory_bytes = std::size_t{256} << 20U;
// One lock of the filesystem is what writers of one file wait for; more of them don't help.
constexpr unsigned writer_count = 2;
// Storage is asked for more at once than there may be processors, which only wait.
constexpr unsigned min_cold_readers = 8;

// Throws where the first or the last element is not `factor` times what `ScratchFile` has there.
void check_result(Queue& queue, const Array& array, float factor, const std::string& job) {
    for (const std::int64_t index : {std::int64_t{0}, array.count() - 1}) {
        const float found = to_vector<float>(queue, array.slice(0, index, index + 1)).at(0);
        const float expected = factor * ScratchFile::value_at(index);
        if (found == expected) continue;
        throw Error(ErrorCode::internal,
                    fmt::format("{}: {}: element {} is {}, not {}", array.device().spec(), job, index, found, expected));
    }
}

class DeviceBench {
public:
    DeviceBench(const Device& device, const Limits& limits, const ScratchFolder& folder, const ScratchFile& file,
                const BenchPlan& plan, BenchReport& report)
        : device_(device),
          queue_(device),
          limits_(limits),
          folder_(folder),
          file_(file),
          plan_(plan),
          report_(report),
          has_link_(!device.info().shares_host_memory) {}

    void run() {
        if (has_link_) measure_link();
        load_warm();
        load_cold();
        map_and_double();
        save_unflushed();
        save();
        stream_to_file();
        add_arrays();
        double_array();
    }

private:
    // Limits of which some may be missing; the slowest of those that were measured.
    static const MeasuredLimit* slowest(std::initializer_list<const MeasuredLimit*> limits) {
        const MeasuredLimit* found = nullptr;
        for (const MeasuredLimit* limit : limits) {
            if (limit == nullptr || !limit->measured.note.empty()) continue;
            if (found == nullptr || limit->measured.bytes_per_second < found->measured.bytes_per_second) found = limit;
        }
        return found;
    }

    static const MeasuredLimit* address_of(const std::optional<MeasuredLimit>& limit) { return limit ? &*limit : nullptr; }

    void measure_link() {
        measure_limit(to_device_, "pinned copy to the device", copy_to_device);
        measure_limit(from_device_, "pinned copy from the device", copy_from_device);
        measure_limit(in_device_, "copy in the device's memory", copy_in_device);
    }

    void measure_limit(std::optional<MeasuredLimit>& limit, const char* name,
                       Contender (*make)(const Device&, std::uint64_t size_bytes)) {
        announce(name);
        BenchLimit row{device_.spec(), name, plan_.array_bytes, {}};
        try {
            Contender contender = make(device_, plan_.array_bytes);
            row.size_bytes = contender.size_bytes;
            row.measured = measure({&contender, 1}, plan_.effort).at(0);
            if (row.measured.note.empty()) limit = MeasuredLimit{std::move(contender), row.measured};
        } catch (const Error& error) {
            // A device that lacks the memory is worth a line, and others are still to be measured.
            if (error.code() != ErrorCode::out_of_memory && error.code() != ErrorCode::unsupported) throw;
            row.measured.note = error.what();
        }
        report_.limits.push_back(std::move(row));
    }

    void announce(const std::string& what) const { plan_.announce(fmt::format("{}: {}", device_.spec(), what)); }

    void row(Contender job, std::initializer_list<const MeasuredLimit*> limits) {
        announce(job.name);
        BenchRow row;
        row.device = device_.spec();
        row.job = job.name;
        row.size_bytes = job.size_bytes;
        std::vector<Contender> contenders{std::move(job)};
        if (const MeasuredLimit* limit = slowest(limits); limit != nullptr) {
            row.limit = limit->contender.name;
            contenders.push_back(limit->contender);
        }
        const std::vector<Measurement> measured = measure(contenders, plan_.effort);
        row.measured = measured.at(0);
        if (measured.size() > 1) {
            row.limit_measured = measured.at(1);
            if (row.is_measured() && !row.limit_measured.note.empty()) {
                row.measured.note = fmt::format("{}: {}", row.limit, row.limit_measured.note);
            }
        }
        report_.rows.push_back(std::move(row));
    }

    // What a job on arrays in memory that are made for it needs: where they can't be, that is its row.
    template <class Make>
    void row_of_arrays(const std::string& job, const Make& make, std::initializer_list<const MeasuredLimit*> limits) {
        try {
            row(make(), limits);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::out_of_memory && error.code() != ErrorCode::unsupported) throw;
            BenchRow failed;
            failed.device = device_.spec();
            failed.job = job;
            failed.measured.note = error.what();
            report_.rows.push_back(std::move(failed));
        }
    }

    // The rate of what the device reads and writes by itself.
    [[nodiscard]] const MeasuredLimit* memory_limit() const { return has_link_ ? address_of(in_device_) : &limits_.memory_copy; }

    Contender loading(const char* job) {
        Contender contender;
        contender.name = job;
        contender.size_bytes = file_.size_bytes();
        contender.run = [this] { held_ = npy::load(device_, file_.path()); };
        contender.settle = [this, job] {
            check_result(queue_, held_, 1, job);
            held_ = Array();
        };
        return contender;
    }

    void load_warm() {
        Contender job = loading("load a warm file");
        job.prepare = [this] { return file_.make_warm(); };
        row(std::move(job), {&limits_.warm_read, address_of(to_device_)});
    }

    void load_cold() {
        Contender job = loading("load a cold file");
        job.prepare = [this] { return file_.make_cold(); };
        row(std::move(job), {&limits_.cold_read, address_of(to_device_)});
    }

    void map_and_double() {
        const char* const name = "map a warm file, double it";
        row_of_arrays(name,
                      [&] {
                          Contender job;
                          job.name = name;
                          // Across a link come the file's bytes alone; where memory is one, what is read and written counts as in
                          // its copy.
                          job.size_bytes = file_.size_bytes() * (has_link_ ? 1 : 2);
                          job.prepare = [this] { return file_.make_warm(); };
                          job.run = [this, out = empty(device_, float32, {file_.count()})] {
                              twice(queue_, npy::map(device_, file_.path()), out);
                              queue_.synchronize();
                              held_ = out;
                          };
                          job.settle = [this, name] {
                              check_result(queue_, held_, 2, name);
                              held_ = Array();
                          };
                          return job;
                      },
                      {has_link_ ? address_of(to_device_) : &limits_.memory_copy});
    }

    Contender writing(const char* job, std::function<void(const Array&, const std::filesystem::path&)> write) {
        Contender contender;
        contender.name = job;
        contender.size_bytes = plan_.write_bytes;
        const std::filesystem::path path = folder_.path() / "saved.npy";
        const auto count = static_cast<std::int64_t>(plan_.write_bytes / 4);
        contender.run = [array = npy::load(device_, file_.path(), {.ranges = {{0, count}}}), path, write = std::move(write)] {
            write(array, path);
        };
        contender.settle = [path] { std::filesystem::remove(path); };
        return contender;
    }

    void save_unflushed() {
        const char* const name = "save, but for the flush";
        const auto write = [](const Array& array, const std::filesystem::path& path) {
            OutputFile file(path);
            save_bytes(array, file);
        };
        row_of_arrays(name, [&] { return writing(name, write); }, {&limits_.write, address_of(from_device_)});
    }

    void save() {
        const char* const name = "save";
        const auto write = [this](const Array& array, const std::filesystem::path& path) { npy::save(queue_, array, path); };
        row_of_arrays(name, [&] { return writing(name, write); }, {&limits_.flushed_write, address_of(from_device_)});
    }

    void stream_to_file() {
        Contender job;
        job.name = fmt::format("stream, doubling, in {}", short_size_text(stream_memory_bytes));
        job.size_bytes = plan_.write_bytes;
        const std::filesystem::path path = folder_.path() / "streamed.npy";
        job.prepare = [this] { return file_.make_warm(); };
        job.run = [this, path] {
            const StreamInput input =
                StreamInput::raw(MappedFile::open(file_.path()), float32, Shape{static_cast<std::int64_t>(plan_.write_bytes / 4)},
                                 file_.offset_bytes());
            stream(queue_, {&input, 1}, {path, float32},
                   [](Queue& on, std::span<const Array> in, const Array& out) { twice(on, in[0], out); },
                   {.memory_bytes = stream_memory_bytes});
        };
        job.settle = [this, path, name = job.name] {
            check_result(queue_, npy::load(device_, path), 2, name);
            std::filesystem::remove(path);
        };
        row(std::move(job), {&limits_.flushed_write, address_of(to_device_), address_of(from_device_)});
    }

    Array filled_array() {
        const auto count = static_cast<std::int64_t>(plan_.array_bytes / 4);
        Array array = empty(device_, float32, {count});
        const std::int64_t from_file = std::min(count, file_.count());
        // What the file is too short for is filled by doublings of what there is: any numbers will do but where they are checked.
        const Array start = npy::load(device_, file_.path(), {.ranges = {{0, from_file}}});
        for (std::int64_t done = 0; done < count; done += from_file) {
            const std::int64_t part = std::min(from_file, count - done);
            copy(queue_, start.slice(0, 0, part), array.slice(0, done, done + part));
        }
        queue_.synchronize();
        return array;
    }

    void add_arrays() {
        const char* const name = "add in the device's memory";
        row_of_arrays(name,
                      [&] {
                          Contender job;
                          job.name = name;
                          job.size_bytes = 3 * plan_.array_bytes;
                          job.run = [this, left = filled_array(), right = filled_array(), out = empty_of_plan()] {
                              add(queue_, left, right, out);
                              queue_.synchronize();
                              held_ = out;
                          };
                          job.settle = [this, name] { check_held(name); };
                          return job;
                      },
                      {memory_limit()});
    }

    void double_array() {
        const char* const name = "double in the device's memory";
        row_of_arrays(name,
                      [&] {
                          Contender job;
                          job.name = name;
                          job.size_bytes = 2 * plan_.array_bytes;
                          job.run = [this, in = filled_array(), out = empty_of_plan()] {
                              twice(queue_, in, out);
                              queue_.synchronize();
                              held_ = out;
                          };
                          job.settle = [this, name] { check_held(name); };
                          return job;
                      },
                      {memory_limit()});
    }

    [[nodiscard]] Array empty_of_plan() const {
        return empty(device_, float32, {static_cast<std::int64_t>(plan_.array_bytes / 4)});
    }

    // The part that surely begins as the file does.
    void check_held(const char* job) {
        check_result(queue_, held_.slice(0, 0, std::min(held_.count(), file_.count())), 2, job);
        held_ = Array();
    }

    const Device device_;
    Queue queue_;
    const Limits& limits_;
    const ScratchFolder& folder_;
    const ScratchFile& file_;
    const BenchPlan& plan_;
    BenchReport& report_;
    const bool has_link_;
    std::optional<MeasuredLimit> to_device_, from_device_, in_device_;
    Array held_;  // a run's result, to be looked at when its time has been taken
};

}  // namespace

Limits measure_limits(const ScratchFolder& folder, const ScratchFile& file, const BenchPlan& plan, BenchReport& report) {
    const auto measured = [&](Contender contender) {
        plan.announce(contender.name);
        const Measurement measurement = measure({&contender, 1}, plan.effort).at(0);
        report.limits.push_back({"", contender.name, contender.size_bytes, measurement});
        return MeasuredLimit{std::move(contender), measurement};
    };
    return {measured(memory_copy(plan.array_bytes, plan.threads)), measured(warm_read(file, plan.threads)),
            measured(cold_read(file, std::max(min_cold_readers, plan.threads))),
            measured(file_write(folder.path(), plan.write_bytes, writer_count, false)),
            measured(file_write(folder.path(), plan.write_bytes, writer_count, true))};
}

void measure_device(const Device& device, const Limits& limits, const ScratchFolder& folder, const ScratchFile& file,
                    const BenchPlan& plan, BenchReport& report) {
    DeviceBench(device, limits, folder, file, plan, report).run();
}

}  // namespace tandem::command
