"""Bad input: one line, status 1, nothing written, what was there before kept."""

import gzip
import os
import resource
import struct

import numpy as np
import pytest

from support import contents, each_device, fail, fail_usage, run, succeed, without_privileges


@pytest.fixture(name="folder")
def make_folder(tmp_path):
    np.save(tmp_path / "f4.npy", np.arange(6, dtype="f4"))
    np.save(tmp_path / "i4.npy", np.arange(6, dtype="i4"))
    np.save(tmp_path / "u4.npy", np.arange(6, dtype="u4"))
    np.save(tmp_path / "f4_23.npy", np.zeros((2, 3), "f4"))
    np.save(tmp_path / "f4_7.npy", np.zeros(7, "f4"))
    np.save(tmp_path / "f4_0.npy", np.zeros(0, "f4"))
    np.save(tmp_path / "object.npy", np.array([None, {}], object), allow_pickle=True)
    np.save(tmp_path / "long_double.npy", np.zeros(2, np.longdouble))
    np.savez(tmp_path / "a.npz", a=np.zeros(3))
    good = (tmp_path / "f4.npy").read_bytes()
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "short.npy").write_bytes(good[:-1])
    (tmp_path / "magic.npy").write_bytes(good[:6])
    (tmp_path / "header.npy").write_bytes(good[:60])
    (tmp_path / "version.npy").write_bytes(good[:6] + b"\x09" + good[7:])
    (tmp_path / "length.npy").write_bytes(good[:6] + b"\x02\x00" + struct.pack("<I", 0xFFFFFFFF) + good[12:])
    (tmp_path / "key.npy").write_bytes(good.replace(b"'shape'", b"'shade'"))
    (tmp_path / "negative.npy").write_bytes(good.replace(b"(6,)", b"(-6,"))
    (tmp_path / "text.npy").write_text("1 2 3\n")
    (tmp_path / "zipped.npy").write_bytes(gzip.compress(good))
    (tmp_path / "unreadable.npy").write_bytes(good)
    os.chmod(tmp_path / "unreadable.npy", 0)
    os.mkdir(tmp_path / "directory.npy")
    (tmp_path / "raw").write_bytes(bytes(30))
    return tmp_path


BAD_FILES = {
    "missing.npy": "No such file", "unreadable.npy": "Permission denied", "directory.npy": "directory", "empty.npy": "empty",
    "short.npy": "24", "magic.npy": "6", "header.npy": "", "version.npy": "9.0", "length.npy": "4294967295", "key.npy": "shade",
    "negative.npy": "", "text.npy": "1 2 3", "zipped.npy": "gzip", "a.npz": "", "object.npy": "", "long_double.npy": "",
    "missing/a.npy": "No such file", "f4.npy/a": "Not a directory", "f4.npy:x": "", "missing.npy:x": "No such file",
}


def fails_and_keeps(folder, *arguments, naming, saying, device):
    """Without an output of an earlier run, and with one."""
    for earlier in (None, b"an earlier result"):
        if earlier is not None:
            (folder / "out.npy").write_bytes(earlier)
        before = contents(folder)
        message = fail(*arguments, "-o", folder / "out.npy", naming=naming, saying=saying, device=device,
                       preexec_fn=without_privileges)
        assert contents(folder) == before, message
    os.remove(folder / "out.npy")


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files(folder, name):
    path = os.path.join(folder, name)
    for command in (["double", path], ["add", path, folder / "f4.npy"], ["add", folder / "f4.npy", path]):
        fails_and_keeps(folder, *command, naming=path, saying=BAD_FILES[name], device="host")
    fail("double", path, "--in-place", naming=path, saying=BAD_FILES[name], device="host", preexec_fn=without_privileges)
    if ":" not in name and name != "a.npz":
        fail("info", path, naming=path, saying=BAD_FILES[name], preexec_fn=without_privileges)


@each_device
@pytest.mark.parametrize("right, saying", [
    ("i4", "dtypes must be equal"), ("u4", "dtypes must be equal"), ("f4_23", "shapes must be equal"),
    ("f4_7", "shapes must be equal"), ("f4_0", "shapes must be equal"),
])
def test_pairs_that_do_not_fit(folder, device, right, saying):
    left, right = folder / "f4.npy", folder / f"{right}.npy"
    fails_and_keeps(folder, "add", left, right, naming=right, saying=saying, device=device)
    message = fail("add", left, right, "-o", folder / "out.npy", naming=right, device=device)
    assert str(left) in message and "float32 (6,)" in message


