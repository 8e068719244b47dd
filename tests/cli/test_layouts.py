"""Orders, shapes, offsets, headers, fields, raw files, streams: every way in which data may lie."""

import os
import struct
import subprocess

import numpy as np
import pytest

from support import COMMAND, assert_same, each_device, fail, run, succeed


def save_by_hand(path, header, data, version=(1, 0), pad=16):
    """A .npy file whose data starts where `pad` makes it start: at any position for 1."""
    length_bytes = 2 if version[0] == 1 else 4
    header = header.encode()
    header += b" " * (-(8 + length_bytes + len(header) + 1) % pad) + b"\n"
    length = struct.pack("<H" if length_bytes == 2 else "<I", len(header))
    path.write_bytes(b"\x93NUMPY" + bytes(version) + length + header + data)


@each_device
@pytest.mark.parametrize("orders", ["CC", "FF", "CF", "FC"])
def test_orders(tmp_path, device, orders):
    a = np.arange(60, dtype="i4").reshape(3, 4, 5)
    arrays = [np.asarray(values, order=order) for values, order in zip((a, a[::-1] * 7), orders)]
    np.save(tmp_path / "a.npy", arrays[0])
    np.save(tmp_path / "b.npy", arrays[1])
    succeed("add", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "out.npy", device=device)
    out = np.load(tmp_path / "out.npy")
    assert_same(out, arrays[0] + arrays[1])
    assert out.flags.f_contiguous == (orders == "FF")
    succeed("double", tmp_path / "a.npy", "-o", tmp_path / "out.npy", device=device)
    out = np.load(tmp_path / "out.npy")
    assert_same(out, 2 * arrays[0])
    assert out.flags.f_contiguous == (orders[0] == "F")


@each_device
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (1,) * 32, (2,) * 12])
def test_shapes(tmp_path, device, shape):
    values = np.full(shape, 1.5, "f8")
    np.save(tmp_path / "a.npy", values)
    succeed("add", tmp_path / "a.npy", tmp_path / "a.npy", "-o", tmp_path / "out.npy", device=device)
    assert_same(np.load(tmp_path / "out.npy"), values + values)
    assert (tmp_path / "out.npy").read_bytes()[:128] == (tmp_path / "a.npy").read_bytes()[:128]
    succeed("double", tmp_path / "a.npy", "-o", tmp_path / "out.npy", device=device)
    assert_same(np.load(tmp_path / "out.npy"), values + values)


@each_device
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16"])
@pytest.mark.parametrize("pad", [16, 1])
def test_old_headers_and_odd_offsets(tmp_path, device, dtype, pad):
    values = np.arange(101).astype(dtype)
    header = f"{{'descr': '{values.dtype.str}', 'fortran_order': False, 'shape': (101,)}}"
    save_by_hand(tmp_path / "a.npy", header, values.tobytes(), pad=pad)
    np.save(tmp_path / "b.npy", values)
    succeed("add", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "out.npy", device=device)
    assert_same(np.load(tmp_path / "out.npy"), values + values)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions(tmp_path, version):
    header = "{'shape': (2,), \"descr\": '<i4', 'fortran_order': False, }"
    save_by_hand(tmp_path / "a.npy", header, struct.pack("<ii", 3, -4), version)
    succeed("double", tmp_path / "a.npy", "-o", tmp_path / "out.npy", device="host")
    assert np.load(tmp_path / "out.npy").tolist() == [6, -8]


RECORD = np.dtype([("flag", "?"), ("x", "<f4"), ("inner", [("y", ">i2"), ("pair", "<u8", (2,))]), ("name", "S3"), ("a:b", "<f8")])


def records():
    values = np.zeros((3, 5), RECORD)
    values["x"] = np.arange(15).reshape(3, 5) / 4
    values["inner"]["y"] = np.arange(15).reshape(3, 5) * -1000
    values["inner"]["pair"] = np.arange(30).reshape(3, 5, 2)
    values["flag"] = values["x"] > 1
    values["name"] = b"abc"
    values["a:b"] = np.pi
    return values


@each_device
@pytest.mark.parametrize("name", ["x", "inner.y", "inner.pair", "flag", "a:b"])
def test_fields(tmp_path, device, name):
    values = records()
    np.save(tmp_path / "a.npy", values)
    field = values
    for part in name.split("."):
        field = field[part]
    field = field.astype(field.dtype.newbyteorder("="))
    np.save(tmp_path / "b.npy", field)
    succeed("add", f"{tmp_path}/a.npy:{name}", tmp_path / "b.npy", "-o", tmp_path / "out.npy", device=device)
    assert_same(np.load(tmp_path / "out.npy"), field + field)
    succeed("double", f"{tmp_path}/a.npy:{name}", "-o", tmp_path / "out.npy", device=device)
    assert_same(np.load(tmp_path / "out.npy"), field + field)


