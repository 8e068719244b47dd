"""--memory: the same results from every kind of memory, in place where that can be had, and the reason where it can't."""

import io
import os
import subprocess
import time

import numpy as np
import pytest

from support import (COMMAND, assert_same, contents, each_device, each_dtype, fail, fail_usage, full_spec, numpy_add, operands, reaches, run,
                     succeed, without_privileges)

each_kind = pytest.mark.parametrize("kind", ["device", "pinned", "shared", "adopted"])


def told_by(*arguments, **options):
    """What -v told, of a run that went well."""
    done = run(*arguments, "-v", **options)
    assert done.returncode == 0, done.stderr.decode()
    return done.stderr.decode()


def is_in_place(path, device):
    return reaches(path)[full_spec(device)]["zero_copy"] != "no"


@each_device
@each_kind
@each_dtype
def test_kinds(tmp_path, device, kind, dtype):
    left, right = operands(dtype, count=300)
    np.save(tmp_path / "a.npy", left)
    np.save(tmp_path / "b.npy", right)
    np.save(tmp_path / "swapped.npy", right.astype(right.dtype.newbyteorder(">")))
    for name in ("b.npy", "swapped.npy"):
        succeed("add", tmp_path / "a.npy", tmp_path / name, "-o", tmp_path / "out.npy", "--memory", kind, device=device)
        assert_same(np.load(tmp_path / "out.npy"), numpy_add(left, right))
    succeed("double", tmp_path / "a.npy", "-o", tmp_path / "out.npy", "--memory", kind, device=device)
    assert_same(np.load(tmp_path / "out.npy"), numpy_add(left, left))


@each_device
@each_kind
def test_raw_files_orders_and_nothing(tmp_path, device, kind):
    values = np.arange(24, dtype="i4").reshape(2, 3, 4)
    memory = ("--memory", kind)
    (tmp_path / "a.raw").write_bytes(b"odd" + values.tobytes())
    succeed("double", tmp_path / "a.raw", "--dtype", "i4", "--offset", "3", "--shape", "2,3,4", "-o", tmp_path / "out.npy", *memory,
            device=device)
    assert_same(np.load(tmp_path / "out.npy"), 2 * values)
    for stored in (np.asfortranarray(values), values[:, :0], np.array(3)):
        np.save(tmp_path / "a.npy", stored)
        succeed("double", tmp_path / "a.npy", "-o", tmp_path / "out.npy", *memory, device=device)
        assert_same(np.load(tmp_path / "out.npy"), stored + stored)
        assert np.load(tmp_path / "out.npy").flags.f_contiguous == stored.flags.f_contiguous


@each_device
@each_kind
@pytest.mark.parametrize("order", "CF")
def test_fields(tmp_path, device, kind, order):
    dtype = np.dtype([("flag", "?"), ("x", "<f4"), ("inner", [("y", ">i2"), ("pair", "<u8", (2,))]), ("w", "V2")])
    values = np.zeros((3, 5), dtype, order=order)
    values["x"] = np.arange(15).reshape(3, 5)
    values["inner"]["y"] = -values["x"]
    values["inner"]["pair"] = np.arange(30).reshape(3, 5, 2)
    values["flag"] = values["x"] > 3
    path = tmp_path / "a.npy"
    np.save(path, values)
    for name, field in {"x": values["x"], "inner.y": values["inner"]["y"], "inner.pair": values["inner"]["pair"],
                        "flag": values["flag"]}.items():
        told = told_by("double", f"{path}:{name}", "-o", tmp_path / "out.npy", "--memory", kind, device=device)
        field = field.astype(field.dtype.newbyteorder("="))
        assert_same(np.load(tmp_path / "out.npy"), field + field)
        if kind == "adopted":
            reason = {"inner.y": "big-endian", "flag": "bools"}.get(name, "in place" if is_in_place(path, device) else "copied")
            assert reason in told
    values["w"] = np.full((3, 5), 0x3F80, "u2").view("V2")
    np.save(path, values)
    succeed("double", f"{path}:w", "--dtype", "bf16", "-o", tmp_path / "out.npy", "--memory", kind, device=device)
    assert (np.load(tmp_path / "out.npy").view("u2") == 0x4000).all()


@each_device
def test_where_the_data_was(tmp_path, device):
    values = np.arange(5, dtype="f4")
    for name, stored in {"plain": values, "swapped": values.astype(">f4"), "bools": values > 2}.items():
        np.save(tmp_path / f"{name}.npy", stored)
    bools = np.array([0, 1, 2, 255], "u1")
    bools.tofile(tmp_path / "bools.raw")
    out = ("-o", tmp_path / "out.npy")
    in_place = is_in_place(tmp_path / "plain.npy", device)
    told = told_by("add", tmp_path / "plain.npy", tmp_path / "swapped.npy", *out, "--memory", "adopted", device=device)
    assert told.count("\n") == 1 and ("in place: " in told) == in_place
    assert f"loaded from {tmp_path}/swapped.npy: its elements are big-endian" in told
    for name, options in (("bools.npy", []), ("bools.raw", ["--dtype", "bool"])):
        assert "its bools may be" in told_by("double", tmp_path / name, *options, *out, "--memory", "adopted", device=device)
    assert np.load(tmp_path / "out.npy").tolist() == [False, True, True, True]
    for kind in ("device", "pinned", "shared"):
        told = told_by("double", tmp_path / "plain.npy", *out, "--memory", kind, device=device)
        assert f"loaded from {tmp_path}/plain.npy" in told
        if device.startswith("host"):
            assert f"{kind} memory of host:0" in told


