// Many files at once.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <utility>

#include "core/adoption.hpp"
#include "core/npy/file.hpp"
#include "core/npy/header.hpp"
#include "core/posix_file.hpp"
#include "core/printable.hpp"
#include "core/transport/file_transfer.hpp"
#include "core/transport/meter.hpp"
#include "core/transport/threads.hpp"
#include "tandem/npy.hpp"

namespace tandem::npy {
namespace {

namespace fs = std::filesystem;

// Arrays in one buffer begin at multiples of this, as those in buffers of their own would on most devices.
constexpr std::uint64_t alignment_bytes = 256;
// Small files share buffers of so much: enough for few copies, and a last array that stays keeps no more.
constexpr std::uint64_t buffer_bytes = std::uint64_t{64} << 20U;

// Which file a name stood for, and in which state.
struct Identity {
    explicit Identity(const struct stat& status)
        : device(status.st_dev),
          inode(status.st_ino),
          size(status.st_size),
          changed_s(status.st_ctim.tv_sec),
          changed_ns(status.st_ctim.tv_nsec) {}
    bool operator==(const Identity&) const = default;
    dev_t device;
    ino_t inode;
    off_t size;
    time_t changed_s;
    long changed_ns;
};

struct SmallFile {
    std::size_t index;  // of its path
    Identity identity;
    Header header;
    ItemType type;
    std::uint64_t begin_bytes = 0;  // in the buffer

    [[nodiscard]] std::uint64_t end_bytes() const { return begin_bytes + header.data_bytes; }
};

// A name stands for another file by now than its header was read from.
struct Replaced {};

struct stat status_of(const FileDescriptor& file, const fs::path& path) {
    struct stat status {};
    if (::fstat(file.number(), &status) != 0) throw io_error(path, "fstat", errno);
    return status;
}

// The data of files one behind the other, as they'll lie in a buffer.
class SmallFilesSource final : public Source {
public:
    SmallFilesSource(std::span<const fs::path> paths, std::span<const SmallFile> files) : paths_(paths), files_(files) {}

    void read(std::uint64_t offset_bytes, std::span<std::byte> destination) override {
        const std::uint64_t end_bytes = offset_bytes + destination.size();
        std::memset(destination.data(), 0, destination.size());  // what lies between the files
        auto file = std::partition_point(files_.begin(), files_.end(),
                                         [&](const SmallFile& one) { return one.end_bytes() <= offset_bytes; });
        for (; file != files_.end() && file->begin_bytes < end_bytes; ++file) {
            const std::uint64_t begin = std::max(file->begin_bytes, offset_bytes), end = std::min(file->end_bytes(), end_bytes);
            if (begin < end) read_part(*file, begin, destination.subspan(begin - offset_bytes, end - begin));
        }
    }

private:
    void read_part(const SmallFile& file, std::uint64_t begin_bytes, std::span<std::byte> destination) const {
        const fs::path& path = paths_[file.index];
        const FileDescriptor descriptor = open_file(path, O_RDONLY);
        if (Identity(status_of(descriptor, path)) != file.identity) throw Replaced();
        const std::uint64_t offset = file.header.data_offset + begin_bytes - file.begin_bytes;
        const std::size_t found = read_fully_at(descriptor.number(), offset, destination, path);
        if (found == destination.size()) return;
        throw Error(ErrorCode::bad_file, fmt::format("{}: offset {}: {} bytes needed, {} found; it has become shorter",
                                                     printable_path(path), offset, destination.size(), found));
    }

    const std::span<const fs::path> paths_;
    const std::span<const SmallFile> files_;
};

class LoadAll {
public:
    LoadAll(const Device& device, std::span<const fs::path> paths, const LoadOptions& options)
        : device_(device), paths_(paths), options_(options), limits_(transfer_limits(device)), arrays_(paths.size()) {
        std::uint64_t total = 0;
        for (const fs::path& path : paths) {
            struct stat status {};
            const bool is_file = ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
            sizes_.push_back(is_file ? static_cast<std::uint64_t>(status.st_size) : 0);  // opening it says what is wrong with it
            total += sizes_.back();
        }
        meter_.emplace(options.transfer, total, fmt::format("{} files", paths.size()));
    }

