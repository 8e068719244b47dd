"""What can be read once: every kind of stream, taken from where it stands, as far as it is needed and no further."""

import io
import json
import os
import socket
import subprocess
import threading

import numpy as np
import pytest

from support import COMMAND, assert_same, fail, fail_usage, run, succeed

BFLOAT16 = np.array([0x3F80, 0x4000, 0xBF80, 0], "u2").view("V2")
DOUBLED = [0x4000, 0x4080, 0xC000, 0]


def npy_bytes(values):
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def with_endless_input(start, *arguments, expected_status=0):
    """The finished process, which was fed `start` and then lines of "y" until it stopped reading."""
    reader, writer = os.pipe()

    def feed():
        try:
            os.write(writer, start)
            while True:
                os.write(writer, b"y\n" * 2000)
        except BrokenPipeError:
            pass
        finally:
            os.close(writer)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        done = run(*arguments, stdin=reader)
    finally:
        os.close(reader)
        feeder.join()
    assert done.returncode == expected_status, done.stderr.decode()
    return done


def file_at(file, position):
    os.lseek(file.fileno(), position, os.SEEK_SET)
    return file


def in_shell(script, *arguments):
    return subprocess.run(["bash", "-c", script, COMMAND, *map(str, arguments)], check=True, stdout=subprocess.PIPE, timeout=60).stdout


def test_untyped_items_on_a_pipe(tmp_path):
    data = npy_bytes(BFLOAT16)
    out = tmp_path / "out.npy"
    (tmp_path / "a.npy").write_bytes(data)
    succeed("double", "-", "--dtype", "bfloat16", "-o", out, input=data, device="host")
    assert np.load(out).view("u2").tolist() == DOUBLED
    in_shell('exec "$0" double <(cat "$1") --dtype bfloat16 -o "$2" --device host', tmp_path / "a.npy", out)
    assert np.load(out).view("u2").tolist() == DOUBLED
    in_shell('exec "$0" add <(cat "$1") <(cat "$1") --dtype bfloat16 -o "$2" --device host', tmp_path / "a.npy", out)
    assert np.load(out).view("u2").tolist() == DOUBLED
    told = json.loads(succeed("info", "-", "--dtype", "bfloat16", "--json", input=data))
    assert told["format"] == "npy" and told["dtype"] == "bfloat16" and told["shape"] == [4]
    # What isn't one is raw, also where it starts like one.
    for start in (b"", b"\x93NUMP", b"\x93numpy"):
        raw = start + b"\x01" * 6
        assert succeed("double", "-", "--dtype", "u1", "-o", "-", input=raw, device="host") == bytes(2 * byte % 256 for byte in raw)
    fail_usage("double", "-", "--dtype", "bfloat16", "--shape", "4", "-o", out, input=data, saying="raw")


def test_fields_of_a_pipe(tmp_path):
    values = np.zeros(4, [("pad", "u1"), ("x", ">f4"), ("w", "V2")])
    values["x"] = range(4)
    values["w"] = BFLOAT16
    succeed("double", "/dev/stdin:x", "-o", tmp_path / "out.npy", input=npy_bytes(values), device="host")
    assert np.load(tmp_path / "out.npy").tolist() == [0, 2, 4, 6]
    succeed("double", "/dev/stdin:w", "--dtype", "bf16", "-o", tmp_path / "out.npy", input=npy_bytes(values), device="host")
    assert np.load(tmp_path / "out.npy").view("u2").tolist() == DOUBLED
    fail("double", "-", "-o", tmp_path / "none.npy", input=npy_bytes(values), naming="/dev/stdin: ", saying="structured", device="host")


@pytest.mark.parametrize("name", ["-", "/dev/stdin", "/dev/fd/0"])
def test_a_socket(tmp_path, name):
    values = np.arange(100_000, dtype="f4")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = threading.Thread(target=lambda: (ours.sendall(npy_bytes(values)), ours.shutdown(socket.SHUT_WR)))
        sender.start()
        succeed("double", name, "-o", tmp_path / "out.npy", stdin=theirs, device="host")
        sender.join()
    assert_same(np.load(tmp_path / "out.npy"), 2 * values)


