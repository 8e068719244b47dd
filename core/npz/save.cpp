#include "core/npz/save.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <string>
#include <unordered_set>

#include "core/npz/zip_writer.hpp"
#include "core/printable.hpp"
#include "core/staging.hpp"
#include "core/thread_pool.hpp"
#include "core/transport/file_transfer.hpp"
#include "core/transport/meter.hpp"
#include "tandem/error.hpp"
#include "tandem/npy_header.hpp"

namespace tandem::npz {
namespace {

using Visit = std::function<void(std::span<const std::byte>)>;

// The CRC-32 of what `before` is that of, followed by `bytes`, by all processors.
std::uint32_t crc32_of(std::uint32_t before, std::span<const std::byte> bytes) {
    constexpr std::size_t part_bytes = std::size_t{256} << 10U;
    const std::size_t parts = (bytes.size() + part_bytes - 1) / part_bytes;
    std::vector<uLong> sums(parts);
    const auto part = [&](std::size_t index) {
        const std::size_t begin = index * part_bytes;
        return bytes.subspan(begin, std::min(part_bytes, bytes.size() - begin));
    };
    ThreadPool::instance().parallel(static_cast<std::int64_t>(parts), [&](std::int64_t number) {
        const auto index = static_cast<std::size_t>(number);
        sums[index] = crc32_z(0, reinterpret_cast<const Bytef*>(part(index).data()), part(index).size());
    });
    uLong sum = before;
    for (std::size_t index = 0; index < parts; ++index)
        sum = crc32_combine(sum, sums[index], static_cast<z_off_t>(part(index).size()));
    return static_cast<std::uint32_t>(sum);
}

// Raw deflate at zlib's default level, appended to a file.
class Deflater {
public:
    explicit Deflater(OutputFile& file) : file_(file), output_(std::size_t{256} << 10U) {
        if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, MAX_MEM_LEVEL - 1, Z_DEFAULT_STRATEGY) != Z_OK)
            throw Error(ErrorCode::out_of_memory, "deflateInit2: not enough host memory");
    }
    ~Deflater() { deflateEnd(&stream_); }
    Deflater(const Deflater&) = delete;
    Deflater& operator=(const Deflater&) = delete;

    // At most 4 GiB at a time.
    void write(std::span<const std::byte> bytes) { run(bytes, Z_NO_FLUSH); }
    void finish() { run({}, Z_FINISH); }

private:
    void run(std::span<const std::byte> bytes, int flush) {
        stream_.next_in = reinterpret_cast<z_const Bytef*>(const_cast<std::byte*>(bytes.data()));
        stream_.avail_in = static_cast<uInt>(bytes.size());
        do {
            stream_.next_out = reinterpret_cast<Bytef*>(output_.data());
            stream_.avail_out = static_cast<uInt>(output_.size());
            deflate(&stream_, flush);
            file_.write(std::span<const std::byte>(output_).first(output_.size() - stream_.avail_out));
        } while (stream_.avail_out == 0);
    }

    OutputFile& file_;
    std::vector<std::byte> output_;
    z_stream stream_{};
};

class VisitingSink final : public Sink {
public:
    explicit VisitingSink(const Visit& visit) : visit_(visit) {}
    [[nodiscard]] bool is_sequential() const noexcept override { return true; }
    void write_at(std::uint64_t /*offset_bytes*/, std::span<const std::byte> bytes) override { visit_(bytes); }

private:
    const Visit& visit_;
};

// What is saved of one array: the header, and the elements without gaps.
struct NpyFile {
    explicit NpyFile(const Array& array) : elements(dense(array, DenseOrder::any)) {
        header = npy::format_header(elements.dtype(), elements.shape(), !elements.is_dense(Order::c), ZipWriter::alignment);
        const Array ordered = elements.is_dense(Order::c) ? elements : elements.transpose();
        if (elements.count() != 0) flat = ordered.reshape({-1});
    }

    [[nodiscard]] std::uint64_t size_bytes() const { return header.size() + std::uint64_t{elements.size_bytes()}; }

