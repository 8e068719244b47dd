#!/usr/bin/env python3
"""Launches, fused expressions and products of matrices beside CuPy and PyTorch in one run; see README.md beside this file."""

import argparse
import json
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

from process import Failed, Worker

HERE = pathlib.Path(__file__).resolve().parent
PEERS = ["cupy", "torch", "numpy"]
WORDS = {"launch": "launch of a small kernel", "issue": "issue of a small a * x + y", "replay": "replay of 100 launches",
         "fused": "a * x + y", "gemm": "product"}
# The jobs of the library's benchmarks, by the names that they print.
NAMES = [(re.compile(r"launch of \d+ items"), lambda _: "launch"), (re.compile(r"issue a \* x \+ y"), lambda _: "issue"),
         (re.compile(r"replay of 100 launches"), lambda _: "replay"),
         (re.compile(r"a \* x \+ y (\w+) (\d+) MiB"), lambda found: f"fused {found[1]} {int(found[2]) << 20}"),
         (re.compile(r"gemm (\w+) (\d+)"), lambda found: f"gemm {found[1]} {found[2]}")]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tandem", required=True, help="the build folder")
    parser.add_argument("--device", default="cuda:0", help="the library's device (cuda:0)")
    parser.add_argument("--bytes", type=int, default=1 << 30, help="bytes of an array of the fused expression (1 GiB)")
    parser.add_argument("--sizes", default="4096,8192", help="rows and columns of the matrices, by commas")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count (5)")
    parser.add_argument("--passes", type=int, default=2, help="how often the library and then the peers have their turn (2)")
    parser.add_argument("--peers", default="cupy,torch", help="which ones, by commas")
    parser.add_argument("--timeout", type=float, default=300, help="seconds in which each answer has to come (300)")
    parser.add_argument("--json", help="file for the figures")
    options = parser.parse_args()
    unknown = set(options.peers.split(",")) - set(PEERS)
    if unknown:
        parser.error(f"no peer is named {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    try:
        options.sizes = [int(size) for size in options.sizes.split(",")]
    except ValueError:
        parser.error("--sizes takes numbers by commas")
    options.bytes = options.bytes >> 20 << 20  # whole MiB, as the library's jobs are named
    if min([options.bytes, options.rounds, options.passes, *options.sizes]) < 1:
        parser.error("sizes and counts must be above zero, and arrays of 1 MiB at least")
    for program in ("launch", "expression", "blas"):
        if not (pathlib.Path(options.tandem) / "bench" / f"tandem_bench_{program}").is_file():
            parser.error(f"{options.tandem} has no bench/tandem_bench_{program}: build the benchmarks")
    return options


def tasks(options):
    """By their keys, what peers are asked for; the repetitions are those of the library's benchmarks on a GPU."""
    found = {job: {"job": job} for job in ("launch", "issue", "replay")}
    is_host = options.device.startswith("host")
    for dtype in ("float32", "float64"):
        found[f"fused {dtype} {options.bytes}"] = {"job": "fused", "dtype": dtype, "bytes": options.bytes,
                                                   "repeats": 2 if is_host else 20}
    for dtype in ("float32", "float64", "float16"):
        for size in options.sizes:
            found[f"gemm {dtype} {size}"] = {"job": "gemm", "dtype": dtype, "size": size,
                                             "repeats": 1 if is_host else 16 if size <= 4096 else 2}
    return {key: {**task, "rounds": options.rounds} for key, task in found.items()}


def show(text):
    """How far it has come, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)


def library_rows(options, folder):
    """(key, whose, way, median seconds of one call) of everything that the library's benchmarks hold against each other."""
    calls = {"launch": [], "expression": ["--bytes", str(options.bytes)], "blas": ["--sizes", *map(str, options.sizes)]}
    for program, more in calls.items():
        show(f"tandem_bench_{program}")
        out = folder / f"{program}.json"
        command = [str(pathlib.Path(options.tandem) / "bench" / f"tandem_bench_{program}"), "--device", options.device,
                   "--rounds", str(options.rounds), "--json", str(out), *more]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=3600, check=False)
        if done.returncode != 0:
            sys.exit(f"tandem_bench_{program}: {done.stderr.decode(errors='replace').strip()}")
        for row in json.loads(out.read_bytes()):
            for pattern, key_of in NAMES:
                found = pattern.match(row["job"])
                if not found:
                    continue
                for candidate in row["candidates"]:
                    key = key_of(found)
                    yield (key, "tandem" if candidate["is_own"] else "raw", candidate["name"],
                           candidate["median_seconds"] / calls_of(row, key))