def test_a_file_goes_before_a_field(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(2, [("x", "f4")]))
    np.save(tmp_path / "plain.npy", np.ones(2))
    os.rename(tmp_path / "plain.npy", tmp_path / "a.npy:x")
    succeed("double", f"{tmp_path}/a.npy:x", "-o", tmp_path / "out.npy", device="host")
    assert np.load(tmp_path / "out.npy").tolist() == [2, 2]


def test_fields_that_are_no_numbers(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, records())
    out = ("-o", tmp_path / "out.npy")
    for command in (["double", path], ["add", path, path]):
        message = fail(*command, *out, naming=path, saying="structured")
        assert "'x', 'inner.y', 'inner.pair', 'name'" in message and "a.npy:FIELD" in message
    message = fail("double", f"{path}:inner", *out, naming=f"{path}:inner", saying="structured")
    assert "'y', 'pair'" in message and "a.npy:inner.FIELD" in message
    fail("double", f"{path}:name", *out, naming=f"{path}:name", saying="text")
    message = fail("double", f"{path}:nothing", *out, naming=f"{path}:nothing", saying="'nothing'")
    assert "'x'" in message
    np.save(path, np.array(["ab", "c"]))
    fail("double", path, *out, naming=path, saying="text")
    np.save(path, np.zeros(3, "V2"))
    fail("double", path, *out, naming=path, saying="--dtype")
    np.save(path, np.array(["2020-01-01"], "M8[D]"))
    fail("double", path, *out, naming=path, saying="--dtype int64")
    assert not (tmp_path / "out.npy").exists()


def test_dates_and_durations(tmp_path):
    # Numbers only where they are asked for: neither is what NumPy would give, and NaT is a number like others.
    path, out = tmp_path / "a.npy", tmp_path / "out.npy"
    for values in (np.array(["2020-01-01", "NaT"], "M8[D]"), np.array([1, -5, "NaT"], "m8[ns]"), np.array([3], ">m8[s]")):
        np.save(path, values)
        for command in (["double", path], ["add", path, path]):
            fail(*command, "-o", out, naming=path, saying="--dtype int64", device="host")
            fail(*command, "-o", out, "--dtype", "f8", naming=path, saying="int64", device="host")
        assert not out.exists()
        counts = values.astype("i8")
        succeed("double", path, "-o", out, "--dtype", "int64", device="host")
        assert_same(np.load(out), 2 * counts)
        succeed("add", path, path, "-o", out, "--dtype", "int64", device="host")
        assert_same(np.load(out), counts + counts)
        # In place they would be dates again, and NaT one of them.
        before = path.read_bytes()
        fail("double", path, "--in-place", naming=path, saying="--dtype int64", device="host")
        fail("double", path, "--in-place", "--dtype", "int64", naming=path, saying="NaT", device="host")
        np.save(tmp_path / "s.npy", np.zeros(2, [("t", values.dtype), ("x", "f4")]))
        fail("double", f"{tmp_path}/s.npy:t", "--in-place", "--dtype", "int64", naming=f"{tmp_path}/s.npy:t", saying="NaT", device="host")
        succeed("double", f"{tmp_path}/s.npy:x", "--in-place", device="host")
        assert path.read_bytes() == before
        os.remove(out)


def test_an_untyped_field(tmp_path):
    values = np.zeros(4, [("pad", "u1"), ("w", "V2")])
    values["w"] = np.array([0x3F80, 0x4000, 0xBF80, 0], "u2").view("V2")
    np.save(tmp_path / "a.npy", values)
    succeed("double", f"{tmp_path}/a.npy:w", "-o", tmp_path / "out.npy", "--dtype", "bf16", device="host")
    assert np.load(tmp_path / "out.npy").view("u2").tolist() == [0x4000, 0x4080, 0xC000, 0]