@pytest.mark.parametrize("options, saying", [
    (["--dtype", "f4"], "multiple of 4"), (["--dtype", "u1", "--shape", "31"], "31"), (["--dtype", "f4", "--shape", "4,2"], "32"),
    (["--dtype", "u1", "--offset", "31"], "31"), (["--dtype", "u1", "--offset", "18446744073709551615"], ""),
    (["--dtype", "u1", "--shape", "9223372036854775807"], ""), (["--dtype", "c16", "--shape", "9223372036854775807,2"], ""),
    (["--dtype", "f8", "--offset", "23"], "multiple of 8"), (["--dtype", "u1", "--shape", ",".join(["1"] * 65)], "64"),
])
def test_raw_files_that_do_not_fit(folder, options, saying):
    fails_and_keeps(folder, "double", folder / "raw", *options, naming=folder / "raw", saying=saying, device="host")
    before = contents(folder)
    fail("double", folder / "raw", "--in-place", *options, naming=folder / "raw", saying=saying, device="host")
    assert contents(folder) == before


@pytest.mark.parametrize("device", ["host:1", "host:no such name", "cuda:99", "opencl:99", "opencl:no such name", "nonsense", "host:", ":", "0"])
def test_unknown_devices(folder, device):
    done = run("double", folder / "f4.npy", "-o", folder / "out.npy", device=device)
    message = done.stderr.decode()
    assert done.returncode == 1 and message.count("\n") == 1, message
    assert device in message and message.startswith("tandem: ")
    # The environment's wish is one too.
    done = run("double", folder / "f4.npy", "-o", folder / "out.npy", environment={"TANDEM_DEVICE": device})
    assert done.returncode == 1 and done.stderr.decode() == message
    assert not (folder / "out.npy").exists()


def test_the_environment_names_the_device(folder):
    done = run("double", folder / "f4.npy", "-o", folder / "out.npy", "-v", environment={"TANDEM_DEVICE": "host"})
    assert done.returncode == 0 and b"host:0" in done.stderr
    done = run("double", folder / "f4.npy", "-o", folder / "out.npy", "-v", device="host", environment={"TANDEM_DEVICE": "nonsense"})
    assert done.returncode == 0 and b"host:0" in done.stderr


def test_outputs_that_can_not_be_written(folder):
    path = folder / "f4.npy"
    os.mkdir(folder / "locked")
    os.chmod(folder / "locked", 0o500)
    (folder / "read_only.npy").write_bytes(b"keep")
    os.chmod(folder / "read_only.npy", 0o400)
    os.symlink("loop.npy", folder / "loop.npy")
    before = contents(folder)
    for output, saying in {
        "missing/out.npy": "No such file", "directory.npy": "directory", "f4.npy/out.npy": "Not a directory",
        "locked/out.npy": "Permission denied", "read_only.npy": "Permission denied", "loop.npy": "", "x" * 300: "too long",
    }.items():
        fail("double", path, "-o", folder / output, naming=folder / output, saying=saying, device="host",
             preexec_fn=without_privileges)
    fail("double", path, "-o", "/dev/full", naming="/dev/full", saying="No space left", device="host")
    assert contents(folder) == before
    os.chmod(path, 0o400)
    fail("double", path, "--in-place", naming=path, saying="Permission denied", device="host", preexec_fn=without_privileges)
    assert contents(folder) == before


def test_names_that_would_break_the_line(folder):
    name = folder / "two\nlines \x1b[31m.npy"
    done = run("double", name, "-o", folder / "out.npy", device="host")
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1 and b"\x1b" not in done.stderr
    name.write_bytes(b"nothing like an array")
    done = run("info", name)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1 and b"\x1b" not in done.stderr


def test_standard_input_that_is_no_file(folder):
    fail("double", "-", "-o", folder / "out.npy", input=b"", naming="/dev/stdin", saying="empty", device="host")
    fail("double", "-", "-o", folder / "out.npy", input=b"\x93NUMPY", naming="/dev/stdin", device="host")
    data = (folder / "f4.npy").read_bytes()
    fail("double", "-", "-o", folder / "out.npy", input=data[:-1], naming="/dev/stdin", saying="24", device="host")
    assert not (folder / "out.npy").exists()


def test_raw_shapes_as_the_user_gave_them(folder):
    (folder / "r.bin").write_bytes(bytes(40))
    for target in (["-o", folder / "out.npy"], ["--in-place"]):
        fail("double", folder / "r.bin", "--dtype", "f4", "--shape", "11", *target, naming=folder / "r.bin",
             saying="44 bytes needed for shape (11,) of float32, 40 found", device="host")


