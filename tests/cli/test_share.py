"""Arrays under names: share and attach, each in processes of their own."""

import contextlib
import io
import json
import os
import pathlib
import resource
import select
import signal
import socket
import subprocess
import time

import numpy as np
import pytest

from support import COMMAND, DEVICES, DTYPES, assert_same, each_device, fail, fail_usage, full_spec, operands, run, succeed

EXACT = np.arange(-500, 500, dtype="i4").reshape(10, 100)


@pytest.fixture
def runtime(tmp_path):
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    return {"XDG_RUNTIME_DIR": str(folder)}


def sockets(runtime):
    folder = pathlib.Path(runtime["XDG_RUNTIME_DIR"]) / "tandem"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@contextlib.contextmanager
def shared(runtime, *arguments, name="a", device="host", signal_number=signal.SIGTERM, json_line=True):
    """The process of `tandem share`, which has said that it is ready, and what it said."""
    command = [COMMAND, "share", *map(os.fspath, arguments), "--name", name, "--device", device, *(["--json"] if json_line else [])]
    process = subprocess.Popen(command, env={**os.environ, **runtime}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        line = process.stdout.readline()
        assert line.endswith(b"\n"), process.communicate()
        yield process, json.loads(line) if json_line else line.decode()
        if process.poll() is None:
            process.send_signal(signal_number)
        rest, errors = process.communicate(timeout=60)
        assert (rest, errors) == (b"", b"")
        assert process.returncode == (-signal.SIGKILL if signal_number == signal.SIGKILL else 0)
    finally:
        process.kill()
        process.communicate()


def attach(runtime, *arguments, **options):
    return succeed("attach", *arguments, environment=runtime, **options).decode()


@each_device
@pytest.mark.parametrize("reader", DEVICES)
def test_shared_attached_and_changed(tmp_path, runtime, device, reader):
    np.save(tmp_path / "a.npy", EXACT)
    with shared(runtime, tmp_path / "a.npy", device=device) as (process, told):
        assert told["pid"] == process.pid and told["name"] == "a" and told["dtype"] == "int32" and told["shape"] == [10, 100]
        assert told["nbytes"] == 4000 and told["device"] == full_spec(device) and told["method"] == "host memory"
        assert told["writable"] is True and told["fence"] is False and told["user"] == os.geteuid()
        results = json.loads(attach(runtime, "a", "--sum", "--min", "--max", "--json", device=reader))
        assert results == {"sum": int(EXACT.sum()), "min": -500, "max": 499}
        assert attach(runtime, "a", "--sum", "--max", device=reader) == f"sum: {EXACT.sum()}\nmax: 499\n"
        assert attach(runtime, "a", "--double", device=reader) == ""
        out = tmp_path / "out.npy"
        assert attach(runtime, "a", "--save", out, device=reader) == ""
        assert_same(np.load(out), EXACT * 2)
        # First doubled, then told and saved.
        assert attach(runtime, "a", "--double", "--min", "--save", out, device=reader) == "min: -2000\n"
        assert_same(np.load(out), EXACT * 4)
    assert sockets(runtime) == []
    assert_same(np.load(tmp_path / "a.npy"), EXACT)


def test_every_dtype(tmp_path, runtime):
    for dtype in DTYPES:
        values, _ = operands(dtype, 100)
        np.save(tmp_path / "a.npy", values)
        with shared(runtime, tmp_path / "a.npy", name=dtype) as (_, told):
            assert told["dtype"] == dtype
            attach(runtime, dtype, "--save", tmp_path / "out.npy", device="host")
            assert_same(np.load(tmp_path / "out.npy"), values)
    assert sockets(runtime) == []


@pytest.mark.parametrize(("dtype", "values", "expected"), [
    ("f8", [0.1, 0.2, -7], [0.1 + 0.2 - 7, -7, 0.2]),
    ("f4", [np.inf, 1, 2], [np.inf, 1, np.inf]),
    ("f2", [1, np.nan, 2], [np.nan, np.nan, np.nan]),
    ("c8", [1 + 2j, 3 - 4j], [[4, -2], [1, 2], [3, -4]]),
    ("u8", [2**64 - 1, 1], [0, 1, 2**64 - 1]),
    ("?", [True, True, False], [2, False, True]),
])
def test_results_as_json(tmp_path, runtime, dtype, values, expected):
    np.save(tmp_path / "a.npy", np.array(values, dtype))
    with shared(runtime, tmp_path / "a.npy"):
        found = json.loads(attach(runtime, "a", "--sum", "--min", "--max", "--json", device="host"))
    for label, value in zip(("sum", "min", "max"), expected):
        np.testing.assert_allclose(found[label], value, rtol=1e-15)


def test_layouts_and_other_ways_to_name_data(tmp_path, runtime):
    fortran = np.asfortranarray(EXACT)
    records = np.zeros(50, [("x", "f4"), ("y", ">i2", 3)])
    records["x"] = np.arange(50)
    records["y"] = np.arange(150).reshape(50, 3)
    np.save(tmp_path / "f.npy", fortran)
    np.save(tmp_path / "r.npy", records)
    np.save(tmp_path / "big.npy", EXACT.astype(">i4"))
    np.savez_compressed(tmp_path / "z.npz", m=EXACT)
    np.save(tmp_path / "none.npy", np.zeros((0, 3), "f8"))
    EXACT.tofile(tmp_path / "x.raw")
    cases = [
        ([tmp_path / "f.npy"], fortran),
        ([f"{tmp_path}/r.npy:x"], records["x"].copy()),
        ([f"{tmp_path}/r.npy:y"], records["y"].astype("i2")),
        ([tmp_path / "big.npy"], EXACT),
        ([f"{tmp_path}/z.npz:m"], EXACT),
        ([tmp_path / "none.npy"], np.zeros((0, 3), "f8")),
        ([tmp_path / "x.raw", "--dtype", "i4", "--offset", "40", "--shape", "9,10"], EXACT.ravel()[10:100].reshape(9, 10)),
    ]
    for arguments, expected in cases:
        with shared(runtime, *arguments):
            attach(runtime, "a", "--save", tmp_path / "out.npy", device="host")
        found = np.load(tmp_path / "out.npy")
        assert_same(found, expected)
        assert found.flags.f_contiguous == expected.flags.f_contiguous


def test_lists_and_descriptions(tmp_path, runtime):
    np.save(tmp_path / "a.npy", EXACT)
    assert attach(runtime) == ""
    assert json.loads(attach(runtime, "--json")) == []
    assert sockets(runtime) == []
    with shared(runtime, tmp_path / "a.npy", name="one", json_line=False) as (first, line), \
            shared(runtime, tmp_path / "a.npy", "--read-only", name="two") as (second, told):
        assert line.startswith("one: int32 (10, 100), 4,000 bytes") and f"host:0, process {first.pid}" in line
        assert attach(runtime).splitlines()[0] + "\n" == line
        listed = json.loads(attach(runtime, "--json"))
        assert [entry["name"] for entry in listed] == ["one", "two"]
        assert listed[1] == told and told["writable"] is False and told["pid"] == second.pid
        lines = dict(line.split(maxsplit=1) for line in attach(runtime, "one", device="host").splitlines())
        assert lines["items"] == "int32" and lines["shape"] == "(10, 100)"
        assert lines["publisher"].startswith(f"process {first.pid} of user {os.geteuid()}")
        assert "zero copy: yes" in lines["attached"]
        described = json.loads(attach(runtime, "two", "--json", device="host"))
        assert described.pop("attached")["strides"] == [400, 4]
        assert described == told
        # What may only be read is.
        assert attach(runtime, "two", "--sum", device="host") == f"sum: {EXACT.sum()}\n"
        fail("attach", "two", "--double", device="host", environment=runtime, naming="'two'", saying="read")
        assert attach(runtime, "two", "--sum", device="host") == f"sum: {EXACT.sum()}\n"


def test_what_can_not_be_saved_changes_nothing(tmp_path, runtime):
    np.save(tmp_path / "a.npy", EXACT)
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "kept.npy").write_bytes(b"kept")
    member = "m" * 70_000
    with shared(runtime, tmp_path / "a.npy"):
        for output in (tmp_path / "no" / "out.npy", tmp_path / "folder.npy", f"{tmp_path}/out.npz:{member}"):
            done = run("attach", "a", "--double", "--sum", "--save", output, device="host", environment=runtime)
            assert done.returncode == 1 and done.stdout == b"" and done.stderr.startswith(f"tandem: {tmp_path}".encode())
        limited = run("attach", "a", "--double", "--save", tmp_path / "kept.npy", device="host", environment=runtime,
                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
        assert limited.returncode == 1 and b"kept.npy: fallocate of 4000 bytes: File too large" in limited.stderr
        assert (tmp_path / "kept.npy").read_bytes() == b"kept"
        assert attach(runtime, "a", "--min", device="host") == "min: -500\n"
        for output in ("out.npy", "out.npz", "out.raw"):
            attach(runtime, "a", "--double", "--save", tmp_path / output, device="host")
        assert_same(np.load(tmp_path / "out.npy"), EXACT * 2)
        assert_same(np.load(tmp_path / "out.npz")["arr_0"], EXACT * 4)
        assert (tmp_path / "out.raw").read_bytes() == (EXACT * 8).tobytes()


def test_one_result_that_fails_leaves_the_others(tmp_path, runtime):
    np.save(tmp_path / "none.npy", np.zeros(0, "f4"))
    np.save(tmp_path / "a.npy", EXACT)
    out = tmp_path / "out.npy"
    with shared(runtime, tmp_path / "none.npy"), shared(runtime, tmp_path / "a.npy", name="b"):
        for json_flag, expected in (([], b"sum: 0\n"), (["--json"], b'{"sum": 0}\n')):
            done = run("attach", "a", "--min", "--sum", "--max", "--save", out, *json_flag, device="host", environment=runtime)
            assert done.returncode == 1 and done.stdout == expected
            assert done.stderr.count(b"\n") == 1 and done.stderr.count(b"'a': ") == 2  # the smallest and the largest of none
            assert np.load(out).shape == (0,)
            out.unlink()
        # Writing fails where opening has not.
        done = run("attach", "b", "--sum", "--save", "/dev/full", device="host", environment=runtime)
        assert done.returncode == 1 and done.stdout == f"sum: {EXACT.sum()}\n".encode()
        assert done.stderr.startswith(b"tandem: /dev/full: ") and done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1"])
def test_text_does_not_go_between_the_bytes_of_a_file(tmp_path, runtime, name):
    np.save(tmp_path / "a.npy", EXACT)
    with shared(runtime, tmp_path / "a.npy"):
        for json_flag, expected in (([], f"sum: {EXACT.sum()}\nmax: 499\n"), (["--json"], f'{{"sum": {EXACT.sum()}, "max": 499}}\n')):
            done = run("attach", "a", "--sum", "--max", "--save", name, *json_flag, device="host", environment=runtime)
            assert done.returncode == 0 and done.stderr.decode() == expected
            assert_same(np.load(io.BytesIO(done.stdout)), EXACT)


def memfds(pid):
    """The inodes of the memory that a process maps, and the bytes of it that are its own share."""
    inodes, share = {}, 0
    counts = False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            counts = len(words) > 5 and words[5].startswith("/memfd:tandem") and "fence" not in words[5]
            if counts:
                inodes[words[4]] = words[5]
        elif counts and words[0] == "Pss:":
            share += int(words[1]) * 1024
    return set(inodes), share


def test_many_readers_hold_the_file_once(tmp_path, runtime):
    count = 4 << 20
    np.save(tmp_path / "a.npy", np.ones(count, "f4"))
    with shared(runtime, tmp_path / "a.npy") as (process, _):
        inodes, _ = memfds(process.pid)
        assert len(inodes) == 1
        # Readers that have read all of it and stay: what they write is not taken from their pipes.
        readers = []
        try:
            for _ in range(4):
                reader, writer = os.pipe()
                readers.append((subprocess.Popen([COMMAND, "attach", "a", "--device", "host", "--sum", "--save", "/dev/stdout"],
                                                 env={**os.environ, **runtime}, stdout=writer, stderr=subprocess.PIPE), reader))
                os.close(writer)
            for _, reader in readers:
                assert select.select([reader], [], [], 60)[0]  # it is past the sum, and in the saving
            found = [memfds(reader.pid) for reader, _ in readers]
            assert all(of_reader == inodes for of_reader, _ in found), found
            # One copy among five processes.
            whole = sum(share for _, share in found) + memfds(process.pid)[1]
            assert whole <= 4 * count * 1.01, whole
            for reader, pipe in readers:
                with os.fdopen(pipe, "rb", closefd=False) as stream:
                    out = stream.read()
                assert len(out) == 128 + 4 * count and reader.wait(60) == 0
                assert reader.stderr.read() == b"sum: 4194304\n"
        finally:
            for reader, pipe in readers:
                reader.kill()
                reader.communicate()
                os.close(pipe)


def test_a_name_has_one_sharer(tmp_path, runtime):
    np.save(tmp_path / "a.npy", EXACT)
    with shared(runtime, tmp_path / "a.npy") as (process, _):
        fail("share", tmp_path / "a.npy", "--name", "a", device="host", environment=runtime, naming="'a'",
             saying=f"published already (process {process.pid})")
        assert attach(runtime, "a", "--max", device="host") == "max: 499\n"
        # Another runtime folder is another world.
        other = tmp_path / "other"
        other.mkdir(mode=0o700)
        fail("attach", "a", device="host", environment={"XDG_RUNTIME_DIR": str(other)}, naming="'a'", saying=str(other))
        with shared({"XDG_RUNTIME_DIR": str(other)}, tmp_path / "a.npy"):
            assert len(json.loads(attach(runtime, "--json"))) == 1


def test_stopped_sharers_are_listed_without_waiting_for_each(tmp_path, runtime):
    np.save(tmp_path / "a.npy", EXACT)
    with contextlib.ExitStack() as stack:
        sharers = {name: stack.enter_context(shared(runtime, tmp_path / "a.npy", name=name))[0] for name in "abcd"}
        for name in "abd":
            sharers[name].send_signal(signal.SIGSTOP)
        try:
            start = time.monotonic()
            listed = json.loads(attach(runtime, "--json"))
            lines = attach(runtime).splitlines()
            assert time.monotonic() - start < 10
        finally:
            for process in sharers.values():
                process.send_signal(signal.SIGCONT)
    assert [(entry["name"], entry["answers"], entry["pid"]) for entry in listed] == [
        (name, name == "c", process.pid) for name, process in sharers.items()]
    assert lines[0] == f"a: process {sharers['a'].pid} does not answer" and lines[2].startswith("c: int32 (10, 100)")


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_it_orderly(tmp_path, runtime, signal_number):
    np.save(tmp_path / "a.npy", EXACT)
    with shared(runtime, tmp_path / "a.npy", signal_number=signal_number):
        assert sockets(runtime) == ["a.lock", "a.sock"]
    assert sockets(runtime) == []


def test_a_killed_sharer_is_replaced(tmp_path, runtime):
    np.save(tmp_path / "a.npy", EXACT)
    with shared(runtime, tmp_path / "a.npy", signal_number=signal.SIGKILL):
        pass
    assert sockets(runtime) == ["a.lock", "a.sock"]
    with shared(runtime, tmp_path / "a.npy"):
        assert attach(runtime, "a", "--max", device="host") == "max: 499\n"
    with shared(runtime, tmp_path / "a.npy", signal_number=signal.SIGKILL):
        pass
    fail("attach", "a", device="host", environment=runtime, naming="'a'", saying="nobody publishes")
    assert sockets(runtime) == []


def test_a_reader_goes_on_without_the_sharer(tmp_path, runtime):
    values = np.arange(1 << 20, dtype="f4")
    np.save(tmp_path / "a.npy", values)
    with shared(runtime, tmp_path / "a.npy", signal_number=signal.SIGKILL) as (process, _):
        reader = subprocess.Popen([COMMAND, "attach", "a", "--device", "host", "--save", "/dev/stdout"],
                                  env={**os.environ, **runtime}, stdout=subprocess.PIPE)
        start = reader.stdout.read(1000)  # it has attached
        process.kill()
        process.wait()
        rest = reader.stdout.read()
        assert reader.wait(60) == 0
    (tmp_path / "out.npy").write_bytes(start + rest)
    assert_same(np.load(tmp_path / "out.npy"), values)


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_rubbish_on_the_socket(tmp_path, runtime):
    np.save(tmp_path / "a.npy", EXACT)
    with shared(runtime, tmp_path / "a.npy") as (process, _):
        before = descriptors(process.pid)
        path = str(pathlib.Path(runtime["XDG_RUNTIME_DIR"]) / "tandem" / "a.sock")
        rng = np.random.default_rng(7)
        clients = []
        for size in [1, 2, 12, 13, 100, 5000, 65536, 65537, 100_000, *rng.integers(1, 3000, 100)]:
            client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            client.connect(path)
            start = [b"", b"tdms\x01\0", b"tdms\x01\0" + bytes([size % 7, 0])][size % 3]
            socket.send_fds(client, [start + rng.bytes(size)], [0] * (size % 20))
            clients.append(client)
        with pytest.raises(OSError):
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).connect(path)
        assert attach(runtime, "a", "--max", device="host") == "max: 499\n"
        for client in clients:
            client.close()
        deadline = time.monotonic() + 30
        while descriptors(process.pid) > before and time.monotonic() < deadline:
            time.sleep(0.01)
        # Less, where the client that asked whether it answers had not been let go of yet.
        assert descriptors(process.pid) <= before
        assert attach(runtime, "a", "--max", device="host") == "max: 499\n"


