"""Archives: members as inputs, archives as outputs, and what info tells of them; against NumPy and Python's zipfile."""

import io
import json
import os
import struct
import subprocess
import zipfile
import zlib

import numpy as np
import pytest

from support import COMMAND, DEVICES, DTYPES, assert_same, contents, fail, fail_usage, full_spec, numpy_add, operands, reaches, succeed

each_device = pytest.mark.parametrize("device", DEVICES)
SAVES = {"stored": np.savez, "deflated": np.savez_compressed}
each_save = pytest.mark.parametrize("save", SAVES.values(), ids=SAVES)

A = np.arange(1000, dtype="f4").reshape(10, 100)
B = np.linspace(-1, 1, 1000, dtype="f4").reshape(10, 100)


def info(path, *arguments, **options):
    return json.loads(succeed("info", path, "--json", *arguments, **options))


@pytest.fixture
def folder(tmp_path):
    """a.npz with arrays of many kinds, stored, and c.npz with the same, deflated."""
    records = np.zeros(7, [("x", "<f4"), ("inner", [("y", ">i2")])])
    records["x"], records["inner"]["y"] = np.arange(7), np.arange(7) - 3
    arrays = {"a": A, "b": B, "fortran": np.asfortranarray(A), "big": A.astype(">f4"), "dir/deep": B, "with:colon": A, "records": records,
              "untyped": np.array([b"\x80\x3f"] * 3, "V2"), "none": np.zeros((0, 3), "f4"), "scalar": np.array(2.5, "f4")}
    np.savez(tmp_path / "a.npz", **arrays)
    np.savez_compressed(tmp_path / "c.npz", **arrays)
    return tmp_path


@each_device
@each_save
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(tmp_path, device, save, dtype):
    if dtype in ("float64", "complex128") and device.startswith("opencl") and not has_float64(device):
        pytest.skip("no double precision")
    left, right = operands(dtype)
    save(tmp_path / "x.npz", a=left, b=right)
    for memory in ("device", "adopted"):
        succeed("add", tmp_path / "x.npz:a", tmp_path / "x.npz:b", "-o", tmp_path / "out.npz:sum", "--device", device, "--memory", memory)
        with np.load(tmp_path / "out.npz") as written:
            assert written.files == ["sum"]
            assert_same(written["sum"], numpy_add(left, right))
        os.remove(tmp_path / "out.npz")


def has_float64(device):
    listed = json.loads(succeed("devices", "--json"))
    return any(found["has_float64"] for backend in listed for found in backend["devices"] if found["spec"] == full_spec(device))


@each_device
@pytest.mark.parametrize("name", ["a.npz", "c.npz"])
@pytest.mark.parametrize("member, values", [
    ("a", A), ("a.npy", A), ("fortran", A), ("big", A), ("dir/deep", B), ("with:colon", A), ("none", np.zeros((0, 3), "f4")),
    ("scalar", np.array(2.5, "f4")), ("records:x", np.arange(7, dtype="f4")), ("records:inner.y", np.arange(7, dtype="i2") - 3),
])
def test_members(folder, device, name, member, values):
    for memory in ("device", "adopted"):
        succeed("double", f"{folder / name}:{member}", "-o", folder / "out.npy", "--device", device, "--memory", memory)
        np.testing.assert_array_equal(np.load(folder / "out.npy"), values + values)


@pytest.mark.parametrize("name", ["a.npz", "c.npz"])
def test_untyped_members(folder, name):
    path = f"{folder / name}:untyped"
    fail("double", path, "-o", folder / "out.npy", "--device", "host", naming=path, saying="have no type")
    succeed("double", path, "--dtype", "bfloat16", "-o", folder / "out.raw", "--device", "host")
    assert (folder / "out.raw").read_bytes() == b"\x00\x40" * 3
    assert info(path, "--dtype", "bfloat16")["dtype"] == "bfloat16"


