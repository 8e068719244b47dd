"""tandem bench: the figures add up, say what they are about, and nothing is left behind. How fast it goes is not tested."""

import json
import os
import signal
import subprocess
import time
import xml.etree.ElementTree as ElementTree

import pytest

from support import COMMAND, DEVICES, fail, fail_usage, full_spec, succeed

TINY = ["--size", "8kB", "--file-size", "100000", "--rounds", "2"]
SVG = "{http://www.w3.org/2000/svg}"
MACHINE_LIMITS = ["host memory copy", "warm file read", "cold file read", "file write", "file write and flush"]
JOBS = ["load a warm file", "load a cold file", "map a warm file, double it", "save, but for the flush", "save",
        "stream, doubling, in 256.0 MiB", "add in the device's memory", "double in the device's memory"]




@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """What one run over all devices gave: the object, the picture, the table."""
    folder = tmp_path_factory.mktemp("bench")
    files = folder / "files"
    files.mkdir()
    table = succeed("bench", *TINY, "--folder", files, "--json", folder / "b.json", "--plot", folder / "b.svg").decode()
    assert list(files.iterdir()) == []
    assert sorted(path.name for path in folder.iterdir()) == ["b.json", "b.svg", "files"]
    return json.loads((folder / "b.json").read_bytes()), ElementTree.parse(folder / "b.svg").getroot(), table


def figures(row, keys):
    """Either all of them, above zero (processor time may be too short to be counted), or none and a reason."""
    values = [row[key] for key in keys]
    if row["note"] is None:
        assert all(isinstance(value, float) and value >= 0 for value in values), row
        assert row["bytes_per_second"] > 0
    else:
        assert values == [None] * len(keys) and row["note"], row