def test_a_publisher_that_speaks_rubbish(tmp_path, runtime):
    folder = pathlib.Path(runtime["XDG_RUNTIME_DIR"]) / "tandem"
    folder.mkdir(mode=0o700)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(folder / "fake.sock"))
    listener.listen()
    process = subprocess.Popen([COMMAND, "attach", "fake"], env={**os.environ, **runtime}, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    client, _ = listener.accept()
    client.recv(1000)
    socket.send_fds(client, [b"\xff" * 100], [0, 1, 2])
    out, message = process.communicate(timeout=60)
    assert process.returncode == 1 and out == b""
    assert message.startswith(b"tandem: 'fake': process ") and message.count(b"\n") == 1
    listener.close()
    # A socket of nobody's, without a lock, is no name that is taken.
    np.save(tmp_path / "a.npy", EXACT)
    with shared(runtime, tmp_path / "a.npy", name="fake"):
        assert attach(runtime, "fake", "--max", device="host") == "max: 499\n"


def test_errors(tmp_path, runtime):
    np.save(tmp_path / "a.npy", EXACT)
    np.save(tmp_path / "none.npy", np.zeros(0, "f4"))
    fail("share", tmp_path / "missing.npy", "--name", "a", device="host", environment=runtime, naming=tmp_path / "missing.npy")
    assert sockets(runtime) == []
    fail_usage("share", tmp_path / "a.npy", environment=runtime, saying="--name")
    for kind in ("adopted", "stream"):
        fail_usage("share", tmp_path / "a.npy", "--name", "a", "--memory", kind, environment=runtime, saying="adopted and stream")
    for name in ("x/y", ".x", "x" * 101):
        fail("share", tmp_path / "a.npy", "--name", name, device="host", environment=runtime, naming="publisher: ", saying="name")
    fail("share", tmp_path / "a.npy", "--name", "x", device="host", environment={"XDG_RUNTIME_DIR": str(tmp_path / ("d" * 110))},
         naming=str(tmp_path))
    fail_usage("attach", "--sum", environment=runtime, saying="NAME")
    fail("attach", "a", "--sum", device="host", environment=runtime, naming="'a'", saying="nobody publishes")
    fail("attach", "a/b/c", device="host", environment=runtime, naming="name to attach: ", saying="slashes")
    with shared(runtime, tmp_path / "none.npy"):
        fail("attach", "a", "--min", device="host", environment=runtime, naming="'a'")
        assert attach(runtime, "a", "--sum", device="host") == "sum: 0\n"
        fail("attach", "a/key", device="host", environment=runtime, naming="'a'", saying="'key'")
        fail("attach", "a", "--save", tmp_path / "no" / "out.npy", device="host", environment=runtime,
             naming=tmp_path / "no" / "out.npy")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_other_users_are_refused(tmp_path, runtime):
    np.save(tmp_path / "a.npy", EXACT)
    with shared(runtime, tmp_path / "a.npy"):
        done = run("attach", "a", "--sum", environment=runtime, preexec_fn=lambda: os.setuid(54321), device="host")
        assert done.returncode == 1 and done.stdout == b""
        assert done.stderr.startswith(b"tandem: ") and done.stderr.count(b"\n") == 1
        assert attach(runtime, "a", "--max", device="host") == "max: 499\n"