@each_device
@pytest.mark.parametrize("offset", [0, 1, 7, 64])
def test_raw_files(tmp_path, device, offset):
    values = np.arange(24, dtype="f4")
    path = tmp_path / "a.dat"
    path.write_bytes(b"x" * offset + values.tobytes() + b"")
    raw = ("--dtype", "f4", "--offset", str(offset))
    succeed("double", path, *raw, "-o", tmp_path / "out.npy", device=device)
    assert_same(np.load(tmp_path / "out.npy"), 2 * values)
    succeed("double", path, *raw, "--shape", "2,3,4", "-o", tmp_path / "out.npy", device=device)
    assert_same(np.load(tmp_path / "out.npy"), 2 * values.reshape(2, 3, 4))
    # What a name without a telling end holds is what the inputs are.
    for name in ("out", "out.raw", "out.bin"):
        succeed("double", path, *raw, "-o", tmp_path / name, device=device)
        assert (tmp_path / name).read_bytes() == (2 * values).tobytes()


def test_raw_shapes(tmp_path):
    np.arange(6, dtype="u2").tofile(tmp_path / "a.raw")
    for text, shape in {"2,3": (2, 3), "(2, 3)": (2, 3), "4": (4,), "4,": (4,), "()": (), "0,9": (0, 9)}.items():
        succeed("double", tmp_path / "a.raw", "--dtype", "u2", "--shape", text, "-o", tmp_path / "out.npy", device="host")
        assert np.load(tmp_path / "out.npy").shape == shape
    for text in ("0", "0,3"):
        (tmp_path / "none.raw").write_bytes(b"")
        succeed("double", tmp_path / "none.raw", "--dtype", "u2", "--shape", text, "-o", tmp_path / "out.npy", device="host")


def test_raw_and_npy_together(tmp_path):
    values = np.arange(6, dtype="f8")
    np.save(tmp_path / "a.npy", values)
    values.tofile(tmp_path / "b.raw")
    pair = (tmp_path / "a.npy", tmp_path / "b.raw", "--dtype", "f8")
    succeed("add", *pair, "-o", tmp_path / "out", device="host")
    assert_same(np.load(tmp_path / "out"), values + values)
    np.save(tmp_path / "f.npy", np.asfortranarray(values.reshape(2, 3)))
    succeed("double", tmp_path / "f.npy", "-o", tmp_path / "out.raw", device="host")
    assert (tmp_path / "out.raw").read_bytes() == (2 * values).tobytes()


@each_device
@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_standard_streams(tmp_path, device, name):
    values = np.arange(100_000, dtype="f4")
    np.save(tmp_path / "a.npy", values)
    data = (tmp_path / "a.npy").read_bytes()
    expected = data[:128] + (2 * values).tobytes()
    # From a pipe and from a file, to a pipe and to a file.
    assert succeed("double", name, "-o", "/dev/stdout", device=device, input=data) == expected
    assert succeed("double", name, "-o", "-", device=device, input=data) == expected
    with open(tmp_path / "a.npy", "rb") as source, open(tmp_path / "out.npy", "wb") as target:
        succeed("add", name, tmp_path / "a.npy", "-o", "-", device=device, stdin=source, stdout=target)
    assert (tmp_path / "out.npy").read_bytes() == expected
    assert succeed("double", name, "-o", "-", "--dtype", "f4", device=device, input=values.tobytes()) == (2 * values).tobytes()
    np.save(tmp_path / "r.npy", records())
    with open(tmp_path / "r.npy", "rb") as source:
        succeed("double", "/dev/stdin:x", "-o", tmp_path / "out.npy", device=device, stdin=source)
    assert_same(np.load(tmp_path / "out.npy"), 2 * records()["x"])


def test_named_pipes(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(50_000))
    os.mkfifo(tmp_path / "in")
    os.mkfifo(tmp_path / "out")
    with subprocess.Popen([COMMAND, "double", tmp_path / "in", "-o", tmp_path / "out", "--device", "host"]) as process:
        (tmp_path / "in").write_bytes((tmp_path / "a.npy").read_bytes())
        written = (tmp_path / "out").read_bytes()
        assert process.wait(timeout=60) == 0
    (tmp_path / "b.npy").write_bytes(written)
    assert_same(np.load(tmp_path / "b.npy"), 2 * np.arange(50_000))