def test_json(done):
    report = done[0]
    assert list(report) == ["version", "machine", "folder", "file_bytes", "rounds", "devices", "limits", "rows"]
    assert "tandem " + report["version"] == succeed("--version").decode().strip()
    machine = report["machine"]
    assert list(machine) == ["cpu", "processors", "memory_bytes", "kernel"]
    assert machine["processors"] == len(os.sched_getaffinity(0)) and machine["cpu"]
    assert machine["memory_bytes"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    assert machine["kernel"] == f"Linux {os.uname().release}"
    assert (report["file_bytes"], report["rounds"]) == (100000, 2)
    listed = [device for backend in json.loads(succeed("devices", "--json")) for device in backend["devices"]]
    devices = [{key: device[key] for key in ("spec", "name", "type", "driver")} for device in listed]
    assert [{key: device[key] for key in ("spec", "name", "type", "driver")} for device in report["devices"]] == devices
    assert {full_spec(device) for device in DEVICES} <= {device["spec"] for device in report["devices"]}

    assert [limit["name"] for limit in report["limits"] if limit["device"] is None] == MACHINE_LIMITS
    for limit in report["limits"]:
        assert list(limit) == ["device", "name", "bytes", "bytes_per_second", "cpu_seconds_per_gb", "note"]
        figures(limit, ["bytes_per_second", "cpu_seconds_per_gb"])
    for device in report["devices"]:
        assert device["note"] is None
        rows = [row for row in report["rows"] if row["device"] == device["spec"]]
        assert [row["job"] for row in rows] == JOBS
        for row in rows:
            assert list(row) == ["device", "job", "bytes", "bytes_per_second", "cpu_seconds_per_gb", "limit",
                                 "limit_bytes_per_second", "limit_cpu_seconds_per_gb", "ratio", "note"]
            of_limit = ["limit_bytes_per_second", "ratio"] if row["limit"] else []
            figures(row, ["bytes_per_second", "cpu_seconds_per_gb", *of_limit])
            if row["ratio"] is not None:
                assert row["ratio"] == pytest.approx(row["bytes_per_second"] / row["limit_bytes_per_second"])
                assert row["limit"] in MACHINE_LIMITS or "device" in row["limit"]
        sizes = {row["job"]: row["bytes"] for row in rows}
        assert sizes["load a warm file"] == 100000
        assert (sizes["add in the device's memory"], sizes["double in the device's memory"]) == (3 * 8192, 2 * 8192)
        if device["shares_host_memory"]:
            assert all(row["note"] is None for row in rows if "file" not in row["job"])


def test_cold_is_cold(done):
    """A figure for a cold file or the reason why there is none; where the page cache can't be emptied, never a figure."""
    report = done[0]
    cold = [row for row in report["rows"] if row["job"] == "load a cold file"] + \
           [limit for limit in report["limits"] if limit["name"] == "cold file read"]
    assert len(cold) == len(report["devices"]) + 1
    for row in cold:
        reasons = ("not cold: ", "cold file read: ", "open with O_DIRECT: ")
        assert row["bytes_per_second"] is not None or row["note"].startswith(reasons)


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no filesystem whose files are the page cache")
def test_not_cold(tmp_path):
    table = succeed("bench", *TINY, "--device", "host", "--folder", "/dev/shm", "--json", tmp_path / "b.json").decode()
    report = json.loads((tmp_path / "b.json").read_bytes())
    rows = {row["job"]: row for row in report["rows"]}
    limits = {limit["name"]: limit for limit in report["limits"]}
    for row in (rows["load a cold file"], limits["cold file read"]):
        assert row["note"].startswith("not cold: ") and row["note"].endswith(" bytes cached")
        assert int(row["note"].split()[2].replace(",", "")) >= 100000
        assert row["bytes_per_second"] is None
        assert row["note"] in table
    assert rows["load a warm file"]["ratio"] is not None
    assert not [name for name in os.listdir("/dev/shm") if name.startswith("tandem-bench-")]


def test_plot(done):
    report, root, _ = done
    assert root.tag == SVG + "svg" and root.get("viewBox")
    assert root.find(SVG + "title").text and report["machine"]["kernel"] in root.find(SVG + "desc").text
    bars = [rect for rect in root.iter(SVG + "rect") if rect.get("class") == "library"]
    limits = [rect for rect in root.iter(SVG + "rect") if rect.get("class") == "limit"]
    assert len(bars) == sum(row["note"] is None for row in report["rows"])
    assert len(limits) == sum(row["ratio"] is not None for row in report["rows"])
    texts = [text.text for text in root.iter(SVG + "text")]
    assert [text for text in texts if text in JOBS] == [row["job"] for row in report["rows"]]
    shown = iter(bars)
    for row in report["rows"]:
        if row["note"] is not None:
            assert row["note"] in texts
            continue
        width = float(next(shown).get("width"))
        if row["ratio"] is not None:
            assert any(f", {row['ratio']:.2f} of " in text and f"({row['limit']})" in text for text in texts)
            full = float(limits[0].get("width"))
            assert width == pytest.approx(min(row["ratio"], 1.6) * full, abs=0.06)


def test_for_a_person(done):
    report, _, table = done
    for name in [*MACHINE_LIMITS, *JOBS, *(device["spec"] for device in report["devices"])]:
        assert name in table
    for row in report["rows"]:
        assert row["note"] in table if row["note"] else f"{row['bytes_per_second'] / 1e9:.2f}" in table


def test_one_device(tmp_path):
    succeed("bench", "--rounds", "1", "--file-size", "100000", "--size", "8kB", "--device", "host", "--json", tmp_path / "b.json",
            environment={"TMPDIR": str(tmp_path)})
    report = json.loads((tmp_path / "b.json").read_bytes())
    assert [device["spec"] for device in report["devices"]] == ["host:0"]
    assert {row["device"] for row in report["rows"]} == {"host:0"}
    assert report["folder"] == str(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["b.json"]


def test_what_fails(tmp_path):
    missing = tmp_path / "missing"
    fail("bench", *TINY, "--device", "host", "--folder", missing, naming=missing, saying="No such file or directory")
    fail("bench", *TINY, "--device", "host", "--folder", "/proc/self", naming="/proc/self", saying="make a folder")
    fail("bench", *TINY, "--device", "host", "--folder", tmp_path, "--json", missing / "b.json", naming=missing / "b.json")
    fail("bench", *TINY, "--device", "host", "--folder", tmp_path, "--plot", tmp_path, naming=tmp_path)
    fail("bench", *TINY, "--device", "cuda:99", "--folder", tmp_path, naming="cuda:99")
    fail("bench", "--file-size", str(1 << 60), "--device", "host", "--folder", tmp_path, naming=tmp_path, saying="are free")
    for size in ("--size", "--file-size"):
        fail_usage("bench", size, "4095", "--folder", tmp_path, saying=f"{size} 4095: at least 4096 bytes")
        fail_usage("bench", size, "-1", "--folder", tmp_path, saying="at most")
    fail_usage("bench", "--rounds", "0", "--folder", tmp_path, saying="--rounds 0")
    assert list(tmp_path.iterdir()) == []


def test_file_size_limit(tmp_path):
    """What a full disk does, but for the reason: writing fails on the way."""
    script = 'ulimit -f 64; exec "$0" bench --device host --file-size 1MB --size 8kB --folder "$1"'
    ended = subprocess.run(["bash", "-c", script, COMMAND, tmp_path], stderr=subprocess.PIPE, timeout=60, check=False)
    message = ended.stderr.decode()
    assert ended.returncode == 1 and "elements.npy" in message and message.count("\n") == 1, message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt(tmp_path, number):
    command = [COMMAND, "bench", "--device", "host", "--folder", tmp_path, "--json", tmp_path / "b.json", "--rounds", "1000000",
               "--file-size", "1MB", "--size", "8kB"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("tandem-bench-*/elements.npy")):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == -number
    assert list(tmp_path.iterdir()) == []
