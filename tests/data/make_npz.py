"""Writes .npz archives: python3 make_npz.py OUTDIR

Good ones, by NumPy and by Python's zipfile, and damaged ones of every kind that a reader meets. manifest.json tells what is right: of
each member what zipfile says of it and the bytes of its data, or the error that it, or the whole archive, must give.
"""
import io
import json
import os
import struct
import sys
import warnings
import zipfile

import numpy as np
from numpy.lib import format as npy_format


def npy(array, **options):
    file = io.BytesIO()
    npy_format.write_array(file, np.asanyarray(array), **options)
    return file.getvalue()


def archive(members, method=zipfile.ZIP_STORED, zip64=False, comment=b"", into=None):
    """An archive of `members`, pairs of a file's name and its bytes."""
    file = into or io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", method) as written:
        warnings.simplefilter("ignore")  # two of one name
        written.comment = comment
        for name, data in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            with written.open(info, "w", force_zip64=zip64) as member:
                member.write(data)
    return file.getvalue()


class Unseekable(io.RawIOBase):
    """What a pipe is: sizes can't be put in front of the data later."""

    def __init__(self):
        self.data = b""

    def writable(self):
        return True

    def write(self, data):
        self.data += bytes(data)
        return len(data)

    def getvalue(self):
        return self.data


def patched(data, *changes):
    """`data` with other bytes at some offsets; negative ones count from the end."""
    data = bytearray(data)
    for offset, new in changes:
        offset %= len(data)
        data[offset:offset + len(new)] = new
    return bytes(data)


def directory_of(data):
    return struct.unpack("<I", data[-6:-2])[0]


def in_directory(data, offset, new, record=0):
    """A change in a record of the directory; the archive has no comment and no ZIP64 end."""
    at = directory_of(data)
    for _ in range(record):
        at += 46 + sum(struct.unpack("<HHH", data[at + 28:at + 34]))
    return patched(data, (at + offset, new))


A = np.arange(24, dtype="<f4").reshape(4, 6)
B = np.arange(10, dtype="<i8") ** 3
STORED = archive([("a.npy", npy(A)), ("b.npy", npy(B))])
DEFLATED = archive([("a.npy", npy(A)), ("b.npy", npy(B))], zipfile.ZIP_DEFLATED)
A_DATA = 30 + len("a.npy")  # where its bytes start


def savez(save, **arrays):
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def good_archives():
    kinds = {"c": A, "fortran": np.asfortranarray(A), "big_endian": B.astype(">i8"), "bools": np.array([True, False, True]),
             "scalar": np.array(7.5), "none": np.zeros((0, 3), "f4"), "text": np.array(["ab", "c"]),
             "structured": np.zeros(3, [("x", "<f4"), ("y", "<i2")]), "complex": A * 1j}
    yield "savez", savez(np.savez, **kinds)
    yield "savez_compressed", savez(np.savez_compressed, **kinds)
    yield "zip64", archive([("a.npy", npy(A)), ("b.npy", npy(B))], zip64=True)
    yield "zip64_deflated", archive([("a.npy", npy(A)), ("b.npy", npy(B))], zipfile.ZIP_DEFLATED, zip64=True)
    yield "sizes_behind", archive([("a.npy", npy(A))], into=Unseekable())
    yield "sizes_behind_deflated", archive([("a.npy", npy(A)), ("b.npy", npy(B))], zipfile.ZIP_DEFLATED, into=Unseekable())
    yield "sizes_behind_zip64", archive([("a.npy", npy(A)), ("b.npy", npy(B))], zipfile.ZIP_DEFLATED, zip64=True, into=Unseekable())
    yield "commented", archive([("a.npy", npy(A))], comment=b"PK, but no record \0" * 100)
    yield "longest_comment", archive([("a.npy", npy(A))], comment=b"c" * 0xffff)
    yield "behind_a_program", b"#!/bin/sh\nexit 0\n" * 50 + STORED
    yield "behind_a_program_deflated", b"\x7fELF" + bytes(10000) + DEFLATED
    yield "empty", archive([])
    yield "twice", archive([("a.npy", npy(B)), ("b.npy", npy(B)), ("a.npy", npy(A))])
    yield "names", archive([(name, npy(A + i)) for i, name in enumerate(
        ["dir/sub/a.npy", "\u00e9\u4e16.npy", ".npy", "no extension", "a.npy.npy", "a.npy", " .npy", "a:b.npy", "../up.npy", "new\nline.npy",
         "x" * 3000 + ".npy"])])
    yield "many", archive([(f"m{i}.npy", npy(np.array(i))) for i in range(700)])
    yield "trailing", archive([("a.npy", npy(A) + b"more")])
    yield "trailing_deflated", archive([("a.npy", npy(A) + bytes(100000))], zipfile.ZIP_DEFLATED)
    yield "version_2", archive([("a.npy", npy(A, version=(2, 0)))], zipfile.ZIP_DEFLATED)
    yield "long_header", archive([("a.npy", npy(np.zeros(2, [(f"field{i}", "u1") for i in range(900)])))], zipfile.ZIP_DEFLATED)


