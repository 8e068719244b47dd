"""Processes that share an array and are killed at random points: what is left of them?

kill_share.py PROGRAM [--rounds N] [--device D] [--seed S]

One process publishes; N others attach and let go in turn, several at a time, each until SIGKILL comes at a random moment. Then
the publisher holds what it held before, and nothing is left of the others. At last the publisher is killed too: who has attached
goes on, and another publisher takes the name.
"""

import argparse
import collections
import os
import pathlib
import random
import subprocess
import tempfile
import time

SIDE_BY_SIDE = 4


def start(program, role, folder, device):
    return subprocess.Popen([program, role, folder, "name", device], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def expect_line(process, line):
    found = process.stdout.readline().decode().strip()
    assert found == line, (found, process.stderr.read().decode() if process.poll() is not None else "runs")


def memory_files(pid):
    """Inodes of the library's memfds that a process has open or maps."""
    inodes = set()
    try:
        for entry in os.listdir(f"/proc/{pid}/fd"):
            try:
                if os.readlink(f"/proc/{pid}/fd/{entry}").startswith("/memfd:tandem"):
                    inodes.add(os.stat(f"/proc/{pid}/fd/{entry}").st_ino)
            except OSError:
                pass
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            words = line.split(maxsplit=5)
            if len(words) > 5 and words[5].startswith("/memfd:tandem"):
                inodes.add(int(words[4]))
    except OSError:
        pass  # it has ended
    return inodes


def holdings(pid):
    """What a process holds: kinds of descriptors, and bytes that the library's memory takes in it."""
    kinds = collections.Counter()
    for entry in os.listdir(f"/proc/{pid}/fd"):
        kinds[os.readlink(f"/proc/{pid}/fd/{entry}").split(":[")[0]] += 1
    size, counts = 0, False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            counts = len(words) > 5 and words[5].startswith("/memfd:tandem")
        elif counts and words[0] == "Size:":
            size += int(words[1]) * 1024
    return {"descriptors": dict(kinds), "mapped bytes": size, "memfds": sorted(memory_files(pid))}


def settled(pid, expected):
    """What it holds, as soon as that is what is expected; connections of the killed are noticed in turn."""
    deadline = time.monotonic() + 30
    while holdings(pid) != expected and time.monotonic() < deadline:
        time.sleep(0.01)
    return holdings(pid)


def kill_rounds(arguments, folder, server, before):
    # How long a process takes until it has attached: half of them are not given more. The others are killed some time after they
    # have: starting takes longer where several do at once, on a GPU above all.
    began = time.monotonic()
    probe = start(arguments.program, "attach", folder, arguments.device)
    expect_line(probe, "attached")
    start_up = time.monotonic() - began
    probe.kill()
    probe.communicate()
    running = []
    attached, killed_before, failures = 0, 0, []
    for number in range(arguments.rounds + SIDE_BY_SIDE):
        if number < arguments.rounds:
            process = start(arguments.program, "attach", folder, arguments.device)
            running.append((time.monotonic() + random.uniform(0, start_up), process, number % 2 == 1))
        if len(running) < SIDE_BY_SIDE and number < arguments.rounds:
            continue
        running.sort(key=lambda entry: (entry[2], entry[0]))  # who is to be killed early does not wait for the others
        if not running:
            break
        moment, process, gets_on = running.pop(0)
        if gets_on:
            expect_line(process, "attached")
            time.sleep(random.uniform(0, 0.01))
        else:
            time.sleep(max(0, moment - time.monotonic()))
        if process.poll() is not None:
            failures.append(process.stderr.read().decode())
        process.kill()
        out, _ = process.communicate()
        times = out.count(b"attached") + gets_on
        attached += times
        killed_before += times == 0
    assert not failures, failures[:3]
    print(f"{arguments.rounds} processes killed, {killed_before} of them before they had "
          f"attached, the others after attaching {attached} times")
    assert attached > 0
    after = settled(server.pid, before)
    print(f"publisher before: {before}\npublisher after:  {after}")
    assert after == before


def publisher_killed(arguments, folder, server):
    holder = start(arguments.program, "hold", folder, arguments.device)
    expect_line(holder, "holds")
    server.kill()
    server.communicate()
    for _ in range(3):
        holder.stdin.write(b"\n")
        holder.stdin.flush()
        expect_line(holder, "right")
    print("publisher killed: who had attached goes on; its files:", sorted(os.listdir(folder)))
    inodes = memory_files(holder.pid)
    assert inodes
    successor = start(arguments.program, "serve", folder, arguments.device)
    expect_line(successor, "ready")
    probe = start(arguments.program, "attach", folder, arguments.device)
    expect_line(probe, "attached")
    probe.kill()
    probe.communicate()
    print("another publisher has the name, and is attached")
    out, errors = holder.communicate(timeout=60)
    assert b"has ended" in out and not errors, (out, errors)
    print("waiting for the killed one:", out.decode().strip())
    inodes |= memory_files(successor.pid)
    _, errors = successor.communicate(timeout=60)
    assert successor.returncode == 0 and not errors, errors
    return inodes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--device", default="host")
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        server = start(arguments.program, "serve", folder, arguments.device)
        expect_line(server, "ready")
        before = holdings(server.pid)
        inodes = memory_files(server.pid)
        assert inodes  # the fence's, and the array's where that is the host's memory
        kill_rounds(arguments, folder, server, before)
        assert sorted(os.listdir(folder)) == ["name.lock", "name.sock"]
        inodes |= publisher_killed(arguments, folder, server)
        assert os.listdir(folder) == []
        left = [pid for pid in os.listdir("/proc") if pid.isdigit() and memory_files(pid) & inodes]
        assert not left, left
        print(f"no process holds any of the {len(inodes)} memfds, no socket and no file is left; "
              f"{time.monotonic() - began:.1f} s in all")


if __name__ == "__main__":
    main()