    std::vector<Array> run() {
        meter_->check();
        std::vector<SmallFile> small = find_small();
        for (auto begin = small.begin(); begin != small.end();) {
            std::uint64_t size = 0;
            auto end = begin;
            for (; end != small.end() && (end == begin || size + end->header.data_bytes <= buffer_bytes); ++end) {
                end->begin_bytes = size;
                size = (end->end_bytes() + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
            }
            load_together({begin, end}, size);
            begin = end;
        }
        for (std::size_t index = 0; index < paths_.size(); ++index) {
            if (is_loaded_[index]) continue;
            std::uint64_t done = 0;
            LoadOptions options = options_;
            options.transfer = forwarded(done, sizes_[index]);
            arrays_[index] = load(device_, paths_[index], options);
            count(sizes_[index] - done);
        }
        meter_->finish();
        return std::move(arrays_);
    }

private:
    // Nothing where its bytes are not what becomes of them.
    std::optional<SmallFile> read_small(std::size_t index) const {
        const fs::path& path = paths_[index];
        const FileDescriptor descriptor = open_file(path, O_RDONLY);
        const struct stat status = status_of(descriptor, path);
        if (!S_ISREG(status.st_mode)) return {};
        std::uint64_t position = 0;
        const auto read = [&](std::span<std::byte> next) {
            if (read_fully_at(descriptor.number(), position, next, path) < next.size())
                throw Error(ErrorCode::bad_file, "it has become shorter");
            position += next.size();
        };
        SmallFile file{
            index, Identity(status), read_header(static_cast<std::uint64_t>(status.st_size), path.native(), read).header, {}};
        file.type = item_type(file.header, path.native(), options_.as);
        check_data_present(file.header, path.native(), static_cast<std::uint64_t>(status.st_size));
        const DType dtype = loaded_as(file.type, file.header).dtype;
        if (file.header.data_bytes == 0 || !improper_reason(dtype, file.type.swapped).empty()) return {};
        return file;
    }

    // The files that are no more than a slot. Others, and those that can't be read, are left to be loaded one by one; so are
    // descriptors of this process, whose position others have too.
    std::vector<SmallFile> find_small() {
        std::vector<std::optional<SmallFile>> found(paths_.size());
        is_loaded_.assign(paths_.size(), false);
        if (!options_.ranges.empty() || options_.shareable) return {};
        std::atomic<std::size_t> taken{0};
        ThreadGroup group;
        const auto find = [&] {
            for (std::size_t index = taken++; index < paths_.size() && !group.has_failed(); index = taken++) {
                if (sizes_[index] == 0 || sizes_[index] > limits_.slot_bytes || named_descriptor(paths_[index])) continue;
                try {
                    found[index] = read_small(index);
                } catch (const Error&) {
                    continue;
                }
            }
        };
        group.run(static_cast<unsigned>(std::clamp<std::size_t>(paths_.size() / 8, 1, limits_.readers)), find,
                  device_.info().numa_node);
        std::vector<SmallFile> small;
        for (std::optional<SmallFile>& file : found) {
            if (file) small.push_back(*std::move(file));
        }
        if (small.size() < 2) small.clear();
        return small;
    }

    void load_together(std::span<const SmallFile> files, std::uint64_t size_bytes) {
        const Buffer buffer(device_, static_cast<std::size_t>(size_bytes), options_.kind);
        SmallFilesSource source(paths_, files);
        std::uint64_t done = 0, file_bytes = 0;
        for (const SmallFile& file : files)
            file_bytes += sizes_[file.index];
        try {
            load_bytes(source, Array(buffer, uint8, {static_cast<std::int64_t>(size_bytes)}), forwarded(done, file_bytes));
        } catch (const Replaced&) {
            counted_bytes_ += done;
            return;  // one by one, each is read by one descriptor
        }
        for (const SmallFile& file : files) {
            const Loaded loaded = loaded_as(file.type, file.header);
            Array array(buffer, loaded.dtype, loaded.shape, loaded.strides_bytes, static_cast<std::size_t>(file.begin_bytes));
            array.set_residency(ZeroCopy::no,
                                fmt::format("{}, loaded from {}", array.residency(), printable_path(paths_[file.index])));
            arrays_[file.index] = std::move(array);
            is_loaded_[file.index] = true;
        }
        count(file_bytes - done);
        meter_->report();
    }

    // But for what was counted before it had to be read once more.
    void count(std::uint64_t bytes) {
        const std::uint64_t counted = std::min(counted_bytes_, bytes);
        counted_bytes_ -= counted;
        meter_->add(bytes - counted);
    }

    // Options of a part of the whole, whose bytes are added to `done_bytes` as well as to the whole's; `most_bytes` of them,
    // since what lies between files counts for the part alone.
    TransferOptions forwarded(std::uint64_t& done_bytes, std::uint64_t most_bytes) {
        TransferOptions options{.stop = options_.transfer.stop};
        if (options_.transfer.progress) {
            options.progress = [this, &done_bytes, most_bytes](const Progress& progress) {
                const std::uint64_t now = std::min(progress.done_bytes, most_bytes);
                count(now - done_bytes);
                done_bytes = now;
                meter_->report();
            };
        }
        return options;
    }

    const Device& device_;
    const std::span<const fs::path> paths_;
    const LoadOptions& options_;
    const TransferLimits limits_;
    std::vector<std::uint64_t> sizes_;
    std::vector<Array> arrays_;
    std::vector<bool> is_loaded_;
    std::optional<Meter> meter_;
    std::uint64_t counted_bytes_ = 0;
};

}  // namespace

std::vector<Array> load_all(const Device& device, std::span<const fs::path> paths, const LoadOptions& options) {
    return LoadAll(device, paths, options).run();
}

}  // namespace tandem::npy