def bad_archives():
    """Name, content, code and parts of the message."""
    tail = ["the end record of a ZIP directory"]
    yield "nothing", b"", "bad_file", ["offset 0", *tail, "an empty file found"]
    yield "words", b"once upon a time", "bad_file", ["offset 0", *tail, "none found: no .npz archive"]
    yield "gzip", b"\x1f\x8b\x08" + bytes(100), "bad_file", ["gzip data, perhaps .npy.gz found"]
    yield "an_array", npy(A), "bad_file", tail
    for name, size in (("cut_in_end", len(STORED) - 1), ("cut_in_directory", directory_of(STORED) + 60),
                       ("cut_in_member", A_DATA + 100), ("cut_in_header", 20)):
        yield name, STORED[:size], "bad_file", [*tail, "truncated or damaged"]
    yield "head_missing", STORED[100:], "bad_file", ["offset"]
    yield "more_records", patched(STORED, (-14, b"\3\0\3\0")), "bad_file", ["a directory of 3 records needed, 2 found"]
    yield "fewer_records", patched(STORED, (-14, b"\1\0\1\0")), "bad_file", ["a directory of 1 records needed, 2 found"]
    yield "no_record", in_directory(STORED, 0, b"XX"), "bad_file", [f"offset {directory_of(STORED)}", "2 records needed, 0 found"]
    yield "bad_second_record", in_directory(STORED, 0, b"XX", 1), "bad_file", ["2 records needed, 1 found"]
    yield "other_disk", patched(STORED, (-18, b"\1\0")), "bad_file", ["a part of a split one found"]
    yield "split", in_directory(STORED, 34, b"\1\0"), "bad_file", ["a part of a split one found"]
    yield "directory_elsewhere", patched(STORED, (-6, b"\xff\xff\xff\x7f")), "bad_file", ["bytes at 2147483647 needed"]
    yield "member_in_directory", in_directory(STORED, 42, struct.pack("<I", directory_of(STORED) + 1)), "bad_file", [
        "'a.npy' in front of the directory"]
    yield "member_behind_all", in_directory(STORED, 42, b"\xf0\xff\xff\x7f"), "bad_file", ["in front of the directory"]
    yield "large_directory", patched(STORED, (-10, b"\xff\xff\xff\x7f")), "bad_file", ["a directory of 2147483647 bytes"]
    yield "no_zip64_offset", in_directory(STORED, 42, b"\xff\xff\xff\xff"), "bad_file", ["ZIP64 extra field"]