@each_device
def test_streams(tmp_path, device):
    # What is kept of a stream is a file too, which messages call by the stream's name.
    values = np.arange(1000, dtype="f4")
    file = io.BytesIO()
    np.save(file, values)
    out = tmp_path / "out.npy"
    for data, options in ((file.getvalue(), []), (values.tobytes(), ["--dtype", "f4"])):
        told = told_by("double", "-", *options, "-o", out, "--memory", "adopted", input=data, device=device)
        assert "/dev/stdin" in told and "/proc/" not in told and "memfd" not in told
        assert_same(np.load(out), 2 * values)
        (tmp_path / "in").write_bytes(data)
        with open(tmp_path / "in", "rb") as source:
            succeed("double", "-", *options, "-o", out, "--memory", "adopted", stdin=source, device=device)
        assert_same(np.load(out), 2 * values)


@each_device
@pytest.mark.parametrize("dtype", ["?", "u1", "<i2", ">i2", "<f8", ">c8"])
def test_in_place_on_the_file_itself(tmp_path, device, dtype):
    values = np.asarray(np.arange(3000) % 3, dtype)
    path = tmp_path / "a.npy"
    np.save(path, values)
    header = path.read_bytes()[:128]
    with open(path, "ab") as file:
        file.write(b"trailing")
    os.link(path, tmp_path / "link.npy")
    told = told_by("double", path, "--in-place", "--memory", "adopted", device=device)
    expected = header + (values + values).astype(dtype).tobytes() + b"trailing"
    assert path.read_bytes() == expected
    replaced = f"{path}: not written to, but replaced by a new file: "
    if dtype[0] in ">?":
        assert replaced + "its " in told
    elif device.startswith("host"):
        assert replaced not in told and "in place: a file mapping" in told
    # Only a file that is written to stays the one that its other names lead to.
    assert os.path.samefile(path, tmp_path / "link.npy") == (replaced not in told)
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "link.npy"]


@each_device
def test_in_place_of_fields_raw_files_and_nothing(tmp_path, device):
    memory = ("--in-place", "--memory", "adopted")
    values = np.zeros(7, [("flag", "?"), ("x", "<f4"), ("y", ">i2")])
    values["x"], values["y"], values["flag"] = np.arange(7), np.arange(7), True
    np.save(tmp_path / "a.npy", values)
    for name in ("x", "y"):
        succeed("double", f"{tmp_path}/a.npy:{name}", *memory, device=device)
        values[name] *= 2
        assert np.load(tmp_path / "a.npy").tobytes() == values.tobytes()
    counts = np.arange(10, dtype="i4")
    (tmp_path / "a.raw").write_bytes(b"abc" + counts.tobytes() + b"z")
    succeed("double", tmp_path / "a.raw", *memory, "--dtype", "i4", "--offset", "3", "--shape", "10", device=device)
    assert (tmp_path / "a.raw").read_bytes() == b"abc" + (2 * counts).tobytes() + b"z"
    np.save(tmp_path / "none.npy", np.zeros((0, 3)))
    before = (tmp_path / "none.npy").read_bytes()
    succeed("double", tmp_path / "none.npy", *memory, device=device)
    assert (tmp_path / "none.npy").read_bytes() == before


def test_in_place_that_fails(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(5.0))
    os.chmod(path, 0o400)
    before = contents(tmp_path)
    arguments = ("double", path, "--in-place", "--memory", "adopted")
    fail(*arguments, naming=path, saying="Permission denied", device="host", preexec_fn=without_privileges)
    fail(*arguments, "--dtype", "f4", naming=path, saying="float64", device="host")
    os.chmod(path, 0o600)
    fail("double", tmp_path / "missing.npy", "--in-place", "--memory", "adopted", naming=tmp_path / "missing.npy", device="host")
    fail_usage("double", "-", "--in-place", "--memory", "adopted", input=b"", saying="/dev/stdin")
    assert contents(tmp_path) == before


def test_kinds_that_are_not_there(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(5.0))
    for kind in ("streams", "", "Device", "?"):
        fail_usage("double", tmp_path / "a.npy", "-o", tmp_path / "out.npy", "--memory", kind,
                   saying=f"--memory '{kind}': there are device, pinned, shared, adopted, stream")
    for command in ("add", "double"):
        assert b"device, pinned, shared, adopted" in succeed(command, "--help")
    assert b"not atomic" in b" ".join(succeed("double", "--help").split())


def test_a_file_that_is_truncated_while_it_is_used_in_place(tmp_path):
    # The second input comes by a pipe, so that the first is mapped, and not yet read, for as long as this test likes.
    path, pipe = tmp_path / "a.npy", tmp_path / "pipe"
    np.save(path, np.zeros(1 << 20, "u1"))
    data = path.read_bytes()
    # Its name leads to a whole file again when the command asks for its size.
    os.link(path, tmp_path / "mapped.npy")
    (tmp_path / "copy.npy").write_bytes(data)
    os.mkfifo(pipe)
    with subprocess.Popen([COMMAND, "add", path, pipe, "-o", tmp_path / "out.npy", "--memory", "adopted", "--device", "host"],
                          stderr=subprocess.PIPE) as process:
        with open(pipe, "wb") as writer:
            writer.write(data[:1000])
            writer.flush()
            deadline = time.monotonic() + 60
            while str(path) not in open(f"/proc/{process.pid}/maps").read() and time.monotonic() < deadline:
                time.sleep(0.01)
            os.replace(tmp_path / "copy.npy", path)
            os.truncate(tmp_path / "mapped.npy", 1000)
            writer.write(data[1000:])
        message = process.stderr.read().decode()
        assert process.wait(timeout=60) == 1, message
    assert message.startswith(f"tandem: add {path} {pipe}: ") and "shorter" in message and message.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "mapped.npy", "pipe"]
