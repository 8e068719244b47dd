#include "tools/scratch.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <span>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <tandem/tandem.hpp>

#include "core/output_file.hpp"
#include "core/posix_file.hpp"
#include "tools/process.hpp"
#include "tools/text.hpp"

namespace tandem::command {
namespace {

constexpr std::int64_t piece_count = std::int64_t{1} << 20U;

std::uint64_t cached_bytes(const MappedFile& file) {
    return file.cached_bytes(0, file.size_bytes());
}

void read_all(const MappedFile& file) {
    std::vector<std::byte> piece(std::size_t{1} << 20U);
    for (std::uint64_t offset = 0; offset < file.size_bytes(); offset += piece.size()) {
        check_interrupt();
        piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), file.size_bytes() - offset)));
        file.read(offset, piece);
    }
}

}  // namespace

ScratchFolder::ScratchFolder(const std::filesystem::path& parent) {
    std::string name = (parent / "tandem-bench-XXXXXX").native();
    if (::mkdtemp(name.data()) == nullptr) throw io_error(parent, "make a folder for the files in it", errno);
    path_ = name;
}

ScratchFolder::~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::uint64_t free_bytes(const std::filesystem::path& folder) {
    std::error_code error;
    const std::filesystem::space_info space = std::filesystem::space(folder, error);
    if (error) throw io_error(folder, "statvfs", error.value());
    return space.available;
}

ScratchFile::ScratchFile(const std::filesystem::path& path, std::int64_t count) : path_(path), count_(count) {
    const std::string header = npy::format_header(float32, {count}, false);
    offset_bytes_ = header.size();
    OutputFile file(path);
    file.write(std::as_bytes(std::span(header)));
    std::vector<float> piece;
    for (std::int64_t first = 0; first < count; first += piece_count) {
        check_interrupt();
        piece.resize(static_cast<std::size_t>(std::min(piece_count, count - first)));
        for (std::size_t i = 0; i < piece.size(); ++i)
            piece[i] = value_at(first + static_cast<std::int64_t>(i));
        file.write(std::as_bytes(std::span(piece)));
    }
    file.commit();
}

std::string ScratchFile::make_warm() const {
    const MappedFile file = MappedFile::open(path_);
    std::uint64_t cached = cached_bytes(file);
    // The system may have taken some pages for others meanwhile, which further attempts get back.
    for (int attempt = 0; attempt < 3 && cached < file.size_bytes(); ++attempt) {
        read_all(file);
        cached = cached_bytes(file);
    }
    if (cached >= file.size_bytes()) return {};
    return fmt::format("not warm: {} of {} bytes cached", grouped(cached), grouped(file.size_bytes()));
}

std::string ScratchFile::make_cold() const {
    {
        const FileDescriptor descriptor = open_file(path_, O_RDONLY);
        // Pages that are still to be written, or that a mapping holds, stay.
        if (::fsync(descriptor.number()) != 0) throw io_error(path_, "fsync", errno);
        ::posix_fadvise(descriptor.number(), 0, 0, POSIX_FADV_DONTNEED);
    }
    const std::uint64_t cached = cached_bytes(MappedFile::open(path_));
    return cached == 0 ? std::string() : fmt::format("not cold: {} bytes cached", grouped(cached));
}

}  // namespace tandem::command