def test_files_of_other_kinds(folder):
    np.savez(folder / "b", a=np.zeros(3))
    os.rename(folder / "b.npz", folder / "b.npy")
    (folder / "c.gz").write_bytes((folder / "zipped.npy").read_bytes())
    (folder / "d.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    (folder / "e.mat").write_bytes(b"MATLAB 5.0 MAT-file, Platform: x" + bytes(100))
    for name, saying in {"a.npz": "an archive, with the members 'a'; name one", "b.npy": "an archive, with the members 'a'",
                         "c.gz": "gzip data", "d.h5": "an HDF5 file", "e.mat": "a MATLAB file"}.items():
        path = folder / name
        data = path.read_bytes()
        for message in (fail("double", path, "-o", folder / "out.npy", naming=path, saying=saying, device="host"),
                        fail("double", "-", "-o", folder / "out.npy", naming="/dev/stdin: ", saying=saying, device="host", input=data)):
            assert "--dtype" not in message
    # What is none of these may be raw.
    for arguments in ({"naming": folder / "raw"}, {"naming": "/dev/stdin", "input": bytes(30)}):
        path = folder / "raw" if "input" not in arguments else "-"
        fail("double", path, "-o", folder / "out.npy", saying="a raw file needs --dtype", device="host", **arguments)


def no_more_threads():
    # More stack for each thread than there are addresses.
    resource.setrlimit(resource.RLIMIT_STACK, (8 << 30, resource.getrlimit(resource.RLIMIT_STACK)[1]))
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


def little_memory():
    resource.setrlimit(resource.RLIMIT_AS, (20 << 20, 20 << 20))


def test_without_more_threads(folder):
    if run("--version", preexec_fn=no_more_threads).returncode != 0:
        pytest.skip("this build needs more addresses")  # sanitizers do
    values = np.arange(1 << 22, dtype="i4")
    np.save(folder / "large.npy", values)
    done = run("double", folder / "large.npy", "-o", folder / "out.npy", device="host", preexec_fn=no_more_threads)
    if done.returncode == 0:
        assert np.array_equal(np.load(folder / "out.npy"), 2 * values)
    else:
        assert done.stderr.startswith(f"tandem: double {folder}/large.npy on host:0: ".encode()) and done.stderr.count(b"\n") == 1


def test_without_more_memory(folder):
    if run("--version", preexec_fn=little_memory).returncode != 0:
        pytest.skip("this build needs more memory")
    fields = "[" + ", ".join(f"('{number:x}', '<f4')" for number in range(45_000)) + "]"
    header = f"{{'descr': {fields}, 'fortran_order': False, 'shape': (0,)}}\n".encode()
    path = folder / "many.npy"
    path.write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header)) + header)
    succeed("info", path, "--json")
    fail("info", path, "--json", naming=f"info {path}: not enough host memory", preexec_fn=little_memory)
    fail("double", path, "-o", folder / "out.npy", naming=f"double {path} on host:0: not enough host memory", device="host",
         preexec_fn=little_memory)


def test_usage(folder):
    path, out = folder / "f4.npy", folder / "out.npy"
    fail_usage(saying="devices, info, add, double")
    fail_usage("multiply", saying="'multiply'")
    fail_usage("--nonsense")
    fail_usage("add", saying="A")
    fail_usage("add", path, saying="B")
    fail_usage("add", path, path, saying="--output")
    fail_usage("add", path, path, path, "-o", out)
    fail_usage("add", path, path, "-o")
    fail_usage("add", path, path, "-o", out, "--in-place")
    fail_usage("add", "-", "-", "-o", out, input=b"", saying="once")
    fail_usage("double", "-:x", "-o", out, saying="'-:x'; a field of standard input is named /dev/stdin:x")
    fail_usage("add", path, "--nonsense", saying="'--nonsense'")
    fail_usage("info", "--dtyp", "f4", path, saying="'--dtyp'")
    fail_usage("double", path, saying="--in-place")
    fail_usage("double", path, "-o", out, "--in-place", saying="exclude")
    fail_usage("double", "-", "--in-place", input=b"", saying="/dev/stdin")
    fail_usage("double", path, "-o", out, "--memory", "pinned" * 9, saying="device")
    fail_usage("double", path, "-o", out, "--dtype", "f5", saying="'f5'")
    fail_usage("double", path, "-o", out, "--dtype", "", saying="''")
    fail_usage("double", path, "-o", out, "--shape", "6", saying="--dtype")
    for shape in ("", "x", "-1", "2,,3", ",", "1.5", "(2", "99999999999999999999"):
        fail_usage("double", folder / "raw", "-o", out, "--dtype", "u1", f"--shape={shape}", saying="--shape")
    for offset in ("", "x", "-1", "1.5", "0x10", "99999999999999999999"):
        fail_usage("double", folder / "raw", "-o", out, "--dtype", "u1", f"--offset={offset}", saying="--offset")
    fail_usage("double", path, "-o", out, "--dtype", "f4", "--offset", "0", saying="raw")
    fail_usage("double", "", "-o", out, saying="empty")
    fail_usage("double", path, "-o", "", saying="empty")
    fail_usage("devices", "more")
    assert not out.exists()


def test_help_and_version(folder):
    assert succeed("--version").decode().startswith("tandem ")
    for arguments in (["--help"], ["add", "--help"], ["double", "-h"], ["info", "--help"], ["devices", "--help"]):
        assert b"Usage: tandem" in succeed(*arguments)
    with open("/dev/full", "wb") as full:
        fail("--help", stdout=full, naming="standard output")
    del folder