def bad_members():
    """Name, content, and code and parts of the message for the member a; b is as it should be."""
    size = struct.pack("<II", len(npy(A)) * 2, len(npy(A)) * 2)
    yield "encrypted", in_directory(STORED, 8, b"\1"), "unsupported", ["a: it is encrypted"]
    yield "patch", in_directory(STORED, 8, b"\x20"), "unsupported", ["patch"]
    yield "bzip2", archive([("a.npy", npy(A))], zipfile.ZIP_BZIP2), "unsupported", ["it is compressed by bzip2"]
    yield "lzma", archive([("a.npy", npy(A))], zipfile.ZIP_LZMA), "unsupported", ["it is compressed by lzma"]
    yield "unknown_method", in_directory(STORED, 10, b"\x4d"), "unsupported", ["method 77"]
    yield "other_header", patched(STORED, (0, b"XXXX")), "bad_file", ["offset 0", "a header of 'a.npy' that says"]
    yield "other_method", in_directory(STORED, 10, b"\x08"), "bad_file", ["offset 0", "a header of 'a.npy' that says"]
    yield "other_name_length", patched(STORED, (26, b"\x06")), "bad_file", ["a header of 'a.npy' that says"]
    yield "second_of_both", in_directory(STORED, 42, struct.pack("<I", len(npy(A)) + A_DATA)), "bad_file", ["a header of 'a.npy'"]
    yield "into_the_next", in_directory(patched(STORED, (18, size)), 20, size), "bad_file", [
        f"offset {A_DATA}", f"{len(npy(A)) * 2} bytes of 'a.npy' needed, {len(npy(A))} found"]
    yield "stored_shorter", in_directory(patched(STORED, (18, b"\x10")), 20, b"\x10"), "bad_file", ["which is stored"]
    yield "deflated_huge", in_directory(patched(DEFLATED, (22, b"\xff\xff\xff\x7f")), 24, b"\xff\xff\xff\x7f"), "bad_file", [
        "compressed ones can't hold"]
    longer = struct.pack("<I", len(npy(A)) + 1)
    yield "deflated_longer", in_directory(patched(DEFLATED, (22, longer)), 24, longer), "bad_file", ["a: offset 224: 1 more bytes needed"]
    shorter = struct.pack("<I", len(npy(A)) - 1)
    yield "deflated_shorter", in_directory(patched(DEFLATED, (22, shorter)), 24, shorter), "bad_file", ["a: offset 128: 96 bytes"]
    longer = archive([("a.npy", npy(A) + b"12")], zipfile.ZIP_DEFLATED)
    yield "deflated_more", in_directory(patched(longer, (22, struct.pack("<I", len(npy(A)) + 1))), 24, struct.pack("<I", len(npy(A)) + 1)), (
        "bad_file"), ["a: offset 225: the end of the member needed"]
    yield "deflate_damaged", patched(DEFLATED, (A_DATA + 20, b"\xff\xff\xff\xff\xff\xff")), "bad_file", ["a: offset"]
    yield "deflate_no_stream", patched(DEFLATED, (A_DATA, b"\xff\xff")), "bad_file", ["a: offset 0", "damaged compressed data found"]
    crc = patched(DEFLATED, (14, b"\1\2\3\4"))
    yield "wrong_crc", in_directory(crc, 16, b"\1\2\3\4"), "bad_file", ["the CRC-32 0x04030201 needed"]
    trailing = archive([("a.npy", npy(A) + bytes(99999) + b"1")], zipfile.ZIP_DEFLATED)
    yield "wrong_crc_behind", in_directory(patched(trailing, (14, b"\1\2\3\4")), 16, b"\1\2\3\4"), "bad_file", ["the CRC-32"]
    yield "not_npy", archive([("a", b"some text")]), "bad_file", ["a: offset 0", "'some t' found"]
    yield "no_bytes", archive([("a", b"")]), "bad_file", ["a: offset 0", "an empty file found"]
    yield "folder", archive([("a/", b""), ("a", b"")]), "bad_file", ["an empty file found"]
    yield "cut_header", archive([("a.npy", npy(A)[:50])]), "bad_file", ["a: offset"]
    for name, method in (("cut_data", zipfile.ZIP_STORED), ("cut_data_deflated", zipfile.ZIP_DEFLATED)):
        yield name, archive([("a.npy", npy(A)[:-1])], method), "bad_file", ["a: offset 128: 96 bytes", "95 found"]
    huge = npy(A).replace(b"(4, 6), }" + b" " * 14, b"(1000000, 1000000), }  ")
    assert len(huge) == len(npy(A))
    yield "header_of_more", archive([("a.npy", huge)], zipfile.ZIP_DEFLATED), "bad_file", [
        "a: offset 128: 4000000000000 bytes", "96 found"]
    yield "objects", archive([("a.npy", npy(np.array([{}])))]), "bad_file", ["a: offset"]


def describe(data):
    """What zipfile and NumPy say of a good archive."""
    members = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive_file:
        last = {info.filename: info for info in archive_file.infolist()}
        for info in archive_file.infolist():
            if last[info.filename] is not info:
                continue
            content = archive_file.read(info)
            file = io.BytesIO(content)
            version = npy_format.read_magic(file)
            read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
            shape, fortran_order, dtype = read(file, max_header_size=1 << 20)
            nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            name = info.filename
            members[name] = {
                "name": name[:-4] if name.endswith(".npy") else name, "file_name": name,
                "compressed": info.compress_type != zipfile.ZIP_STORED, "compressed_bytes": info.compress_size,
                "size_bytes": info.file_size, "crc32": info.CRC, "shape": list(shape), "fortran_order": fortran_order,
                "data": content[file.tell():file.tell() + nbytes].hex(), "trailing_bytes": info.file_size - file.tell() - nbytes}
    return list(members.values())


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    manifest = {"good": {}, "bad": {}, "bad_members": {}}

    def write(name, data):
        with open(os.path.join(folder, name + ".npz"), "wb") as file:
            file.write(data)

    for name, data in good_archives():
        write(name, data)
        manifest["good"][name] = describe(data)
    for kind, archives in (("bad", bad_archives()), ("bad_members", bad_members())):
        for name, data, code, parts in archives:
            write(name, data)
            manifest[kind][name] = {"code": code, "parts": parts}
    # Overlapping directories and other accidents would be a fault here, not in what reads them.
    assert len(manifest["good"]["names"]) == 11 and len(manifest["good"]["twice"]) == 2
    with open(os.path.join(folder, "manifest.json"), "w") as file:
        json.dump(manifest, file)


if __name__ == "__main__":
    main()
