"""Runs one example in a folder of its own, where a.npy and b.npy are: run_example.py PROGRAM

The examples check their results themselves; what they write is checked here by NumPy too.
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    arguments = {
        "add_files": ["a.npy", "b.npy", "sum.npy"],
        "double_file": ["a.npy", "twice.npy"],
        # Room for one of the three.
        "mapped_files": ["4000", "sum.npy", "a.npy", "b.npy", "a.npy"],
        "raw_complex": ["recording.raw"],
        "large_file": ["a.npy", "twice.npy"],
        "own_kernel": ["a.npy", "clipped.npy"],
        "archive": ["ab.npz", "a", "b", "sum.npz"],
    }.get(program.name, [])
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        a = np.arange(1000, dtype=np.float32)
        b = np.linspace(-1, 1, 1000, dtype=np.float32)
        np.save(folder / "a.npy", a)
        np.save(folder / "b.npy", b)
        np.savez(folder / "ab.npz", a=a, b=b)
        (a + 1j * b).astype(np.complex64).tofile(folder / "recording.raw")
        subprocess.run([program, *arguments], cwd=folder, check=True)
        expected = {"first_program": {"sum.npy": a + b}, "add_files": {"sum.npy": a + b}, "double_file": {"twice.npy": a + a},
                    "large_file": {"twice.npy": a + a}, "own_kernel": {"clipped.npy": np.minimum(2 * a, np.float32(100))},
                    "mapped_files": {"sum.npy": a + b + a}, "archive": {"sum.npz": {"a": a, "sum": a + b}}}
        for name, values in expected.get(program.name, {}).items():
            np.testing.assert_equal(dict(np.load(folder / name)) if name.endswith(".npz") else np.load(folder / name), values)
        left = {path.name for path in folder.iterdir()} - {"a.npy", "b.npy", "ab.npz", "recording.raw"} - set(expected.get(program.name, {}))
        assert not left, f"left behind: {left}"


if __name__ == "__main__":
    main()
