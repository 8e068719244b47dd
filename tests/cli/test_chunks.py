"""--memory stream: files of any size, chunk by chunk; in place with a journal that finishes what was interrupted."""

import fcntl
import os
import pathlib
import resource
import signal
import subprocess
import time

import numpy as np
import pytest

from support import COMMAND, assert_same, contents, each_device, each_dtype, fail, fail_usage, numpy_add, operands, run, succeed

STREAM = ("--memory", "stream")


def journal_of(path):
    return path.with_name(f".{path.name}.tandem-journal")


@each_device
@each_dtype
def test_results(tmp_path, device, dtype):
    left, right = operands(dtype, count=300)
    np.save(tmp_path / "a.npy", left)
    np.save(tmp_path / "b.npy", right.astype(right.dtype.newbyteorder(">")))
    succeed("add", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "out.npy", *STREAM, device=device)
    assert_same(np.load(tmp_path / "out.npy"), numpy_add(left, right))
    succeed("double", tmp_path / "a.npy", "--in-place", *STREAM, device=device)
    assert_same(np.load(tmp_path / "a.npy"), numpy_add(left, left))
    assert not journal_of(tmp_path / "a.npy").exists()


@each_device
@pytest.mark.parametrize("order", "CF")
def test_many_chunks_in_little_memory(tmp_path, device, order):
    values = np.arange(3_000_000, dtype="f8").reshape((300, 10_000), order=order)
    path, out = tmp_path / "a.npy", tmp_path / "out.npy"
    np.save(path, values)
    little = ("--stream-memory", "64MB")
    succeed("double", path, "-o", out, *STREAM, *little, device=device)
    assert_same(np.load(out), values + values)
    assert np.load(out).flags.f_contiguous == values.flags.f_contiguous
    if order == "C":
        succeed("double", path, "-o", tmp_path / "out.raw", *STREAM, *little, device=device)
        assert (tmp_path / "out.raw").read_bytes() == (2 * values).tobytes()
    else:  # raw files are in C order
        fail("double", path, "-o", tmp_path / "out.raw", *STREAM, naming=tmp_path / "out.raw", saying="Fortran order", device=device)
    raw = tmp_path / "in.raw"
    raw.write_bytes(b"odd" + values.tobytes() + b"rest")
    where = ("--dtype", "f8", "--offset", "3", "--shape", "3000000")
    succeed("double", raw, *where, "--in-place", *STREAM, *little, device=device)
    assert raw.read_bytes() == b"odd" + (2 * values).tobytes() + b"rest"
    for arguments, naming in ((("-o", out), "stream"), (("--in-place",), path)):
        said = fail("double", path, *arguments, *STREAM, "--stream-memory", "1000", naming=naming, saying="needed for three chunks",
                    device=device)
        needed = int(said.split("1000 bytes: ")[1].split()[0])
        fail("double", path, *arguments, *STREAM, "--stream-memory", str(needed - 1), naming=naming, saying=f"{needed} needed",
             device=device)
        short = tmp_path / "short.npy"
        np.save(short, values.ravel(order="K")[:2000])
        succeed("double", short, *(arguments if "-o" not in arguments else ("-o", tmp_path / "short-out.npy")), *STREAM,
                "--stream-memory", str(needed), device=device)
    fail_usage("double", path, "-o", out, "--stream-memory", "1MB", saying="--stream-memory is for --memory stream", device=device)
    assert_same(np.load(out), values + values)


def test_what_is_not_streamed(tmp_path):
    np.save(tmp_path / "fields.npy", np.zeros(3, [("x", "f4")]))
    np.save(tmp_path / "times.npy", np.zeros(3, "M8[s]"))
    np.save(tmp_path / "a.npy", np.zeros(3))
    np.save(tmp_path / "b.npy", np.zeros(4))
    out = tmp_path / "out.npy"
    fail_usage("double", f"{tmp_path / 'fields.npy'}:x", "-o", out, *STREAM, saying="does not take fields")
    fail_usage("double", "-", "-o", out, *STREAM, saying="takes files alone", stdin=subprocess.PIPE)
    fail("double", tmp_path / "times.npy", "--in-place", *STREAM, naming=tmp_path / "times.npy", saying="dates or durations")
    done = run("add", tmp_path / "a.npy", tmp_path / "b.npy", "-o", out, *STREAM)
    assert done.returncode == 1 and b"must be equal" in done.stderr
    assert not out.exists()


