"""bench/peers: what is there is measured, what is not is listed; crashes and hangs are answers. Speed is not tested."""

import json
import pathlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from support import COMMAND

PEERS = pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers"
sys.path.insert(0, str(PEERS))

import elements  # noqa: E402
import process  # noqa: E402

TINY = ["--file-bytes", "40000", "--small-files", "3", "--rounds", "2", "--device", "host"]


def run(tmp_path, *arguments):
    files = tmp_path / "files"
    files.mkdir()
    command = [sys.executable, PEERS / "run.py", *TINY, "--folder", files, "--json", tmp_path / "p.json",
               "--plot", tmp_path / "p.svg"]
    done = subprocess.run([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False)
    assert done.returncode == 0 and done.stderr == b"", done.stderr.decode()
    assert list(files.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".copy") == ["files", "p.json", "p.svg"]
    return json.loads((tmp_path / "p.json").read_bytes()), done.stdout.decode(), ElementTree.parse(tmp_path / "p.svg").getroot()


def check_rows(report, table):
    for row in report["rows"]:
        assert (row["bytes_per_second"] is None) == (row["note"] is not None)
        assert row["peer"] in table and row["way"] in table
        if row["note"] is None:
            assert row["bytes_per_second"] > 0 and row["cpu_seconds_per_gb"] >= 0
    numpy = {row["job"]: row for row in report["rows"] if row["peer"] == "numpy"}
    assert set(numpy) == {"load", "add", "double", "small"}
    assert all(row["note"] is None for row in numpy.values()), numpy
    assert [numpy[job]["bytes"] for job in ("load", "add", "double", "small")] == [40000, 3 * 40000, 2 * 40000, 3 * 100000]
    return numpy


def test_all(tmp_path):
    report, table, picture = run(tmp_path, "--tandem", COMMAND)
    expected = ["numpy", "cupy", "torch", "safetensors", "numba", "pyopencl", "kvikio"]
    assert [name for name in report["status"] if not name.startswith("tandem")] == expected
    assert all(name in table and status in table for name, status in report["status"].items())
    assert report["status"]["numpy"] == f"{np.__version__} on host"
    listed = {row["peer"] for row in report["rows"]}
    for name in expected:
        is_absent = report["status"][name].startswith(("not installed", "needs ", "installed, but "))
        assert (name in listed) != is_absent, report["status"]
    check_rows(report, table)
    library = [row for row in report["rows"] if row["peer"] == "tandem"]
    assert {row["job"] for row in library} >= {"load", "add", "double"} and all(row["note"] is None for row in library)
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"


def test_without_the_worker(tmp_path):
    command = tmp_path / "tandem.copy"
    shutil.copy(COMMAND, command)
    report, table, _ = run(tmp_path, "--tandem", command, "--peers", "numpy")
    assert report["library"].startswith("tandem bench --json")
    assert list(report["status"]) == ["numpy"]
    numpy = check_rows(report, table)
    library = {row["job"]: row for row in report["rows"] if row["peer"] == "tandem"}
    assert set(library) == {"load", "add", "double"}
    for job, row in library.items():
        assert row["bytes"] == numpy[job]["bytes"] and row["of_library"] == 1
        assert numpy[job]["of_library"] == pytest.approx(numpy[job]["bytes_per_second"] / row["bytes_per_second"])


@pytest.mark.parametrize("count", [1, 4093, 300000 + 7])
def test_elements(tmp_path, count):
    expected = (np.arange(count) % 4093).astype("f4")
    offset = elements.write_npy(tmp_path / "a.npy", count)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), expected)
    assert offset % 64 == 0
    np.testing.assert_array_equal(np.fromfile(tmp_path / "a.npy", "f4", offset=offset), expected)
    elements.write_safetensors(tmp_path / "a.safetensors", count)
    data = (tmp_path / "a.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    assert header == {"elements": {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}}
    np.testing.assert_array_equal(np.frombuffer(data, "f4", offset=start), expected)
    assert elements.make_warm(tmp_path / "a.npy") is None


@pytest.mark.parametrize("script, words", [
    ("import os; os.abort()", "crashed: SIGABRT"),
    ("import sys; sys.exit('broken on purpose')", "exit status 1: broken on purpose"),
    ("import time; time.sleep(60)", "no answer within 0.5 s"),
    ("print('no JSON', flush=True)", "answered b'no JSON'"),
    ("""print('{"error": "out of memory"}', flush=True)""", "out of memory"),
])
def test_what_fails(script, words):
    timeout = 0.5 if "sleep" in script else 60
    worker = process.Worker("x", [sys.executable, "-c", script], timeout)
    try:
        with pytest.raises(process.Failed) as failure:
            worker.ask()
        assert words in str(failure.value)
    finally:
        worker.stop()


def test_wrong_results_are_found(tmp_path):
    """The worker's own check, given a file whose last element is not what it must be."""
    path = tmp_path / "a.npy"
    np.save(path, np.append(np.arange(99), 7).astype("f4"))
    worker = process.Worker("numpy", [sys.executable, PEERS / "worker.py", "numpy"], 60)
    try:
        ways = [way["job"] for way in worker.ask()["ways"]]
        task = {"do": "begin", "way": ways.index("load"), "file": str(path), "count": 100}
        assert worker.ask(task) == {}
        with pytest.raises(process.Failed, match="element 99 is 7.0, not 99.0"):
            worker.ask({"do": "run"})
        np.save(path, np.arange(100, dtype="f4"))
        assert worker.ask(task) == {} and worker.ask({"do": "run"})["seconds"] > 0
        with pytest.raises(process.Failed, match=r"shape is \(100,\), not \(101,\)"):
            worker.ask({**task, "count": 101})
            worker.ask({"do": "run"})
    finally:
        worker.stop()


def test_usage(tmp_path):
    for arguments, words in ((["--peers", "numpy,scipy"], "scipy"), (["--rounds", "0"], "above zero"),
                             (["--tandem", tmp_path / "none"], "no such command")):
        command = [sys.executable, PEERS / "run.py", "--folder", tmp_path, *arguments]
        done = subprocess.run(command, stderr=subprocess.PIPE, timeout=60, check=False)
        assert done.returncode != 0 and words in done.stderr.decode()
    assert list(tmp_path.iterdir()) == []


def test_kernels(tmp_path):
    folder = pathlib.Path(COMMAND).resolve().parent.parent
    if not (folder / "bench" / "tandem_bench_blas").is_file():
        pytest.skip("the benchmarks were not built")
    out = tmp_path / "k.json"
    command = [sys.executable, PEERS / "kernels.py", "--tandem", folder, "--device", "host", "--bytes", str(1 << 20), "--sizes",
               "16,33", "--rounds", "1", "--passes", "2", "--peers", "cupy,torch,numpy", "--json", out]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False)
    assert done.returncode == 0 and done.stderr == b"", done.stderr.decode()
    report, table = json.loads(out.read_bytes()), done.stdout.decode()
    assert list(report["status"]) == ["cupy", "torch", "numpy"]
    assert all(f"{name}: {status}" in table for name, status in report["status"].items())
    sizes = [f"{dtype} {size}" for dtype in ("float32", "float64", "float16") for size in (16, 33)]
    jobs = {"launch", "issue", "replay", "fused float32 1048576", "fused float64 1048576", *(f"gemm {size}" for size in sizes)}
    library = {row["job"]: row for row in report["rows"] if row["of_tandem"] == 1}
    assert set(library) == jobs and all(len(row["seconds"]) == 2 and row["figure"] > 0 for row in library.values())
    numpy = {row["job"]: row for row in report["rows"] if row["library"] == "numpy"}
    assert set(numpy) == {job for job in jobs if job.startswith(("fused", "gemm float32", "gemm float64"))}
    assert all(row["note"] is None and row["of_tandem"] > 0 for row in numpy.values())
