"""Files appear whole or not at all, whatever happens meanwhile."""

import os
import resource
import signal
import subprocess
import time

import numpy as np
import pytest

from support import COMMAND, each_device, fail, run, succeed

LARGE_BYTES = 200 << 20


@pytest.fixture(name="folder")
def make_folder(tmp_path):
    with open(tmp_path / "large.raw", "wb") as file:
        file.truncate(LARGE_BYTES)
    np.save(tmp_path / "a.npy", np.arange(100_000, dtype="f4"))
    return tmp_path


def has_unnamed_files(folder):
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))
        return True
    except OSError:
        return False


def limit_file_size():
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


@each_device
def test_a_file_size_limit(folder, device):
    # OpenCL's compiled kernels have to be kept before the limit is on, since it would stop the compiler too.
    succeed("double", folder / "a.npy", "-o", folder / "out.npy", device=device)
    succeed("add", folder / "a.npy", folder / "a.npy", "-o", folder / "out.npy", device=device)
    before = (folder / "out.npy").read_bytes()
    original = (folder / "a.npy").read_bytes()
    names = sorted(os.listdir(folder))
    out = ("-o", folder / "out.npy")
    for command in (["double", folder / "a.npy", *out], ["add", folder / "a.npy", folder / "a.npy", *out]):
        fail(*command, naming=folder / "out.npy", saying="File too large", device=device, preexec_fn=limit_file_size)
    fail("double", folder / "a.npy", "--in-place", naming=folder / "a.npy", saying="File too large", device=device,
         preexec_fn=limit_file_size)
    assert (folder / "out.npy").read_bytes() == before
    assert (folder / "a.npy").read_bytes() == original
    assert sorted(os.listdir(folder)) == names


def test_a_pipe_that_closes(folder):
    with subprocess.Popen([COMMAND, "double", folder / "large.raw", "--dtype", "u1", "-o", "-", "--device", "host"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(10)
        process.stdout.close()
        message = process.stderr.read().decode()
        assert process.wait(timeout=60) == 1
    assert message.startswith("tandem: /dev/stdout: ") and message.count("\n") == 1 and "Broken pipe" in message


def start_writing(folder, *arguments):
    """The process, once it has begun to write its output's temporary file."""
    process = subprocess.Popen([COMMAND, *arguments, "--device", "host"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        try:
            for name in os.listdir(f"/proc/{process.pid}/fd"):
                target = os.readlink(f"/proc/{process.pid}/fd/{name}")
                if target.startswith(f"{folder}/") and os.path.basename(target).startswith(("#", ".")):
                    if os.stat(f"/proc/{process.pid}/fd/{name}").st_size > 0:
                        return process
        except OSError:
            pass
    return process


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("how", ["new", "over", "in place"])
def test_signals_while_writing(folder, signal_number, how):
    if signal_number == signal.SIGKILL and not has_unnamed_files(folder):
        pytest.skip("this filesystem has no unnamed files")
    earlier = b"an earlier result"
    if how == "over":
        (folder / "out.raw").write_bytes(earlier)
    target = ["--in-place"] if how == "in place" else ["-o", folder / "out.raw"]
    names = sorted(os.listdir(folder))
    with start_writing(folder, "double", folder / "large.raw", "--dtype", "u1", *target) as process:
        process.send_signal(signal_number)
        assert process.stderr.read() == b""
        status = process.wait(timeout=60)
    if status == 0:
        pytest.skip("it was quicker than the signal")
    assert status == -signal_number
    assert sorted(os.listdir(folder)) == names
    assert os.path.getsize(folder / "large.raw") == LARGE_BYTES
    if how == "over":
        assert (folder / "out.raw").read_bytes() == earlier


def test_signals_that_were_ignored_stay_ignored(folder):
    with subprocess.Popen([COMMAND, "double", folder / "large.raw", "--dtype", "u1", "-o", folder / "out.raw", "--device", "host"],
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) as process:
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    assert os.path.getsize(folder / "out.raw") == LARGE_BYTES


def test_closed_standard_streams(folder):
    # A file opened later must not take the place of a closed stream and get its messages.
    def close_all():
        for descriptor in (0, 1, 2):
            os.close(descriptor)

    expected = succeed("double", folder / "a.npy", "-o", "-", device="host")
    done = subprocess.run([COMMAND, "double", folder / "a.npy", "-o", folder / "out.npy", "-v", "--device", "host"],
                          preexec_fn=close_all, check=False, timeout=60)
    assert done.returncode == 0
    assert (folder / "out.npy").read_bytes() == expected
    done = subprocess.run([COMMAND, "double", folder / "a.npy", "-o", "-", "--device", "host"], preexec_fn=close_all, check=False,
                          timeout=60)
    assert done.returncode == 1


@each_device
def test_what_verbose_tells(folder, device):
    done = run("add", folder / "a.npy", folder / "a.npy", "-o", folder / "out.npy", "-v", device=device)
    text = done.stderr.decode()
    assert done.returncode == 0 and done.stdout == b"" and text.count("\n") == 1
    for part in ("100,000 float32", "device memory", f"loaded from {folder}/a.npy", "1.14 MiB", "B/s", device):
        assert part in text
    done = run("double", folder / "a.npy", "--in-place", "-v", device=device)
    assert done.returncode == 0 and b"in place" in done.stderr


def test_files_are_written_as_numpy_writes_them(folder):
    for values in (np.zeros((3, 4), "f4"), np.zeros((2, 3), ">i8", order="F"), np.zeros((), "?"), np.zeros((0, 5), "c16"),
                   np.zeros((1,) * 32, "u2")):
        np.save(folder / "in.npy", values)
        succeed("double", folder / "in.npy", "-o", folder / "out.npy", device="host")
        np.save(folder / "expected.npy", (values + values).astype(values.dtype.newbyteorder("=")))
        assert (folder / "out.npy").read_bytes() == (folder / "expected.npy").read_bytes()