def stop_in_the_middle(path, device, number):
    """Doubles a new file at `path` in place, and sends the signal once it has been changed, until that was before the end; what
    the elements were, and the process, with what it said."""
    for attempt in range(20):
        values = np.arange(8_000_000, dtype="f8") + attempt
        np.save(path, values)
        start = path.stat().st_size - values.nbytes
        process = subprocess.Popen([COMMAND, "double", path, "--in-place", *STREAM, "--stream-memory", "48MB", "--device", device],
                                   stderr=subprocess.PIPE)
        # The second element: the first one stays 0.
        while process.poll() is None and np.memmap(path, "f8", "r", start)[1] == values[1]:
            time.sleep(0.0005)
        process.send_signal(number)
        said = process.communicate()[1].decode()
        if journal_of(path).exists():
            return values, process, said
    return pytest.fail("every run was over before it was stopped")


@each_device
def test_a_killed_run_in_place_is_finished(tmp_path, device):
    path = tmp_path / "a.npy"
    values, _, _ = stop_in_the_middle(path, device, signal.SIGKILL)
    found = np.load(path)
    assert ((found == values) | (found == 2 * values)).all() and (found == 2 * values)[1:].any()
    # Others say so instead of taking what is there.
    other = tmp_path / "out.npy"
    fail("double", path, "-o", other, naming=path, saying="an interrupted run has left it partly changed", device=device)
    fail("double", path, "--in-place", naming=path, saying="--memory stream finishes that", device=device)
    fail("add", path, path, "-o", other, naming=path, saying="an interrupted run", device=device)
    assert (np.load(path) == found).all() and not other.exists()
    done = run("double", path, "--in-place", *STREAM, "-v", device=device)
    assert done.returncode == 0 and b"an interrupted run is finished" in done.stderr
    assert_same(np.load(path), 2 * values)
    assert list(contents(tmp_path)) == [pathlib.Path("a.npy")]


@each_device
def test_a_run_is_forgotten(tmp_path, device):
    path = tmp_path / "a.npy"
    values, _, _ = stop_in_the_middle(path, device, signal.SIGKILL)
    # Written anew: the run is not finished on what it knows nothing of.
    np.save(path, values + 5)
    fail("double", path, "--in-place", *STREAM, naming=path, saying="not for this file any more", device=device)
    fail("double", path, "-o", tmp_path / "out.npy", naming=path, saying="'tandem forget' takes the file as it is", device=device)
    assert_same(np.load(path), values + 5)
    assert run("forget", path).stdout == f"{path}: the interrupted run is forgotten\n".encode()
    assert run("forget", path).stdout == f"{path}: no run was interrupted\n".encode()
    succeed("double", path, "--in-place", *STREAM, device=device)
    assert_same(np.load(path), 2 * (values + 5))
    assert list(contents(tmp_path)) == [pathlib.Path("a.npy")]
    fail("forget", tmp_path / "none.npy", naming=tmp_path / "none.npy", saying="No such file")


def test_what_is_said_while_another_process_is_at_it(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(20_000_000.0))
    command = [COMMAND, "double", path, "--in-place", *STREAM, "--stream-memory", "64MB", "--device", "host"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    journal, end = journal_of(path), time.monotonic() + 60
    while time.monotonic() < end and not (journal.exists() and journal.stat().st_size > 5_000_000):
        time.sleep(0.001)
    process.send_signal(signal.SIGSTOP)
    try:
        if process.poll() is None and journal.exists():
            busy = "another process is changing"
            assert busy in run("info", path).stdout.decode()
            for arguments in (("--in-place", *STREAM), ("--in-place",), ("-o", tmp_path / "out.npy")):
                done = run("double", path, *arguments, "--device", "host")
                assert done.returncode == 1 and busy in done.stderr.decode(), done.stderr
                assert b"finishes" not in done.stderr, done.stderr
    finally:
        process.send_signal(signal.SIGCONT)
    _, said = process.communicate()
    assert process.returncode == 0, said
    assert_same(np.load(path), 2 * np.arange(20_000_000.0))
    assert list(contents(tmp_path)) == [pathlib.Path("a.npy")]


@each_device
def test_an_interrupted_run_in_place_says_how_it_goes_on(tmp_path, device):
    path = tmp_path / "a.npy"
    values, process, message = stop_in_the_middle(path, device, signal.SIGINT)
    assert process.returncode == -signal.SIGINT
    assert message == f"tandem: {path}: interrupted; the file is partly changed, and the same command finishes that\n"
    succeed("double", path, "--in-place", *STREAM, device=device)
    assert_same(np.load(path), 2 * values)
    assert list(contents(tmp_path)) == [pathlib.Path("a.npy")]


@each_device
def test_interrupts_and_a_full_disk_leave_the_old_output(tmp_path, device):
    path, out = tmp_path / "a.npy", tmp_path / "out.npy"
    np.save(path, np.arange(8_000_000.0))
    out.write_bytes(b"old")
    before = contents(tmp_path)
    command = [COMMAND, "double", path, "-o", out, *STREAM, "--device", device]

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000_000, 10_000_000))

    done = subprocess.run(command, stderr=subprocess.PIPE, preexec_fn=small_files, check=False)
    assert done.returncode == 1 and b"write at offset" in done.stderr and done.stderr.count(b"\n") == 1, done.stderr
    assert contents(tmp_path) == before
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    time.sleep(0.15)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode in (0, -signal.SIGINT)
    # Too late is fine too, but nothing in between.
    if contents(tmp_path) != before:
        assert sorted(contents(tmp_path)) == [pathlib.Path("a.npy"), pathlib.Path("out.npy")]
        assert_same(np.load(out), 2 * np.arange(8_000_000.0))