def test_members_mix_with_files(folder):
    np.save(folder / "b.npy", B)
    succeed("add", f"{folder}/c.npz:a", folder / "b.npy", "-o", folder / "out.npy", "--device", "host")
    np.testing.assert_array_equal(np.load(folder / "out.npy"), A + B)
    for name in ("a.npz", "c.npz"):
        data = (folder / name).read_bytes()
        succeed("add", "/dev/stdin:a", folder / "b.npy", "-o", folder / "out.npy", "--device", "host", input=data)
        np.testing.assert_array_equal(np.load(folder / "out.npy"), A + B)
        assert [member["name"] for member in info("-", input=data)["members"]] == np.load(folder / name).files


def test_where_members_are(folder):
    for name, saying in (("a.npz", "in place: a file mapping, on host:0"), ("c.npz", "compressed, and is inflated into memory")):
        done = succeed_saying("double", f"{folder / name}:a", "-o", folder / "out.npy", "--device", "host", "--memory", "adopted", "-v")
        assert saying in done and f"{folder / name}:a" in done


def succeed_saying(*arguments):
    """What a command that succeeds tells about it."""
    done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, check=True)
    return done.stderr.decode()


def test_a_file_that_has_the_name_wins(folder):
    np.save(folder / "out.npy", B)
    os.rename(folder / "out.npy", folder / "a.npz:a")
    succeed("double", folder / "a.npz:a", "-o", folder / "out.npy", "--device", "host")
    np.testing.assert_array_equal(np.load(folder / "out.npy"), B + B)
    succeed("double", folder / "out.npy", "-o", folder / "a.npz:a", "--device", "host")
    np.testing.assert_array_equal(np.load(folder / "a.npz:a"), 4 * B)
    np.testing.assert_array_equal(np.load(folder / "a.npz")["a"], A)


@each_save
def test_info_of_an_archive(tmp_path, save):
    arrays = {"a": A, "fortran": np.asfortranarray(A), "big": A.astype(">f8"), "text": np.array(["ab"])}
    save(tmp_path / "x.npz", **arrays)
    with zipfile.ZipFile(tmp_path / "x.npz", "a") as archive:
        archive.writestr("read\nme", "hello")
        listed = archive.infolist()
    told = info(tmp_path / "x.npz")
    assert told["format"] == "npz" and told["nbytes"] == os.path.getsize(tmp_path / "x.npz") and "devices" not in told
    assert [member["name"] for member in told["members"]] == [*arrays, "read\nme"]
    for member, entry in zip(told["members"], listed):
        assert member["file_name"] == entry.filename and member["compressed"] == (entry.compress_type != zipfile.ZIP_STORED)
        assert member["compressed_bytes"] == entry.compress_size and member["size_bytes"] == entry.file_size
        alone = f"{tmp_path / 'x.npz'}:{entry.filename}"
        if entry.filename == "read\nme":
            assert member["format"] is None and member["shape"] is None and "'hello' found" in member["error"]
            continue
        values = arrays[member["name"]]
        assert member["error"] is None and member["format"] == "npy" and member["version"] == [1, 0]
        assert member["descr"] == values.dtype.str and member["shape"] == list(values.shape) and member["nbytes"] == values.nbytes
        assert member["fortran_order"] == (values.flags.f_contiguous and not values.flags.c_contiguous)
        # A stored member's data offset is where others can map it.
        content = zipfile.ZipFile(tmp_path / "x.npz").read(entry) if member["compressed"] else (tmp_path / "x.npz").read_bytes()
        data = content[member["data_offset"]:member["data_offset"] + member["nbytes"]]
        assert data == values.tobytes("A")
        assert member["cached_bytes"] == (None if member["compressed"] else values.nbytes)
        told_alone = info(alone)
        told_alone.pop("devices")
        assert told_alone == member
    text = succeed("info", tmp_path / "x.npz").decode()
    assert "members " in text and "read\\nme" in text and "can't be read" in text and "(10, 100) float32 (<f4)" in text
    assert ("compressed, " if save is np.savez_compressed else "stored, ") in text
    text = succeed("info", f"{tmp_path / 'x.npz'}:a").decode()
    assert ("in the inflated member" if save is np.savez_compressed else "in the archive") in text


