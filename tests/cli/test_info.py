"""tandem info: what it tells of every kind of file, as JSON and for a person."""

import io
import json
import os

import numpy as np
import pytest

from support import DEVICES, DTYPES, fail, fail_usage, full_spec, reaches, succeed

KEYS = ["format", "version", "descr", "dtype", "shape", "fortran_order", "data_offset", "nbytes", "trailing_bytes", "cached_bytes"]


def info(path, *arguments, **options):
    told = json.loads(succeed("info", path, "--json", *arguments, **options))
    assert list(told)[:10] == KEYS
    assert [key for key in list(told)[10:] if key not in ("item_shape", "fields", "devices", "members")] == []
    told.pop("devices", None)  # other tests look at them
    return told


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", "CF")
def test_npy(tmp_path, dtype, order):
    values = np.zeros((3, 4), dtype, order=order)
    np.save(tmp_path / "a.npy", values)
    assert info(tmp_path / "a.npy") == {
        "format": "npy", "version": [1, 0], "descr": values.dtype.str, "dtype": dtype, "shape": [3, 4],
        "fortran_order": order == "F", "data_offset": 128, "nbytes": values.nbytes, "trailing_bytes": 0,
        "cached_bytes": values.nbytes,
    }


@pytest.mark.parametrize("values, dtype", [
    (np.zeros(2, ">f4"), "float32"),
    (np.zeros(2, ">c16"), "complex128"),
    (np.array(["2020"], "M8[ns]"), "int64"),
    (np.array(["ab"], "U"), None),
    (np.array([b"ab"], "S"), None),
    (np.zeros(2, "V2"), None),
    (np.zeros(2, "S0"), None),
    (np.zeros((), "f8"), "float64"),
    (np.zeros((0, 7), "i2"), "int16"),
])
def test_other_types(tmp_path, values, dtype):
    np.save(tmp_path / "a.npy", values)
    with open(tmp_path / "a.npy", "rb") as file:
        version = np.lib.format.read_magic(file)
        shape, fortran_order, stored = np.lib.format.read_array_header_1_0(file)
        offset = file.tell()
    told = info(tmp_path / "a.npy")
    assert told["version"] == list(version) and told["shape"] == list(shape) and told["dtype"] == dtype
    assert told["descr"] == stored.str and told["data_offset"] == offset and told["nbytes"] == values.nbytes
    assert told["fortran_order"] == fortran_order


def test_untyped_items_that_are_said_to_be_something(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(2, "V2"))
    assert info(tmp_path / "a.npy", "--dtype", "bf16")["dtype"] == "bfloat16"


def test_structured(tmp_path):
    dtype = np.dtype([("x", "<f4"), ("inner", [("y", ">i2"), ("z", "<u8", (2, 3))]), (("a title", "t"), "S3")], align=True)
    np.save(tmp_path / "a.npy", np.zeros(5, dtype))
    told = info(tmp_path / "a.npy")
    assert told["dtype"] is None and told["nbytes"] == 5 * dtype.itemsize

    def check(fields, expected):
        assert [field["name"] for field in fields] == list(expected.names)
        for field in fields:
            inner, offset, *title = expected.fields[field["name"]]
            base, shape = inner.subdtype or (inner, ())
            assert field["offset"] == offset and field["nbytes"] == inner.itemsize and field["shape"] == list(shape)
            assert field["title"] == (title[0] if title else None)
            if base.names:
                check(field["fields"], base)
                assert field["dtype"] is None
            elif base.kind == "S":
                assert field["dtype"] is None and field["descr"] == base.str
            else:
                assert field["dtype"] == base.name

    check(told["fields"], dtype)
    text = succeed("info", tmp_path / "a.npy").decode()
    for name in ("x", "inner.y", "inner.z", "t"):
        assert f" {name} " in text


def test_items_with_a_shape_of_their_own(tmp_path):
    for descr, item_bytes in (("('<f4', (2,))", 8), ("('>i2', (3, 2))", 12), ("([('x', '<f4')], (2,))", 8)):
        header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (5,), }}"
        header += " " * (117 - len(header)) + "\n"
        (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(5 * item_bytes))
        told = info(tmp_path / "a.npy")
        dtype = np.dtype(eval(descr))  # noqa: S307
        assert told["shape"] == [5] and told["item_shape"] == list(dtype.shape)
        assert told["nbytes"] == 5 * np.prod(told["item_shape"]) * dtype.base.itemsize
        assert f"{dtype.shape} in each item" in succeed("info", tmp_path / "a.npy").decode()


def test_npz(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.zeros(3))
    np.savez_compressed(tmp_path / "b", a=np.zeros(3))
    np.savez(tmp_path / "empty.npz")
    for name in ("a.npz", "b.npz", "empty.npz"):
        told = info(tmp_path / name)
        assert len(told.pop("members")) == (name != "empty.npz")
        size = os.path.getsize(tmp_path / name)
        assert told == dict.fromkeys(KEYS) | {
            "format": "npz", "data_offset": 0, "nbytes": size, "trailing_bytes": 0, "cached_bytes": size}
        assert b"npz" in succeed("info", tmp_path / name)