def calls_of(row, key):
    """How many calls a run of the library's has."""
    kind, *rest = key.split()
    if kind == "fused":
        return row["bytes"] / (3 * int(rest[1]))
    if kind == "gemm":
        return row["operations"] / (2 * int(rest[1]) ** 3)
    return row["calls"]


def figure(key, seconds):
    kind, *rest = key.split()
    if kind == "fused":
        return 3 * int(rest[1]) / seconds / 1e9, "GB/s"
    if kind == "gemm":
        return 2 * int(rest[1]) ** 3 / seconds / 1e9, "GFLOP/s"
    return seconds * 1e6, "us"


def median(values):
    return sorted(values)[len(values) // 2]


def measure(options):
    """The figures by key, library and way, and what is said of the peers."""
    seconds, notes, status, workers = {}, {}, {}, []
    for name in options.peers.split(","):
        worker = Worker(name, [sys.executable, str(HERE / "kernel_peers.py"), name], options.timeout)
        try:
            told = worker.ask()
        except Failed as failure:
            told = {"absent": str(failure)}
        if "absent" in told:
            status[name] = told["absent"]
            worker.stop()
            continue
        status[name] = f"{told['version']} on {told['device']}"
        workers.append(worker)
    wanted = tasks(options)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.passes):
            for key, name, way, taken in library_rows(options, pathlib.Path(folder)):
                seconds.setdefault((key, name, way), []).append(taken)
            for key, task in wanted.items():
                for worker in workers:
                    show(f"{worker.name}: {key}")
                    try:
                        ways = worker.ask(task)["ways"]
                    except Failed as failure:
                        ways = [{"way": "", "note": str(failure)}]
                    for way in ways:
                        place = (key, worker.name, way["way"])
                        if "note" in way:
                            notes[place] = way["note"]
                        else:
                            seconds.setdefault(place, []).extend(taken / way["calls"] for taken in way["seconds"])
    show("")
    for worker in workers:
        worker.stop()
    return seconds, notes, status


def rows_of(seconds, notes):
    rows, library = [], {}
    for (key, name, way), taken in seconds.items():
        value, unit = figure(key, median(taken))
        rows.append({"job": key, "library": name, "way": way, "seconds": taken, "figure": value, "unit": unit, "note": None})
        if name == "tandem":
            library.setdefault(key, value)  # its first way is the one that is measured
    rows += [{"job": key, "library": name, "way": way, "seconds": [], "figure": None, "unit": None, "note": note}
             for (key, name, way), note in notes.items()]
    for row in rows:
        own = library.get(row["job"])
        row["of_tandem"] = row["figure"] / own if row["figure"] is not None and own else None
    return rows


def words_of(key):
    kind, *rest = key.split()
    if kind == "fused":
        return f"{WORDS[kind]}, {rest[0]}, arrays of {int(rest[1]) >> 20} MiB"
    if kind == "gemm":
        return f"{WORDS[kind]} of {rest[1]} x {rest[1]}, {rest[0]}"
    return WORDS[kind]


def print_table(rows, keys):
    for key in keys:
        group = [row for row in rows if row["job"] == key]
        if not group:
            continue
        print(f"\n{words_of(key)}")
        for row in group:
            value = row["note"] or f"{row['figure']:10.3f} {row['unit']:<8}" + (
                f" {row['of_tandem']:6.3f} of tandem's {'time' if row['unit'] == 'us' else 'rate'}" if row["of_tandem"] else "")
            print(f"  {row['library']:<7} {row['way']:<52} {value}")


def main():
    options = arguments()
    seconds, notes, status = measure(options)
    rows = rows_of(seconds, notes)
    print(f"{platform.node() and platform.machine()}, {platform.system()} {platform.release()}; {options.device}; "
          f"{options.passes} passes of {options.rounds} rounds, medians")
    for name, text in status.items():
        print(f"{name}: {text}")
    print_table(rows, tasks(options))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"device": options.device, "status": status, "rows": rows}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