def test_info_says_how_devices_reach_members(folder):
    assert reaches(f"{folder}/a.npz:a")["host:0"]["zero_copy"] == "yes"
    for reach in reaches(f"{folder}/c.npz:a").values():
        assert reach["zero_copy"] == "no" and "inflated into memory" in reach["residency"]
    assert {reach["residency"] for reach in reaches(f"{folder}/c.npz:none").values()} == {"no bytes"}


def test_what_is_written(tmp_path):
    np.save(tmp_path / "a.npy", A)
    for out, member in (("out.npz", "arr_0"), ("out2.npz:dir/x", "dir/x"), ("out3.npz:\u00e9", "\u00e9"), ("out4.npz:", ""),
                        ("out5.npz:a:b", "a:b")):
        succeed("double", tmp_path / "a.npy", "-o", tmp_path / out, "--device", "host")
        path = tmp_path / out.split(":")[0]
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            assert [entry.filename for entry in archive.infolist()] == [member + ".npy"]
            assert archive.infolist()[0].date_time == (1980, 1, 1, 0, 0, 0)
        np.testing.assert_array_equal(np.load(path)[member], A + A)
        assert info(path)["members"][0]["data_offset"] % 64 == 0
    # As a whole, as every output is; but what names a member would not be understood so.
    succeed("double", tmp_path / "out.npz:arr_0", "-o", tmp_path / "out.npz", "--device", "host")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["arr_0"], 4 * A)
    before = contents(tmp_path)
    for out in ("out.npz:b", "out.npz:arr_0"):
        fail("double", tmp_path / "a.npy", "-o", tmp_path / out, "--device", "host", naming=f"{tmp_path / out}: there is out.npz already")
    fail("double", tmp_path / "a.npy", "-o", tmp_path / "none/out.npz:b", "--device", "host", naming=tmp_path / "none/out.npz")
    assert contents(tmp_path) == before


def test_refusals(folder):
    before = contents(folder)
    out = folder / "out.npy"
    for name in ("a.npz", "c.npz"):
        path = folder / name
        fail("double", path, "-o", out, "--device", "host", naming=path, saying="'a', 'b', 'fortran'")
        fail("double", path, "-o", out, "--device", "host", naming=path, saying=f"name one as {name}:MEMBER")
        fail("double", f"{path}:missing", "-o", out, "--device", "host", naming=path, saying="no member 'missing'; there are 'a', 'b'")
        fail("double", f"{path}:a:x", "-o", out, "--device", "host", naming=f"{path}:a:x", saying="no field 'x'")
        fail("double", f"{path}:records", "-o", out, "--device", "host", naming=f"{path}:records", saying=f"name one as {name}:records:FIELD")
        fail("double", f"{path}:a", "--in-place", "--device", "host", naming=f"{path}:a", saying="an archive's member can't; use -o")
        fail("double", path, "--in-place", "--device", "host", naming=path, saying="use -o")
        fail("info", f"{path}:records:x", naming=f"{path}:records:x", saying="whole files")
        fail("add", f"{path}:a", f"{path}:records:x", "-o", out, "--device", "host", naming=f"{path}:records:x", saying="must be equal")
        fail_usage("double", f"{path}:a", "--shape", "3", "--dtype", "f4", "-o", out, saying="--shape is for raw files")
    np.savez(folder / "empty.npz")
    fail("double", folder / "empty.npz", "-o", out, "--device", "host", naming=folder / "empty.npz", saying="an archive without members")
    os.remove(folder / "empty.npz")
    (folder / "text.npz").write_text("no archive")
    fail("info", folder / "text.npz", naming=folder / "text.npz", saying="no .npz archive")
    fail("double", folder / "none.npz", "-o", out, "--device", "host", naming=folder / "none.npz", saying="No such file")
    os.remove(folder / "text.npz")
    assert contents(folder) == before