def test_raw(tmp_path):
    (tmp_path / "a.raw").write_bytes(bytes(50))
    assert info(tmp_path / "a.raw", "--dtype", "f4", "--shape", "2,5", "--offset", "3") == {
        "format": "raw", "version": None, "descr": "<f4", "dtype": "float32", "shape": [2, 5], "fortran_order": False,
        "data_offset": 3, "nbytes": 40, "trailing_bytes": 7, "cached_bytes": 40}
    assert info(tmp_path / "a.raw", "--dtype", "u2")["shape"] == [25]
    fail("info", tmp_path / "a.raw", naming=tmp_path / "a.raw", saying="--dtype")
    fail("info", tmp_path / "a.raw", "--dtype", "f8", naming=tmp_path / "a.raw", saying="multiple of 8")
    fail("info", tmp_path / "a.raw", "--dtype", "f8", "--shape", "7", naming=tmp_path / "a.raw", saying="56")
    fail("info", tmp_path / "a.raw", "--dtype", "u1", "--offset", "51", naming=tmp_path / "a.raw", saying="51")
    fail("info", tmp_path / "a.raw", "--dtype", "u1", "--shape", "9223372036854775807,3", naming=tmp_path / "a.raw")


def test_trailing_bytes_and_pipes(tmp_path):
    file = io.BytesIO()
    np.save(file, np.zeros(4))
    data = file.getvalue() + b"xyz"
    (tmp_path / "a.npy").write_bytes(data)
    assert info(tmp_path / "a.npy")["trailing_bytes"] == 3
    told = info("-", input=data)
    assert told["trailing_bytes"] == 3 and told["nbytes"] == 32 and told["cached_bytes"] == 32
    assert info("/dev/stdin", "--dtype", "u1", input=data[1:])["nbytes"] == len(data) - 1


def test_a_large_file_is_not_read(tmp_path):
    header = np.lib.format.header_data_from_array_1_0(np.zeros(1, "u1")) | {"shape": (1 << 40,)}
    with open(tmp_path / "a.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        offset = file.tell()
        file.truncate(offset + (1 << 40))
    told = info(tmp_path / "a.npy")
    # The header's own page is cached, and the data starts in it.
    assert told["nbytes"] == 1 << 40 and told["cached_bytes"] <= 1 << 20


def test_devices(tmp_path):
    listed = json.loads(succeed("devices", "--json"))
    specs = [device["spec"] for backend in listed for device in backend["devices"]]
    assert {full_spec(device) for device in DEVICES} <= set(specs)
    values = np.arange(3000, dtype="f4")
    np.save(tmp_path / "a.npy", values)
    values.tofile(tmp_path / "a.raw")
    np.save(tmp_path / "records.npy", np.zeros(3, [("x", ">f4")]))
    for found in (reaches(tmp_path / "a.npy"), reaches(tmp_path / "a.raw", "--dtype", "f4", "--offset", "8"), reaches(tmp_path / "records.npy")):
        assert list(found) == specs
        assert found["host:0"] == {"spec": "host:0", "zero_copy": "yes", "residency": "in place: a file mapping, on host:0"}
        for reach in found.values():
            assert ("in place" in reach["residency"]) == (reach["zero_copy"] == "yes")
    np.save(tmp_path / "swapped.npy", values.astype(">f4"))
    np.save(tmp_path / "bools.npy", values > 2)
    for found, reason in ((reaches(tmp_path / "swapped.npy"), "big-endian"), (reaches(tmp_path / "bools.npy"), "bools"),
                          (reaches(tmp_path / "a.raw", "--dtype", "bool"), "bools"), (reaches("/proc/version", "--dtype", "u1"), "can't be mapped")):
        assert list(found) == specs
        for reach in found.values():
            assert reach["zero_copy"] == "no" and reach["residency"].startswith("copied: ") and reason in reach["residency"]
    np.save(tmp_path / "none.npy", np.zeros((0, 3), ">f4"))
    assert {reach["residency"] for reach in reaches(tmp_path / "none.npy").values()} == {"no bytes"}
    text = succeed("info", tmp_path / "a.npy").decode()
    assert "zero copy: yes; in place: a file mapping, on host:0\n" in text and text.count("zero copy: ") == len(specs)


def test_what_devices_do_not_reach(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.zeros(3))
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    for path, options in ((tmp_path / "a.npz", {}), ("-", {"input": file.getvalue()})):
        assert "devices" not in json.loads(succeed("info", path, "--json", **options))
        assert b"zero copy" not in succeed("info", path, **options)


def test_devices_cost_the_same_at_any_size(tmp_path):
    header = np.lib.format.header_data_from_array_1_0(np.zeros(1, "u1")) | {"shape": (1 << 40,)}
    with open(tmp_path / "a.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + (1 << 40))
    assert reaches(tmp_path / "a.npy")["host:0"]["zero_copy"] == "yes"
    assert json.loads(succeed("info", tmp_path / "a.npy", "--json"))["cached_bytes"] <= 1 << 20


def test_for_a_person(tmp_path):
    np.save(tmp_path / "a.npy", np.asfortranarray(np.zeros((1000, 1000), ">f4")))
    text = succeed("info", tmp_path / "a.npy").decode()
    for part in (str(tmp_path / "a.npy"), "npy 1.0", "float32 (>f4)", "(1000, 1000)", "1,000,000 items", "Fortran", "128",
                 "4,000,000 bytes (3.81 MiB)", "100%"):
        assert part in text
    # In columns.
    assert {line[15] for line in text.splitlines()} == {" "}


def test_bad_calls(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3, [("x", "f4")]))
    fail("info", tmp_path / "missing.npy", naming=tmp_path / "missing.npy", saying="No such file")
    fail("info", f"{tmp_path}/a.npy:x", naming=f"{tmp_path}/a.npy:x", saying="whole files")
    fail_usage("info", saying="FILE")
    fail_usage("info", tmp_path / "a.npy", "b")
    fail_usage("info", tmp_path / "a.npy", "--offset", "3", saying="--dtype")
    fail_usage("info", tmp_path / "a.npy", "--dtype", "f4", "--offset", "3", saying="raw")