def test_a_socket_that_stays_open_and_does_not_block(tmp_path):
    values = np.arange(1000, dtype="f4")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        sender = threading.Timer(0.1, lambda: ours.sendall(npy_bytes(values)))
        sender.start()
        succeed("double", "-", "-o", tmp_path / "out.npy", stdin=theirs, device="host")
        sender.join()
    assert_same(np.load(tmp_path / "out.npy"), 2 * values)


def test_what_another_user_opened(tmp_path):
    # A file that can't be opened any more by who got it open, and a pipe that belongs to root.
    if os.geteuid() != 0:
        pytest.skip("only root can become someone else")
    if run("--version", user=65534).returncode != 0:
        pytest.skip("someone else can't run the command here")
    data = npy_bytes(np.arange(3.0))
    (tmp_path / "a.npy").write_bytes(data)
    os.chmod(tmp_path / "a.npy", 0o600)
    expected = npy_bytes(2 * np.arange(3.0))
    with open(tmp_path / "a.npy", "rb") as source:
        assert succeed("double", "-", "-o", "-", stdin=source, user=65534, group=65534, device="host") == expected
    assert succeed("double", "-", "-o", "-", input=data, user=65534, group=65534, device="host") == expected


def test_a_file_from_where_it_stands(tmp_path):
    first, second = np.arange(5.0), np.arange(7, dtype="i2")
    path = tmp_path / "both"
    path.write_bytes(npy_bytes(first) + npy_bytes(second))
    with open(path, "rb") as file:
        told = json.loads(succeed("info", "-", "--json", stdin=file_at(file, len(npy_bytes(first)))))
        assert told["shape"] == [7] and told["dtype"] == "int16" and told["data_offset"] == 128
    with open(path, "rb") as file:
        fail("info", "-", stdin=file_at(file, 3), naming="/dev/stdin", saying="offset 0")
        file_at(file, 1)
        fail_usage("double", "-", "--in-place", stdin=file, saying="/dev/stdin")
        fail_usage("add", "-", "/dev/fd/0", "-o", tmp_path / "out.npy", stdin=file, saying="once")
    # Nor has it a place to go back to where it stands at its beginning.
    with open(path, "r+b") as file:
        fail_usage("double", "-", "--in-place", stdin=file, saying="/dev/stdin")
    (tmp_path / "raw").write_bytes(bytes(range(20)))
    with open(tmp_path / "raw", "rb") as file:
        file_at(file, 5)
        assert list(succeed("double", "-", "--dtype", "u1", "-o", "-", stdin=file, device="host")) == list(range(10, 40, 2))


@pytest.mark.parametrize("script", ['cat "$1" | {0}', '{0} < "$1"'])
def test_one_array_after_the_other(tmp_path, script):
    arrays = [np.arange(5.0), np.arange(7, dtype=">i2"), np.zeros(0), np.arange(4, dtype="u1")]
    (tmp_path / "all").write_bytes(b"".join(map(npy_bytes, arrays[:3])) + arrays[3].tobytes() + b"rest")
    outputs = [tmp_path / f"{number}.npy" for number in range(5)]
    one = '"$0" double - --device host -o'
    commands = f'{{ {one} "$2" && {one} "$3" && {one} "$4" && {one} "$5" --dtype u1 --shape 2 && {one} "$6" --dtype u1 --shape 2 && cat; }}'
    rest = in_shell(script.replace("{0}", commands), tmp_path / "all", *outputs)
    assert rest == b"rest"
    found = [np.load(output).tolist() for output in outputs]
    assert found == [[0, 2, 4, 6, 8], [0, 2, 4, 6, 8, 10, 12], [], [0, 2], [4, 6]]


