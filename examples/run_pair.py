"""Runs the two programs that share an array, each on its device: run_pair.py WRITER READER WRITER_DEVICE READER_DEVICE [pinned]

Both check what they see themselves; here it is checked that both end well and leave nothing behind.
"""

import os
import pathlib
import subprocess
import sys
import tempfile


def main():
    writer, reader, writer_device, reader_device, *kind = sys.argv[1:]
    rounds = "20"
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_RUNTIME_DIR": folder}
        with subprocess.Popen([writer, writer_device, "example", rounds, *kind], env=environment, stdout=subprocess.PIPE, text=True) as first:
            try:
                ready = first.stdout.readline()  # by then the name is published
                assert ready, f"the writer ended with {first.wait()}"
                done = subprocess.run([reader, reader_device, "example", rounds], env=environment, stdout=subprocess.PIPE, text=True,
                                      timeout=100)
                assert done.returncode == 0, f"the reader ended with {done.returncode}"
                assert first.wait(60) == 0, f"the writer ended with {first.returncode}"
            finally:
                first.kill()
        left = list(pathlib.Path(folder).rglob("*.*"))
        assert not left, f"left behind: {left}"
        print(f"{writer_device} to {reader_device}, {rounds} rounds\nwriter: {ready}reader: {done.stdout}", end="")


if __name__ == "__main__":
    main()
