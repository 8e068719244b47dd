#include "core/file_transfer.hpp"

#include <algorithm>
#include <cstring>

#include "core/driver.hpp"
#include "core/staging.hpp"

namespace tandem {
namespace {

// A private mapping's written pages are not in the file.
void read_piece(const MappedFile& file, std::uint64_t offset_bytes, std::span<std::byte> piece) {
    if (file.access() == FileAccess::copy_on_write && !file.in_memory()) {
        std::memcpy(piece.data(), file.bytes().data() + offset_bytes, piece.size());
    } else {
        file.read(offset_bytes, piece);
    }
}

void load_in_place(const MappedFile& file, std::uint64_t file_offset, const Array& array) {
    for (std::size_t done = 0; done < array.size_bytes(); done += piece_bytes) {
        const std::size_t bytes = std::min(piece_bytes, array.size_bytes() - done);
        HostView view(array.device(), array.memory(), array.offset_bytes() + done, bytes, Access::write);
        read_piece(file, file_offset + done, {view.data(), bytes});
        view.unmap();
    }
}

}  // namespace

void load_bytes(const MappedFile& file, std::uint64_t offset_bytes, const Array& array) {
    if (array.count() == 0) return;
    array.memory()->uses.wait();
    // What stands in for a file's mapping is not to be filled through that mapping.
    const bool is_visible = array.memory()->mirrored == nullptr &&
                            (array.device().info().shares_host_memory || array.memory()->host_address() != nullptr);
    if (is_visible) {
        load_in_place(file, offset_bytes, array);
    } else {
        fill_in_pieces(array,
                       [&](std::size_t done, std::span<std::byte> piece) { read_piece(file, offset_bytes + done, piece); });
    }
}

void save_bytes(const Array& array, OutputFile& file) {
    for (std::size_t done = 0; done < array.size_bytes(); done += piece_bytes) {
        const std::size_t bytes = std::min(piece_bytes, array.size_bytes() - done);
        HostView view(array.device(), array.memory(), array.offset_bytes() + done, bytes, Access::read);
        file.write({view.data(), bytes});
        view.unmap();
    }
}

}  // namespace tandem