@each_device
def test_a_file_larger_than_the_memory_that_the_process_may_take(tmp_path, device):
    path, out = tmp_path / "a.npy", tmp_path / "out.npy"
    if not os.access("/proc/self/status", os.R_OK):
        pytest.skip("no /proc")
    np.save(path, np.arange(25_000_000, dtype="f8"))

    def peak_kib(*arguments):
        process = subprocess.Popen([COMMAND, *arguments, "--device", device], stderr=subprocess.PIPE)
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0, process.stderr.read()
        return usage.ru_maxrss

    np.save(tmp_path / "small.npy", np.arange(5.0))
    alone = peak_kib("double", tmp_path / "small.npy", "-o", tmp_path / "small-out.npy", *STREAM)
    taken = peak_kib("double", path, "-o", out, *STREAM, "--stream-memory", "100MB") - alone
    assert taken <= 110_000_000 / 1024, taken
    assert (np.load(out, mmap_mode="r")[::1009] == 2.0 * np.arange(25_000_000)[::1009]).all()


def test_a_file_larger_than_the_address_space(tmp_path):
    path, out = tmp_path / "a.npy", tmp_path / "out.npy"
    values = np.zeros(75_000_000)
    values[::1009] = np.arange(len(values[::1009]))
    np.save(path, values)

    def little_address_space():
        resource.setrlimit(resource.RLIMIT_AS, (400_000_000, 400_000_000))

    def double(*arguments):
        command = [COMMAND, "double", path, *arguments, "--device", "host"]
        return subprocess.run(command, stderr=subprocess.PIPE, preexec_fn=little_address_space, check=False)

    for arguments in (("-o", out), ("--in-place",)):
        done = double(*arguments, *STREAM, "--stream-memory", "64MB")
        assert done.returncode == 0, done.stderr
    assert (np.load(out) == 2 * values).all() and (np.load(path) == 2 * values).all()
    # Other memory has to have room for it.
    done = double("-o", out, "--memory", "adopted")
    assert done.returncode == 1 and b"a.npy" in done.stderr and b"address space" in done.stderr, done.stderr


def test_what_is_in_the_journal_s_place_stays(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.zeros(100_000))
    journal_of(path).write_text("somebody's own notes\n")
    fail("double", path, "--in-place", *STREAM, naming=path, saying="is not a journal")
    assert journal_of(path).read_text() == "somebody's own notes\n"


def test_one_writer_by_any_name(tmp_path):
    path, other = tmp_path / "a.npy", tmp_path / "b.npy"
    np.save(path, np.zeros(100_000))
    os.link(path, other)
    with open(other, "rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        fail("double", path, "--in-place", *STREAM, naming=path, saying="another process is changing the file")
    succeed("double", path, "--in-place", *STREAM)


def test_what_can_t_be_streamed_into(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.asfortranarray(np.arange(12.0).reshape(3, 4)))
    for name in ("o.npz", "o.npz:m"):
        fail_usage("double", path, "-o", tmp_path / name, *STREAM, saying="an archive takes another --memory")
    fail("double", path, "-o", tmp_path / "o.raw", *STREAM, naming=tmp_path / "o.raw", saying="Fortran order")
    fail_usage("double", path, "-o", tmp_path / "o.npy", *STREAM, "--stream-memory", "-5", saying="--stream-memory")
    assert os.listdir(tmp_path) == ["a.npy"]