def test_trailing_bytes_of_members(tmp_path):
    file = io.BytesIO()
    np.save(file, A)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "x.npz", "w", method) as archive:
            archive.writestr("a.npy", file.getvalue() + b"more")
        path = f"{tmp_path / 'x.npz'}:a"
        assert "4 bytes behind the data, left out" in succeed_saying("double", path, "-o", tmp_path / "out.npy", "-v", "--device", "host")
        fail("double", path, "-o", tmp_path / "out.npy", "--strict", "--device", "host", naming=path, saying="4 more bytes found")
        assert info(path)["trailing_bytes"] == 4


def test_more_memory_than_there_is(tmp_path):
    """A directory that is believable, and a header that agrees: a tebibyte of zeros takes a gibibyte when deflated."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 40,)})
    compressor = zlib.compressobj(wbits=-15)
    start = compressor.compress(header.getvalue() + bytes(1000)) + compressor.flush(zlib.Z_FULL_FLUSH)
    size, compressed = len(header.getvalue()) + (1 << 40), 1 << 31
    extra = struct.pack("<HHQQ", 1, 16, size, compressed)
    tail = struct.pack("<HHHHHIIIHH", 45, 0, 8, 0, 0x21, 0, 0xffffffff, 0xffffffff, 5, len(extra))
    with open(tmp_path / "x.npz", "wb") as file:
        file.write(b"PK\3\4" + tail + b"a.npy" + extra + start)
        at = 30 + 5 + len(extra) + compressed
        file.truncate(at)
        file.seek(at)
        record = b"PK\1\2\x2d\3" + tail + bytes(14) + b"a.npy" + extra
        file.write(record + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(record), at, 0))
    path = f"{tmp_path / 'x.npz'}:a"
    assert info(path)["nbytes"] == 1 << 40
    fail("double", path, "-o", tmp_path / "out.npy", "--device", "host", naming=path, saying="bytes needed to inflate it into")


def test_beyond_four_gibibytes(tmp_path):
    """A sparse archive: what lies behind 4 GiB has 64-bit offsets, and what is larger 64-bit sizes."""
    large = io.BytesIO()
    np.lib.format.write_array_header_1_0(large, {"descr": "|u1", "fortran_order": False, "shape": (5 << 30,)})
    small = io.BytesIO()
    np.save(small, A)
    path = tmp_path / "x.npz"
    records = b""
    with open(path, "wb") as file:
        for name, content, size in ((b"large.npy", large.getvalue(), len(large.getvalue()) + (5 << 30)),
                                    (b"small.npy", small.getvalue(), len(small.getvalue()))):
            offset, sizes = file.tell(), struct.pack("<QQ", size, size)
            crc = zlib.crc32(content)  # of the large one nobody looks at it
            tail = struct.pack("<HHHHHIIIH", 45, 0, 0, 0, 0x21, crc, 0xffffffff, 0xffffffff, len(name))
            file.write(b"PK\3\4" + tail + struct.pack("<H", 20) + name + struct.pack("<HH", 1, 16) + sizes + content)
            file.seek(size - len(content), os.SEEK_CUR)
            records += b"PK\1\2\x2d\3" + tail + struct.pack("<H", 28) + bytes(10) + b"\xff\xff\xff\xff" + name + struct.pack(
                "<HH", 1, 24) + sizes + struct.pack("<Q", offset)
        at = file.tell()
        file.write(records + b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 2, 2, len(records), at))
        file.write(b"PK\6\7" + struct.pack("<IQI", 0, at + len(records), 1))
        file.write(b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 2, 2, 0xffffffff, 0xffffffff, 0))
    assert os.stat(path).st_blocks < 10000
    with np.load(path) as expected:
        np.testing.assert_array_equal(expected["small"], A)
    members = {member["name"]: member for member in info(path)["members"]}
    assert members["large"]["nbytes"] == 5 << 30 and members["small"]["data_offset"] > 5 << 30
    assert reaches(f"{path}:large")["host:0"]["zero_copy"] == "yes"
    for memory in ("device", "adopted"):
        succeed("double", f"{path}:small", "-o", tmp_path / "out.npy", "--device", "host", "--memory", memory)
        np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), A + A)
