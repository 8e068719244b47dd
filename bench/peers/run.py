#!/usr/bin/env python3
"""Other libraries for arrays on the same files in the same run as this one; see README.md beside this file."""

import argparse
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import chart
import elements
from process import Failed, Worker

HERE = pathlib.Path(__file__).resolve().parent
PEERS = ["numpy", "cupy", "torch", "safetensors", "numba", "pyopencl", "kvikio"]
JOBS = {"load": "a warm .npy file into device memory", "add": "add in device memory", "double": "double in device memory",
        "small": "small files"}
SMALL_BYTES = 100_000
# The jobs of `tandem bench` that are the same as the ones here.
BENCH_JOBS = {"load a warm file": "load", "add in the device's memory": "add", "double in the device's memory": "double"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file-bytes", type=int, default=1 << 30, help="bytes of the .npy file's elements (1 GiB)")
    parser.add_argument("--array-bytes", type=int, help="bytes of an array in device memory (as the file, 1 GiB at most)")
    parser.add_argument("--small-files", type=int, default=1000, help="how many small files (1000)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count (5)")
    parser.add_argument("--timeout", type=float, default=120, help="seconds in which each answer has to come (120)")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where the files go for the time being")
    parser.add_argument("--peers", default=",".join(PEERS), help="which ones, by commas")
    parser.add_argument("--tandem", help="the build folder, or the command")
    parser.add_argument("--device", action="append", help="the library's devices; may be repeated (all there are)")
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument("--plot", help="file for the chart (SVG)")
    options = parser.parse_args()
    unknown = set(options.peers.split(",")) - set(PEERS)
    if unknown:
        parser.error(f"no peer is named {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    if min(options.file_bytes, options.array_bytes or 4, options.rounds * 4, options.small_files * 4) < 4:
        parser.error("sizes and counts must be above zero")
    options.array_bytes = (options.array_bytes or min(options.file_bytes, 1 << 30)) // 4 * 4
    options.file_bytes = options.file_bytes // 4 * 4
    return options


def find_library(place):
    """The command, and the worker where it was built."""
    place = pathlib.Path(place)
    folder = place if place.is_dir() else place.resolve().parent.parent
    command = place if place.is_file() else folder / "tools" / "tandem"
    if not command.is_file():
        sys.exit(f"{command}: there is no such command; --tandem takes a build folder or the command")
    worker = folder / "bench" / "tandem_bench_worker"
    return str(command), str(worker) if worker.is_file() else None


def library_devices(command, wanted):
    told = json.loads(subprocess.run([command, "devices", "--json"], check=True, stdout=subprocess.PIPE, timeout=120).stdout)
    return wanted or [device["spec"] for backend in told for device in backend["devices"]]


def show(text):
    """How far it has come, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)


class Contender:
    """One way of one peer to do a job."""

    def __init__(self, worker, described, kind, number):
        way = described["ways"][number]
        self.worker, self.number = worker, number
        self.row = {"job": way["job"], "peer": worker.name, "way": way["way"], "backend": described["backend"],
                    "device": described["device"], "device_short": described.get("short", described["backend"]),
                    "kind": "limit" if way.get("is_limit") else kind, "bytes": 0, "seconds": [], "cpu_seconds": [], "note": None}

    def attempt(self, action):
        if self.row["note"] is None:
            try:
                return action()
            except Failed as failure:
                self.row["note"] = str(failure)
        return None

    def run(self, counts):
        # The first run pays for what changed since the last one: another's turn, pages and pools of memory that are new.
        self.worker.ask({"do": "run"})
        taken = self.worker.ask({"do": "run"})
        if counts:
            self.row["seconds"].append(taken["seconds"])
            self.row["cpu_seconds"].append(taken["cpu_seconds"])


def start_workers(options, library):
    """Contenders of all that is there, and what is said of those that are not."""
    contenders, workers, status = [], [], {}
    asked = [(name, [sys.executable, str(HERE / "worker.py"), name], "peer", name) for name in options.peers.split(",")]
    if library and library[1]:
        asked[:0] = [("tandem", [library[1], "--device", spec], "library", f"tandem {spec}")
                     for spec in library_devices(library[0], options.device)]
    for name, command, kind, key in asked:
        worker = Worker(name, command, options.timeout)
        workers.append(worker)
        try:
            described = worker.ask()
        except Failed as failure:
            described = {"absent": str(failure)}
        if "absent" in described:
            status[key] = described["absent"]
            continue
        if kind == "library":
            described["short"] = key.split()[1]
        status[key] = f"{described['version']} on {described['device']}"
        contenders += [Contender(worker, described, kind, number) for number in range(len(described["ways"]))]
    return contenders, workers, status


def measure_job(job, contenders, options, files):
    group = [contender for contender in contenders if contender.row["job"] == job]
    moved = {"load": options.file_bytes, "add": 3 * options.array_bytes, "double": 2 * options.array_bytes,
             "small": SMALL_BYTES * options.small_files}[job]
    begun = {"do": "begin", "file": str(files["npy"]), "safetensors": str(files["safetensors"]),
             "small": [str(path) for path in files["small"]], "count": options.file_bytes // 4,
             "array_count": options.array_bytes // 4, "small_count": SMALL_BYTES // 4, "data_offset": files["data_offset"]}
    # A worker holds what one way needs at a time, or the device's memory would have to hold that of all.
    for round_number in range(-1, options.rounds):
        for contender in group:
            contender.row["bytes"] = moved
            if job == "load":
                path = files["safetensors"] if contender.row["peer"] == "safetensors" else files["npy"]
                contender.row["note"] = contender.row["note"] or elements.make_warm(path)
            contender.attempt(lambda: contender.worker.ask({**begun, "way": contender.number}))
            contender.attempt(lambda: contender.run(round_number >= 0))
            if contender.worker.is_alive:
                try:
                    contender.worker.ask({"do": "end"})
                except Failed as failure:
                    contender.row["note"] = contender.row["note"] or str(failure)
        show(f"{JOBS[job]}: round {round_number + 2} of {options.rounds + 1}")
    show("")
    return group


def library_bench(options, command, folder):
    """Rows from `tandem bench`, where its worker was not built: files of its own of the same size, before the peers' turns."""
    out = folder / "bench.json"
    rows = []
    for spec in options.device or [None]:
        call = [command, "bench", "--file-size", str(options.file_bytes), "--size", str(options.array_bytes),
                "--rounds", str(options.rounds), "--folder", str(folder), "--json", str(out)]
        call += ["--device", spec] if spec else []
        done = subprocess.run(call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=1800, check=False)
        if done.returncode != 0:
            sys.exit(f"tandem bench: {done.stderr.decode(errors='replace').strip()}")
        report = json.loads(out.read_bytes())
        names = {device["spec"]: device["name"] for device in report["devices"]}
        for row in report["rows"]:
            if row["job"] in BENCH_JOBS and row["bytes_per_second"]:
                rows.append({"job": BENCH_JOBS[row["job"]], "peer": "tandem", "way": "tandem bench",
                             "backend": row["device"].split(":")[0], "device": names[row["device"]],
                             "device_short": row["device"], "kind": "library", "bytes": row["bytes"],
                             "seconds": [row["bytes"] / row["bytes_per_second"]],
                             "cpu_seconds": [row["cpu_seconds_per_gb"] * row["bytes"] / 1e9], "note": row["note"]})
    return rows


def median(values):
    return sorted(values)[len(values) // 2]


def finish(rows):
    """Figures from times; the library's is the first of its rows with the same backend and job."""
    library = {}
    for row in rows:
        row["bytes_per_second"] = row["cpu_seconds_per_gb"] = row["of_library"] = None
        if row["note"] is None and row["seconds"]:
            row["bytes_per_second"] = row["bytes"] / max(median(row["seconds"]), 1e-9)
            row["cpu_seconds_per_gb"] = median(row["cpu_seconds"]) * 1e9 / row["bytes"]
            if row["kind"] == "library":
                library.setdefault((row["job"], row["backend"]), row["bytes_per_second"])
    for row in rows:
        own = library.get((row["job"], row["backend"]))
        if own and row["bytes_per_second"]:
            row["of_library"] = row["bytes_per_second"] / own


def table(report, options):
    print(f"{report['machine']['cpu']}, {report['machine']['processors']} processors, {report['machine']['kernel']}; Python "
          f"{platform.python_version()}; medians of {options.rounds} rounds in turns")
    print(f"the library: {report['library']}\n")
    for name, status in report["status"].items():
        print(f"  {name:<18} {status}")
    for job, words in JOBS.items():
        rows = [row for row in report["rows"] if row["job"] == job]
        if not rows:
            continue
        print(f"\n{words + ', ' + size_of(job, options):<74}{'GB/s':>10}{'CPU s/GB':>10}  of the library's")
        for row in rows:
            start = f"  {row['peer']:<12} {row['way']:<48} {row['device_short']:<9} "
            if row["bytes_per_second"] is None:
                print(start + (row["note"] or "no figure"))
                continue
            of_library = "" if row["of_library"] is None else f"{row['of_library']:8.3f}"
            each = f"   {median(row['seconds']) * 1e6 / options.small_files:.1f} us a file" if job == "small" else ""
            print(f"{start}{row['bytes_per_second'] / 1e9:10.2f}{row['cpu_seconds_per_gb']:10.3f}  {of_library}{each}")


def size_of(job, options):
    if job == "small":
        return f"{options.small_files} of {SMALL_BYTES} bytes"
    return f"{(options.file_bytes if job == 'load' else options.array_bytes) / (1 << 20):.4g} MiB"


def write_whole(path, make):
    """`make` writes to a name beside `path`, which it takes when it is whole."""
    path = pathlib.Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        result = make(part)
        os.replace(part, path)
        return result
    finally:
        part.unlink(missing_ok=True)


def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), platform.machine())
    except OSError:
        return platform.machine()


def make_files(options, folder):
    needed = 2 * options.file_bytes + SMALL_BYTES * options.small_files
    free = shutil.disk_usage(folder).free
    if needed > free:
        sys.exit(f"{folder}: {needed} bytes needed for the files, {free} are free")
    files = {"npy": folder / "elements.npy", "safetensors": folder / "elements.safetensors",
             "small": [folder / f"{number}.npy" for number in range(options.small_files)]}
    files["data_offset"] = elements.write_npy(files["npy"], options.file_bytes // 4)
    elements.write_safetensors(files["safetensors"], options.file_bytes // 4)
    for path in files["small"]:
        elements.write_npy(path, SMALL_BYTES // 4)
    return files


def measure(options, folder):
    library = find_library(options.tandem) if options.tandem else None
    files = make_files(options, folder)
    if library is None:
        source, rows = "left out: no --tandem", []
    elif library[1]:
        source, rows = "tandem_bench_worker, on the same files, in turns with the peers", []
    else:
        source = "tandem bench --json, on files of its own of the same size, before the peers"
        rows = library_bench(options, library[0], folder)
    contenders, workers, status = start_workers(options, library)
    try:
        for job in JOBS:
            rows += [contender.row for contender in measure_job(job, contenders, options, files)]
    finally:
        for worker in workers:
            worker.stop()
    finish(rows)
    return {"machine": {"cpu": cpu_name(), "processors": len(os.sched_getaffinity(0)),
                        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE"),
                        "kernel": f"{platform.system()} {platform.release()}"},
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "python": platform.python_version(), "library": source,
            "file_bytes": options.file_bytes, "array_bytes": options.array_bytes, "small_files": options.small_files,
            "rounds": options.rounds, "status": status, "rows": rows}


def main():
    options = arguments()
    # So that the files go as after an exception.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    try:
        with tempfile.TemporaryDirectory(prefix="tandem-peers-", dir=options.folder) as folder:
            report = measure(options, pathlib.Path(folder))
    except OSError as error:
        sys.exit(str(error))
    table(report, options)
    if options.json:
        write_whole(options.json, lambda path: path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8"))
    if options.plot:
        shown = [row for row in report["rows"] if row["bytes_per_second"]]
        groups = [(f"{words}, {size_of(job, options)}", [row for row in shown if row["job"] == job])
                  for job, words in JOBS.items()]
        drawn = write_whole(options.plot, lambda path: chart.draw([group for group in groups if group[1]],
                                                                  "tandem and its peers, GB/s in one run", path))
        print(f"\n{options.plot}: drawn by {drawn}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