def test_bytes_behind_the_data(tmp_path):
    np.save(tmp_path / "a.npy", np.ones(3))
    with open(tmp_path / "a.npy", "ab") as file:
        file.write(b"more")
    succeed("double", tmp_path / "a.npy", "-o", tmp_path / "out.npy", device="host")
    assert np.load(tmp_path / "out.npy").tolist() == [2, 2, 2]
    os.remove(tmp_path / "out.npy")
    fail("double", tmp_path / "a.npy", "-o", tmp_path / "out.npy", "--strict", device="host", naming=tmp_path / "a.npy", saying="4 ")
    fail("double", tmp_path / "a.npy", "--in-place", "--strict", device="host", naming=tmp_path / "a.npy", saying="4 ")
    (tmp_path / "a.raw").write_bytes(bytes(9))
    for path, options, count in ((tmp_path / "a.npy", [], "4 bytes"), (tmp_path / "a.raw", ["--dtype", "u1", "--shape", "2,4"], "1 byte")):
        for target, fate in ((["-o", tmp_path / "new.npy"], "left out"), (["--in-place"], "kept")):
            told = run("double", path, *options, *target, "-v", device="host").stderr.decode().splitlines()
            assert told[0] == f"{path}: {count} behind the data, {fate}" and len(told) == 2
        told = run("add", path, path, *options, "-o", path, "-v", device="host").stderr.decode().splitlines()
        assert told[:2] == [f"{path}: {count} behind the data, left out"] * 2 and len(told) == 3
        assert run("double", path, *options, "--in-place", "-v", device="host").stderr.count(b"\n") == 1
    (tmp_path / "a.raw").write_bytes(bytes(9))
    raw = ("--dtype", "u1", "--shape", "2,4", "--strict")
    fail("double", tmp_path / "a.raw", *raw, "-o", tmp_path / "out.npy", device="host", naming=tmp_path / "a.raw", saying="1 more")
    assert not (tmp_path / "out.npy").exists()


@each_device
@pytest.mark.parametrize("dtype", ["?", "u1", "<i2", ">i2", ">f4", "<f8", ">c8", ">c16", ">f2"])
@pytest.mark.parametrize("order", "CF")
def test_in_place(tmp_path, device, dtype, order):
    values = np.asarray(np.arange(35).reshape(5, 7) % 3, dtype, order=order)
    path = tmp_path / "a.npy"
    np.save(path, values)
    os.chmod(path, 0o640)
    header = path.read_bytes()[:128]
    with open(path, "ab") as file:
        file.write(b"trailing")
    succeed("double", path, "--in-place", device=device)
    found = path.read_bytes()
    assert found[:128] == header and found.endswith(b"trailing")
    assert_same(np.load(path), (values + values).astype(dtype))
    assert found[128:-8] == (values + values).astype(dtype).tobytes("A")
    assert os.stat(path).st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["a.npy"]


@each_device
def test_in_place_fields(tmp_path, device):
    path = tmp_path / "a.npy"
    for name in ("inner.y", "inner.pair", "x", "a:b"):
        values = records()
        np.save(path, values)
        succeed("double", f"{path}:{name}", "--in-place", device=device)
        changed = values
        *outer, last = name.split(".")
        for part in outer:
            changed = changed[part]
        changed[last] *= 2
        assert np.load(path).tobytes() == values.tobytes()


@each_device
def test_in_place_raw(tmp_path, device):
    path = tmp_path / "a.raw"
    path.write_bytes(b"abc" + np.arange(10, dtype="i4").tobytes() + b"z")
    succeed("double", path, "--in-place", "--dtype", "i4", "--offset", "3", "--shape", "10", device=device)
    assert path.read_bytes() == b"abc" + (2 * np.arange(10, dtype="i4")).tobytes() + b"z"


def test_in_place_of_nothing_and_of_links(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((0, 3), ">f4"))
    before = (tmp_path / "a.npy").read_bytes()
    succeed("double", tmp_path / "a.npy", "--in-place", device="host")
    assert (tmp_path / "a.npy").read_bytes() == before
    np.save(tmp_path / "b.npy", np.ones(3))
    os.symlink("b.npy", tmp_path / "link.npy")
    succeed("double", tmp_path / "link.npy", "--in-place", device="host")
    assert os.path.islink(tmp_path / "link.npy")
    # A new file takes the old one's place.
    np.save(tmp_path / "c.npy", np.ones(3))
    os.link(tmp_path / "c.npy", tmp_path / "hard c.npy")
    succeed("double", tmp_path / "c.npy", "--in-place", device="host")
    assert np.load(tmp_path / "c.npy").tolist() == [2, 2, 2] and np.load(tmp_path / "hard c.npy").tolist() == [1, 1, 1]
    assert np.load(tmp_path / "b.npy").tolist() == [2, 2, 2]


def test_output_over_an_input(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(1000))
    succeed("add", tmp_path / "a.npy", tmp_path / "a.npy", "-o", tmp_path / "a.npy", device="host")
    assert np.load(tmp_path / "a.npy").tolist() == (2 * np.arange(1000)).tolist()
