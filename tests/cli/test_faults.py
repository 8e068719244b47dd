"""Files that fail while they are read or written: through a layer between the command and the system that fails on demand."""

import json
import os
import resource
import subprocess

import numpy as np
import pytest

from support import COMMAND, assert_same, each_device, fail, succeed

LAYER = os.environ["TANDEM_FAULT_LAYER"]
COUNT = 3_000_017  # of float64: several slots, and no multiple of a block
MEMORIES = ["device", "stream"]


def with_fault(file, fault):
    return {"LD_PRELOAD": LAYER, "FAULT_FILE": str(file), "FAULT": fault}


@pytest.fixture(name="values")
def made_values():
    return np.arange(COUNT, dtype="f8")


def test_the_layer_itself(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(100_000))
    def read(fault):
        return subprocess.run(["dd", f"if={path}", "of=/dev/null", "bs=50000", "status=none"], env=os.environ | with_fault(path, fault),
                              stderr=subprocess.PIPE, check=False)
    assert read("short").returncode == 0
    broken = read("unreadable:60000")
    assert broken.returncode == 1 and b"Input/output error" in broken.stderr


@each_device
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("at", [500, 8 * COUNT // 2, 8 * COUNT + 127])
def test_an_unreadable_block(tmp_path, device, memory, values, at):
    path, out = tmp_path / "a.npy", tmp_path / "out.npy"
    np.save(path, values)
    out.write_bytes(b"of an earlier run")
    for command in (("double", path, "-o", out), ("add", path, path, "-o", out)):
        message = fail(*command, "--memory", memory, naming=path, saying="Input/output error", device=device,
                       environment=with_fault(path, f"unreadable:{at}"))
        assert f"offset {at // 4096 * 4096}:" in message, message
    assert out.read_bytes() == b"of an earlier run"
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "out.npy"]


@each_device
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("fault", ["short", "interrupted"])
def test_reads_and_writes_that_do_less_are_repeated(tmp_path, device, memory, values, fault):
    path, out = tmp_path / "a.npy", tmp_path / "out.npy"
    np.save(path, values)
    succeed("double", path, "-o", out, "--memory", memory, device=device, environment=with_fault(tmp_path, fault))
    assert_same(np.load(out), 2 * values)


@each_device
@pytest.mark.parametrize("memory", MEMORIES)
def test_a_disk_that_is_full(tmp_path, device, memory, values):
    path, folder = tmp_path / "a.npy", tmp_path / "there"
    folder.mkdir()
    out = folder / "out.npy"
    np.save(path, values)
    out.write_bytes(b"of an earlier run")
    fail("double", path, "-o", out, "--memory", memory, naming=out, saying="No space left on device", device=device,
         environment=with_fault(folder, f"full:{4 * COUNT}"))
    assert out.read_bytes() == b"of an earlier run"
    assert os.listdir(folder) == ["out.npy"]


@each_device
def test_in_place_goes_on_after_an_unreadable_block(tmp_path, device, values):
    path = tmp_path / "a.npy"
    np.save(path, values)
    little = ("--in-place", "--memory", "stream", "--stream-memory", "32MB")
    fail("double", path, *little, naming=path, saying="Input/output error", device=device,
         environment=with_fault(path, f"unreadable:{7 * COUNT}"))
    succeed("double", path, *little, device=device)
    assert_same(np.load(path), 2 * values)
    assert os.listdir(tmp_path) == ["a.npy"]


@each_device
def test_a_journal_is_for_one_file_alone(tmp_path, device):
    """Another file in the place of the one that an interrupted run has changed, or its old contents put back: refused, unchanged."""
    values = np.arange(20_000_000, dtype="f4")
    path, again = tmp_path / "a.npy", tmp_path / "again.npy"
    little = ("--in-place", "--memory", "stream", "--stream-memory", "64MB")

    def interrupt():
        np.save(path, values)
        fail("double", path, *little, naming=path, saying="Input/output error", device=device,
             environment=with_fault(path, "unreadable:60000000"))
        changed = np.load(path) != values
        assert changed[1:1000].all() and not changed[-1000:].any()
        assert len(os.listdir(tmp_path)) == 2

    interrupt()
    np.save(again, values)
    os.replace(again, path)
    fail("double", path, *little, naming=path, saying="not for this file any more", device=device)
    assert_same(np.load(path), values)
    for left in tmp_path.iterdir():
        left.unlink()

    interrupt()
    half_done = path.read_bytes()
    np.save(again, values)
    path.write_bytes(again.read_bytes())
    fail("double", path, *little, naming=path, saying="not for this file any more", device=device)
    assert_same(np.load(path), values)

    path.write_bytes(half_done)
    again.unlink()
    succeed("double", path, *little, device=device)
    assert_same(np.load(path), 2 * values)
    assert os.listdir(tmp_path) == ["a.npy"]


def keeps_attributes(folder):
    probe = folder / "probe"
    probe.write_bytes(b"")
    try:
        os.setxattr(probe, "user.tandem.probe", b"x")
    except OSError:
        return False
    finally:
        probe.unlink()
    return True


@each_device
def test_a_partly_changed_file_is_known_by_every_name(tmp_path, device):
    if not keeps_attributes(tmp_path):
        pytest.skip("the filesystem keeps no attributes")
    values = np.arange(20_000_000, dtype="f4")
    path, other, out = tmp_path / "a.npy", tmp_path / "b.npy", tmp_path / "out.npy"
    journal = tmp_path / ".a.npy.tandem-journal"
    little = ("--in-place", "--memory", "stream", "--stream-memory", "64MB")
    np.save(path, values)
    message = fail("double", path, *little, naming=path, saying="Input/output error", device=device,
                   environment=with_fault(path, "unreadable:60000000"))
    assert "the file is partly changed, and the same command finishes that" in message
    os.link(path, tmp_path / "linked.npy")
    subprocess.run(["cp", "--preserve=xattr", path, tmp_path / "copied.npy"], check=True)
    path.rename(other)
    for name in (other, tmp_path / "linked.npy", tmp_path / "copied.npy"):
        found = name.read_bytes()
        partly = {"naming": name, "saying": f"has left it partly changed, and its journal, {journal}"}
        fail("double", name, "-o", out, device=device, **partly)
        fail("double", name, "--in-place", device=device, **partly)
        fail("add", name, name, "-o", out, "--memory", "stream", device=device, **partly)
        fail("share", name, "--name", "partly-changed", device=device, **partly)
        assert f"partly changed, and its journal, {journal}" in json.loads(succeed("info", name, "--json"))["unfinished"]
        assert b"unfinished      an interrupted run" in succeed("info", name)
        whole = tmp_path / "whole.npy"
        np.save(whole, values[:10])
        for memory in ("device", "stream"):
            message = fail("double", whole, "-o", name, "--memory", memory, naming=name, saying="not replaced: ", device=device)
            assert "partly changed" in message
        assert name.read_bytes() == found
        whole.unlink()
    # A copy is another file, which nobody can finish.
    fail("double", tmp_path / "copied.npy", *little, naming=tmp_path / "copied.npy", saying="is gone or of another file", device=device)
    succeed("double", other, *little, device=device)
    assert_same(np.load(other), 2 * values)
    assert_same(np.load(tmp_path / "linked.npy"), 2 * values)
    assert sorted(os.listdir(tmp_path)) == ["b.npy", "copied.npy", "linked.npy"]
    succeed("double", other, *little, device=device)
    assert "unfinished" not in json.loads(succeed("info", other, "--json"))
    fail("double", tmp_path / "copied.npy", "-o", out, naming=tmp_path / "copied.npy", saying="is gone", device=device)
    assert not out.exists()


def test_a_file_larger_than_the_memory_that_a_process_may_have(tmp_path):
    """All that a process may take of the machine's memory is less than a tenth of the file."""
    path = tmp_path / "a.npy"
    header = np.lib.format.header_data_from_array_1_0(np.zeros(1))
    count = (3 << 29) // 8
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header | {"shape": (count,)})
        start = file.tell()
        file.truncate(start + 8 * count)
        for at in (0, count // 2, count - 1):
            file.seek(start + 8 * at)
            file.write(np.float64(at + 1).tobytes())

    def little_memory():
        resource.setrlimit(resource.RLIMIT_DATA, (144 << 20, 144 << 20))

    command = [COMMAND, "double", path, "--in-place", "--memory", "stream", "--stream-memory", "64MB", "--device", "host"]
    subprocess.run(command, preexec_fn=little_memory, check=True, timeout=300)
    doubled = np.memmap(path, "f8", "r", start, (count,))
    for at in (0, count // 2, count - 1):
        assert doubled[at] == 2 * (at + 1)