    // The elements, part by part; the last time that this is done counts.
    void for_each_part(const BetweenPieces& between_pieces, bool is_last_pass,
                       const std::function<void(const Array&)>& visit) const {
        constexpr std::size_t part_bytes = std::size_t{64} << 20U;
        const auto step = static_cast<std::int64_t>(part_bytes / tandem::size_bytes(elements.dtype()));
        for (std::int64_t start = 0; start < elements.count(); start += step) {
            const Array part = flat.slice(0, start, std::min(start + step, flat.count()));
            if (between_pieces) between_pieces(0);
            visit(part);
            if (between_pieces && is_last_pass) between_pieces(part.size_bytes());
        }
    }

    // The file's bytes, piece by piece, as the host sees them.
    void for_each_piece(const BetweenPieces& between_pieces, bool is_last_pass, const Visit& visit) const {
        visit(std::as_bytes(std::span(header)));
        for_each_part(between_pieces, is_last_pass, [&](const Array& part) {
            VisitingSink sink(visit);
            save_bytes(part, sink, 0);
        });
    }

    Array elements;
    Array flat;
    std::string header;
};

void write_entry(OutputFile& file, ZipWriter& zip, const Entry& entry, bool compressed, const BetweenPieces& between_pieces) {
    const NpyFile npy(entry.array);
    const std::string name = entry.name + ".npy";
    std::uint32_t sum = 0;
    if (compressed) {
        zip.begin_deflated(name, npy.size_bytes());
        Deflater deflater(file);
        npy.for_each_piece(between_pieces, true, [&](std::span<const std::byte> piece) {
            sum = crc32_of(sum, piece);
            deflater.write(piece);
        });
        deflater.finish();
        zip.end_deflated(sum);
        return;
    }
    // The sum stands in front of the data, so that readers which take the file from front to end know it there: read twice, since
    // a file is not gone back in.
    npy.for_each_piece(between_pieces, false, [&](std::span<const std::byte> piece) { sum = crc32_of(sum, piece); });
    zip.begin_stored(name, npy.size_bytes(), sum);
    file.write(std::as_bytes(std::span(npy.header)));
    npy.for_each_part(between_pieces, true, [&](const Array& part) { save_bytes(part, file); });
}

}  // namespace

void check_names(const std::filesystem::path& path, const std::vector<Entry>& entries) {
    std::unordered_set<std::string_view> names;
    const auto refuse = [&](const Entry& entry, const std::string& why) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: member {}: {}", printable(path.native()), in_quotes(entry.name), why));
    };
    constexpr std::size_t longest = ZipWriter::max_name_bytes - std::string_view(".npy").size();
    for (const Entry& entry : entries) {
        if (!names.insert(entry.name).second) refuse(entry, "there are two of this name");
        if (entry.name.find('\0') != std::string::npos) refuse(entry, "a name without NUL bytes is needed");
        if (entry.name.size() > longest)
            refuse(entry, fmt::format("names have at most {} bytes, this one has {}", longest, entry.name.size()));
    }
}

void write_archive(OutputFile& file, const std::vector<Entry>& entries, bool compressed, const BetweenPieces& between_pieces) {
    ZipWriter zip(file);
    for (const Entry& entry : entries)
        write_entry(file, zip, entry, compressed, between_pieces);
    zip.finish();
    if (between_pieces) between_pieces(0);
    file.commit();
}

void save(const std::filesystem::path& path, const std::vector<Entry>& entries, bool compressed,
          const TransferOptions& transfer) {
    check_names(path, entries);
    std::uint64_t total = 0;
    for (const Entry& entry : entries)
        total += entry.array.size_bytes();
    Meter meter(transfer, total, printable(path.native()));
    OutputFile file(path, {.stop = transfer.stop});
    std::uint64_t done = 0;
    write_archive(file, entries, compressed, [&](std::uint64_t bytes) {
        meter.check();
        meter.add(bytes);
        done += bytes;
        // The last call comes before the archive is there: what is thrown then leaves nothing.
        bytes == 0 && done == total ? meter.finish() : meter.report();
    });
}

void save(Queue& queue, const std::vector<Entry>& entries, const std::filesystem::path& path, bool compressed,
          const TransferOptions& transfer) {
    queue.synchronize();
    save(path, entries, compressed, transfer);
}

}  // namespace tandem::npz