def test_a_stream_without_an_end(tmp_path):
    out = tmp_path / "out"
    npy = npy_bytes(np.arange(3.0))
    done = with_endless_input(b"", "info", "-", expected_status=1)
    assert done.stderr.startswith(b"tandem: /dev/stdin: ") and b"--dtype" in done.stderr
    with_endless_input(b"", "double", "-", "-o", out, expected_status=1)
    with_endless_input(b"", "double", "-", "--dtype", "u1", "--shape", "10", "-o", out, "--device", "host")
    assert out.read_bytes() == bytes(2 * byte for byte in b"y\n" * 5)[:10]
    with_endless_input(b"0123", "double", "-", "--dtype", "u1", "--shape", "2", "--offset", "2", "-o", out, "--device", "host")
    assert out.read_bytes() == b"df"
    with_endless_input(npy, "double", "-", "-o", out, "--device", "host")
    assert np.load(out).tolist() == [0, 2, 4]
    # What is wrong is found before the data is read.
    text = npy_bytes(np.array(["text"] * 10))
    assert b"text" in with_endless_input(text, "double", "-", "-o", out, expected_status=1).stderr
    done = with_endless_input(npy.replace(b"(3,)", b"(1<<9,)"), "double", "-", "-o", out, expected_status=1)
    assert done.stderr.count(b"\n") == 1
    huge = npy_bytes(np.zeros(1)).replace(b"(1,), }" + b" " * 15, b"(1152921504606846,), }")
    assert b"9223372036854896 bytes needed" in with_endless_input(huge, "double", "-", "-o", out, expected_status=1).stderr
    for arguments in (["--dtype", "u1", "--shape", "10"], []):
        start = b"" if arguments else npy
        done = with_endless_input(start, "double", "-", *arguments, "--strict", "-o", out, expected_status=1)
        assert b"more found" in done.stderr and done.stderr.startswith(b"tandem: /dev/stdin: offset ")
        told = json.loads(with_endless_input(start, "info", "-", *arguments, "--json").stdout)
        assert told["trailing_bytes"] is None and told["nbytes"] == (10 if arguments else 24)
        assert b"more than 16.0 MiB" in with_endless_input(start, "info", "-", *arguments).stdout


def test_devices_without_an_end(tmp_path):
    fail("info", "/dev/zero", naming="/dev/zero")
    fail("double", "/dev/zero", "--dtype", "f4", "-o", tmp_path / "out", naming="/dev/zero", saying="without an end", device="host")
    fail("info", "/dev/zero", "--dtype", "f4", naming="/dev/zero", saying="without an end")
    assert succeed("double", "/dev/zero", "--dtype", "f4", "--shape", "3", "-o", "-", device="host") == bytes(12)


def test_streams_that_are_too_short(tmp_path):
    out = ("-o", tmp_path / "out", "--device", "host")
    for options, saying in ((["--shape", "31"], "31"), (["--offset", "31"], "31"), (["--shape", "5", "--offset", "26"], "5 bytes needed"),
                            (["--offset", "18446744073709551615"], ""), (["--shape", "9223372036854775807"], "")):
        for command in (["double", "-", *out], ["info", "-"]):
            fail(*command, "--dtype", "u1", *options, input=bytes(30), naming="/dev/stdin", saying=saying)
    for command in (["double", "-", *out], ["info", "-"]):
        fail(*command, "--dtype", "f4", input=bytes(30), naming="/dev/stdin", saying="multiple of 4")
        fail(*command, input=npy_bytes(np.arange(3.0))[:-1], naming="/dev/stdin", saying="23")
    succeed("double", "-", *out, "--dtype", "u1", "--offset", "30", "--strict", input=bytes(30))
    succeed("double", "-", *out, "--dtype", "u1", "--offset", "9", "--shape", "21", "--strict", input=bytes(30))


def test_where_a_stream_was_read_from(tmp_path):
    done = run("double", "-", "-o", tmp_path / "out.npy", "-v", input=npy_bytes(np.arange(3)), device="host")
    assert done.returncode == 0 and b"loaded from /dev/stdin)" in done.stderr, done.stderr


def test_standard_input_that_is_closed_or_a_directory(tmp_path):
    fail("info", "-", preexec_fn=lambda: os.close(0), naming="/dev/stdin", saying="Bad file descriptor")
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        fail("info", "-", stdin=directory, naming="/dev/stdin", saying="is a directory")
        fail("double", "-", "--dtype", "u1", "-o", tmp_path / "out", stdin=directory, naming="/dev/stdin", saying="is a directory")
    finally:
        os.close(directory)
